#!/bin/sh
set -eu
cat /etc/rocelab/hosts > /etc/hosts
ip link set dev eth2 mtu 4200 up
ip address replace fdc0:0:1:2::2/64 dev eth2 nodad
ip link set dev eth1 mtu 4200 up
ip address replace fdc0:0:1:3::2/64 dev eth1 nodad
ip -6 route replace default via fdc0:0:1:2::1 dev eth2 proto static metric 100
ip -6 route replace default via fdc0:0:1:2::1 dev eth2 proto static table 100
ip -6 rule delete from fdc0:0:1:2::2 table 100 priority 100 2> /dev/null || :
ip -6 rule add from fdc0:0:1:2::2 table 100 priority 100
ip -6 route replace default via fdc0:0:1:3::1 dev eth1 proto static metric 101
ip -6 route replace default via fdc0:0:1:3::1 dev eth1 proto static table 101
ip -6 rule delete from fdc0:0:1:3::2 table 101 priority 101 2> /dev/null || :
ip -6 rule add from fdc0:0:1:3::2 table 101 priority 101
command -v tc > /dev/null || { echo "no tc in this image: links have no rate" >&2; exit 0; }
tc qdisc replace dev eth2 root handle 1: tbf rate 100Mbit burst 12500 limit 270336 overhead 24 linklayer ethernet
tc qdisc replace dev eth1 root handle 1: tbf rate 100Mbit burst 12500 limit 270336 overhead 24 linklayer ethernet
