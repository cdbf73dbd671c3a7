#!/bin/sh
set -eu
cat /etc/rocelab/hosts > /etc/hosts
ip address replace 172.20.0.1/32 dev lo
ip address replace 10.252.0.1/32 dev lo
ip address replace fdc0:0:0:1::1/128 dev lo nodad
ip link set dev swp1 mtu 9000 up
ip link set dev swp2 mtu 4200 up
ip address replace fdc0:0:1::1/64 dev swp2 nodad
ip link set dev swp7 mtu 4200 up
ip address replace fdc0:0:1:2::1/64 dev swp7 nodad
command -v tc > /dev/null || { echo "no tc in this image: links have no rate" >&2; exit 0; }
tc qdisc replace dev swp1 root handle 1: tbf rate 100Mbit burst 18048 limit 577536 overhead 24 linklayer ethernet
tc qdisc replace dev swp2 root handle 1: tbf rate 100Mbit burst 12500 limit 270336 overhead 24 linklayer ethernet
tc qdisc replace dev swp2 parent 1:1 handle 2: netem delay 1ms limit 4419
tc qdisc replace dev swp7 root handle 1: tbf rate 100Mbit burst 12500 limit 270336 overhead 24 linklayer ethernet
