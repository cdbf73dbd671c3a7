#!/bin/sh
set -eu
cat /etc/rocelab/hosts > /etc/hosts
ip link set dev eth1 mtu 9000 up
ip address replace 10.0.0.5/31 dev eth1
ip -4 route replace default via 10.0.0.4 dev eth1 proto static metric 100
command -v tc > /dev/null || { echo "no tc in this image: links have no rate" >&2; exit 0; }
tc qdisc replace dev eth1 root handle 1: tbf rate 100Mbit burst 18048 limit 577536 overhead 24 linklayer ethernet
