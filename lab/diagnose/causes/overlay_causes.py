"""Rows of the table of causes: overlays (EVPN, VXLAN) and their bridges."""

from __future__ import annotations

from typing import Final

from lab.diagnose.causes.cause import Cause
from lab.diagnose.symptoms import classes, floods, loss_symptoms, overlay_symptoms, path_symptoms, segments

OVERLAY_CAUSES: Final = (
    Cause(
        "evpn-vni-mismatch", "a leaf has another VNI for a network than its siblings",
        needs=(overlay_symptoms.a_leaf_has_another_vni,),
        supports=(overlay_symptoms.is_not_flooded_to,),
        rival="evpn-rt-mismatch",
        tell="rocelab exec {node} -- ip -d link show type vxlan: the id of each tunnel, beside a sibling's",
        fix="give {node}'s tunnel the VNI that its siblings have for that network",
        words="Route targets are made of the VNI: both sides tell their routes, and neither takes the other's over."
        " What goes between networks takes the tenant's VNI, and is well.",
    ),
    Cause(
        "evpn-rt-mismatch", "a leaf imports another route target than the routes have",
        needs=(overlay_symptoms.another_target_is_imported,),
        supports=(overlay_symptoms.is_not_flooded_to,),
        rival="evpn-vni-mismatch",
        tell="rocelab vtysh {node} -c 'show bgp l2vpn evpn vni': import targets, beside a sibling's export targets",
        fix="rocelab vtysh {node}: import what belongs to the VNI, or no target by name: FRR derives it",
        words="Its BGP table has everything that others tell, and its kernel gets none of it. Sessions stand, and"
        " nothing alarms.",
    ),
    Cause(
        "evpn-af-missing", "a leaf's sessions do not carry EVPN",
        needs=(overlay_symptoms.evpn_is_not_activated,),
        supports=(overlay_symptoms.is_not_flooded_to,),
        rival="evpn-no-imet",
        tell="rocelab vtysh {node} -c 'show bgp summary': whether its sessions are listed below L2VPN EVPN",
        fix="rocelab vtysh {node}: neighbor ... activate in address-family l2vpn evpn",
        words="Its sessions stand, for the underlay alone: all of the overlay is dark, and no session is down.",
    ),
    Cause(
        "evpn-no-imet", "a leaf tells nobody of its VNIs, and nobody floods to it",
        needs=(overlay_symptoms.vnis_are_not_told,),
        supports=(overlay_symptoms.is_not_flooded_to,),
        rival="evpn-af-missing",
        tell="rocelab vtysh {node} -c 'show bgp l2vpn evpn route type multicast': a type-3 route of each leaf",
        fix="rocelab vtysh {node}: advertise-all-vni in address-family l2vpn evpn",
        words="Without a type-3 route (RFC 7432 section 7.3) its siblings do not flood to it: who asks for the"
        " address of one of its hosts is not heard.",
    ),
    Cause(
        "vtep-unreachable", "nobody has a route to the address of a leaf's tunnels",
        needs=(overlay_symptoms.nobody_has_a_route_to_its_tunnel,),
        supports=(overlay_symptoms.its_tunnel_is_not_announced,),
        excludes=(path_symptoms.a_link_is_down, path_symptoms.a_session_is_lost),
        rival="evpn-af-missing",
        tell="rocelab exec {node} -- ip address show lo, and ip route get of that address at another leaf",
        fix="rocelab vtysh {node}: announce it: of BGP network ADDRESS/32, of OSPF the loopback in the area",
        words="Its EVPN routes are told to all who ask, and their next hop leads nowhere: none of them is used. Its"
        " loopback may answer all the same.",
    ),
    Cause(
        "vxlan-mtu", "a leaf's port has no room for a host's packet in a tunnel",
        needs=(overlay_symptoms.no_room_for_the_tunnel,),
        supports=(loss_symptoms.only_small_ones_pass, loss_symptoms.sent_again),
        nearby=("mtu-black-hole", "gray-loss"),
        rival="mtu-black-hole",
        tell="rocelab exec {node} -- ip link show {interface}, beside the hosts' MTU and 50 bytes more",
        fix="rocelab exec {node} -- ip link set {interface} mtu ...: that of the hosts, and 50 bytes at least",
        words="VXLAN makes each packet 50 bytes longer. Those that were as long as they may be do not fit, are"
        " dropped where they come in, and no ICMP goes back.",
    ),
    Cause(
        "dscp-lost-in-vxlan", "a leaf's tunnels lose the DSCP",
        needs=(overlay_symptoms.tunnels_do_not_inherit,),
        supports=(classes.mapped_otherwise,),
        explains=("dscp-map-mismatch", "incast"),
        rival="dscp-map-mismatch",
        tell="rocelab exec {node} -- ip -d link show type vxlan: tos inherit, beside a sibling's",
        fix="rocelab exec {node} -- ip link set TUNNEL type vxlan tos inherit, of each tunnel",
        words="Outer headers have a DSCP of their own: behind the leaf RoCE is in a class that is not lossless, no"
        " pause holds it up, and it is dropped. Hosts see the inner header, which is as it was.",
    ),
    Cause(
        "duplicate-mac", "two hosts of a network have one MAC",
        needs=(overlay_symptoms.hosts_have_one_mac,),
        rival="",
        tell="rocelab vtysh LEAF -c 'show evpn mac vni all': sequence numbers that climb, and duplicates",
        fix="give {node} a MAC of its own, then clear evpn dup-addr on the leaves",
        words="Each frame of one takes the MAC from the other: what is for it goes to and fro between two leaves,"
        " until they call it a duplicate and leave it where it was.",
    ),
    Cause(
        "gateway-mac-conflict", "a leaf's gateways have another MAC than all others",
        needs=(overlay_symptoms.gateways_have_two_macs,),
        rival="",
        tell="rocelab exec {node} -- ip link show type vlan, beside a sibling's",
        fix="give {node}'s gateways the MAC of all others; hosts that learnt the other ask anew",
        words="A host that knows the anycast gateway by its MAC sends to nobody there: it reaches nothing beyond its"
        " network until it asks anew.",
    ),
    Cause(
        "esi-mismatch", "a leaf has another identifier for a host's Ethernet segment than the host's other leaves",
        needs=(segments.a_bond_has_two_segments,),
        rival="",
        tell="rocelab vtysh {node} -c 'show evpn es': no VTEP beside its own segment, and it forwards",
        fix="rocelab vtysh {node}: the evpn mh es-id and es-sys-mac that the bond has at its other leaves",
        words="To EVPN the host is two: each of its leaves forwards what is flooded, and gives back to the host what"
        " it floods itself. Others have one way to it, and its MAC moves whenever it speaks by the other leaf.",
    ),
    Cause(
        "spine-as-bottleneck", "a host broadcasts, and its leaf sends each frame to every other leaf",
        needs=(floods.more_leaves_than_came,),
        supports=(floods.an_uplink_drops,),
        explains=("incast",),
        rival="",
        tell="rocelab counters --priority {priority}: all hosts of one network get what {node} sends",
        fix="take {node} off its network and mend what broadcasts there; storm control at {peer}",
        words="By ingress replication each broadcast leaves its leaf once for every VTEP of the network: an uplink is"
        " full long before the host's own link is, and all that share its queue wait.",
    ),
    Cause(
        "link-down", "a link of a spanning tree is down, and the tree waits before it uses another one",
        needs=(path_symptoms.a_tree_lost_a_link,),
        explains=("link-flap",),
        rival="link-flap",
        tell="rocelab status: the states of ports, and which links are blocked",
        fix="repair the link; or route between leaves, by EVPN: both uplinks carry, and a lost one is left at once",
        words="Links that the tree has blocked carry only when what was heard of the root is forgotten, and ports"
        " have listened and learnt: hosts behind the link are cut off meanwhile, and once more when it is repaired.",
    ),
)  # fmt: skip
