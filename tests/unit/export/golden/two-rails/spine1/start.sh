#!/bin/sh
set -eu
cat /etc/rocelab/hosts > /etc/hosts
ip address replace 10.254.0.1/32 dev lo
ip address replace fdc0:0:0:2::1/128 dev lo nodad
ip link set dev swp1 mtu 4200 up
ip link set dev swp2 mtu 9000 up
ip link set dev swp3 mtu 4200 up
command -v tc > /dev/null || { echo "no tc in this image: links have no rate" >&2; exit 0; }
tc qdisc replace dev swp1 root handle 1: tbf rate 1Gbit burst 125000 limit 625000 overhead 24 linklayer ethernet
tc qdisc replace dev swp1 parent 1:1 handle 2: netem delay 2500ns limit 9771
tc qdisc replace dev swp2 root handle 1: tbf rate 100Mbit burst 18048 limit 577536 overhead 24 linklayer ethernet
tc qdisc replace dev swp3 root handle 1: tbf rate 100Mbit burst 12500 limit 270336 overhead 24 linklayer ethernet
