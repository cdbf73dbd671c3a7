#!/bin/sh
set -eu
cat /etc/rocelab/hosts > /etc/hosts
ip address replace 172.20.0.2/32 dev lo
ip address replace 10.252.0.2/32 dev lo
ip address replace fdc0:0:0:1::2/128 dev lo nodad
ip link set dev swp1 mtu 4200 up
ip link set dev swp2 mtu 4200 up
ip address replace fdc0:0:1:1::1/64 dev swp2 nodad
ip link set dev swp3 mtu 4200 up
ip address replace fdc0:0:1:3::1/64 dev swp3 nodad
command -v tc > /dev/null || { echo "no tc in this image: links have no rate" >&2; exit 0; }
tc qdisc replace dev swp1 root handle 1: tbf rate 100Mbit burst 12500 limit 270336 overhead 24 linklayer ethernet
tc qdisc replace dev swp2 root handle 1: tbf rate 100Mbit burst 12500 limit 270336 overhead 24 linklayer ethernet
tc qdisc replace dev swp3 root handle 1: tbf rate 100Mbit burst 12500 limit 270336 overhead 24 linklayer ethernet
