#!/bin/sh
: > /run/x/segments.asked
exec 9> /run/x/segments.lock
flock 9
rm /run/x/segments.asked 2> /dev/null || exit 0
vtysh -d zebra --vty_socket /run/x -c 'show evpn es detail' -c 'show evpn mac vni all' | awk '
  /^ESI:/ { segment = $2 }
  /^ Nexthop group:/ { group[segment] = $NF }
  /^VNI/ { vni = $2 }
  $2 == "remote" && ($3 in group) {
    print "fdb replace", $1, "dev vni" vni, "self nhid", group[$3], "extern_learn static"
  }
' | /etc/frr/scripts/bridge -force -batch -
