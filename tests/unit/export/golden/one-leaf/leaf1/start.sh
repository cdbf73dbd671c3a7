#!/bin/sh
set -eu
cat /etc/rocelab/hosts > /etc/hosts
if [ -e /proc/sys/net/ipv4/fib_multipath_hash_seed ]; then echo 3178497901 > /proc/sys/net/ipv4/fib_multipath_hash_seed; fi
ip address replace 10.253.0.1/32 dev lo
ip address replace 10.252.0.1/32 dev lo
ip address replace fdc0:0:0:1::1/128 dev lo nodad
ip link set dev swp1 mtu 9000 up
ip address replace 10.0.0.0/31 dev swp1
ip link set dev swp2 mtu 9000 up
ip address replace 10.0.0.2/31 dev swp2
ip link set dev swp3 mtu 9000 up
ip address replace 10.0.0.4/31 dev swp3
command -v tc > /dev/null || { echo "no tc in this image: links have no rate" >&2; exit 0; }
tc qdisc replace dev swp1 root handle 1: tbf rate 100Mbit burst 18048 limit 577536 overhead 24 linklayer ethernet
tc qdisc replace dev swp2 root handle 1: tbf rate 100Mbit burst 18048 limit 577536 overhead 24 linklayer ethernet
tc qdisc replace dev swp3 root handle 1: tbf rate 100Mbit burst 18048 limit 577536 overhead 24 linklayer ethernet
