"""Rows of the table of causes: overlays (EVPN, VXLAN) and their bridges."""

from __future__ import annotations

from typing import Final

from lab.diagnose.causes.cause import Cause
from lab.diagnose.symptoms import classes, floods, loss_symptoms, overlay_symptoms, path_symptoms, segments

OVERLAY_CAUSES: Final = (
    Cause(
        "evpn-vni-mismatch", "a leaf uses another VNI for a network than its siblings",
        needs=(overlay_symptoms.a_leaf_has_another_vni,),
        supports=(overlay_symptoms.is_not_flooded_to,),
        rival="evpn-rt-mismatch",
        tell="rocelab exec {node} -- ip -d link show type vxlan: the id of each tunnel, compared with a sibling",
        fix="set the VNI of {node}'s tunnel to that of its siblings for that network",
        words="Route targets are derived from the VNI: both sides advertise their routes, and neither imports the"
        " other's. Traffic between networks uses the tenant's VNI and still works.",
    ),
    Cause(
        "evpn-rt-mismatch", "a leaf imports a route target that the routes do not have",
        needs=(overlay_symptoms.another_target_is_imported,),
        supports=(overlay_symptoms.is_not_flooded_to,),
        rival="evpn-vni-mismatch",
        tell="rocelab vtysh {node} -c 'show bgp l2vpn evpn vni': import targets, compared with a sibling's export"
        " targets",
        fix="rocelab vtysh {node}: import the target of the VNI, or configure none: FRR derives it",
        words="Its BGP table has the routes of all other leaves, but none of them reaches its kernel. Sessions are"
        " up, and nothing raises an alarm.",
    ),
    Cause(
        "evpn-af-missing", "a leaf's sessions do not carry EVPN",
        needs=(overlay_symptoms.evpn_is_not_activated,),
        supports=(overlay_symptoms.is_not_flooded_to,),
        rival="evpn-no-imet",
        tell="rocelab vtysh {node} -c 'show bgp summary': whether its sessions are listed below L2VPN EVPN",
        fix="rocelab vtysh {node}: neighbor ... activate in address-family l2vpn evpn",
        words="Its sessions are up, but carry only the underlay: the whole overlay fails while no session is down.",
    ),
    Cause(
        "evpn-no-imet", "a leaf does not advertise its VNIs, so that no leaf floods to it",
        needs=(overlay_symptoms.vnis_are_not_told,),
        supports=(overlay_symptoms.is_not_flooded_to,),
        rival="evpn-af-missing",
        tell="rocelab vtysh {node} -c 'show bgp l2vpn evpn route type multicast': a type-3 route of each leaf",
        fix="rocelab vtysh {node}: advertise-all-vni in address-family l2vpn evpn",
        words="Without a type-3 route (RFC 7432 section 7.3) its siblings do not flood to it: ARP requests for its"
        " hosts do not arrive.",
    ),
    Cause(
        "vtep-unreachable", "no leaf has a route to the address of a leaf's tunnels",
        needs=(overlay_symptoms.nobody_has_a_route_to_its_tunnel,),
        supports=(overlay_symptoms.its_tunnel_is_not_announced,),
        excludes=(path_symptoms.a_link_is_down, path_symptoms.a_session_is_lost),
        rival="evpn-af-missing",
        tell="rocelab exec {node} -- ip address show lo, and ip route get of that address at another leaf",
        fix="rocelab vtysh {node}: announce it: in BGP network ADDRESS/32, in OSPF the loopback in the area",
        words="Its EVPN routes are advertised, but their next hop is unreachable, so that none of them is used. Its"
        " loopback may still answer.",
    ),
    Cause(
        "vxlan-mtu", "the MTU of a leaf's port is too small for the hosts' packets in a tunnel",
        needs=(overlay_symptoms.no_room_for_the_tunnel,),
        supports=(loss_symptoms.only_small_ones_pass, loss_symptoms.sent_again),
        nearby=("mtu-black-hole", "gray-loss"),
        rival="mtu-black-hole",
        tell="rocelab exec {node} -- ip link show {interface}, compared with the hosts' MTU and 50 bytes more",
        fix="rocelab exec {node} -- ip link set {interface} mtu ...: that of the hosts and at least 50 bytes more",
        words="VXLAN makes each packet 50 bytes longer. The longest packets of the hosts no longer fit, and are"
        " dropped where they arrive without an ICMP message.",
    ),
    Cause(
        "dscp-lost-in-vxlan", "a leaf's tunnels do not preserve the DSCP",
        needs=(overlay_symptoms.tunnels_do_not_inherit,),
        supports=(classes.changes_on_a_link,),
        explains=("dscp-map-mismatch", "dscp-rewritten", "incast"),
        rival="dscp-map-mismatch",
        tell="rocelab exec {node} -- ip -d link show type vxlan: tos inherit, compared with a sibling",
        fix="rocelab exec {node} -- ip link set TUNNEL type vxlan tos inherit, for each tunnel",
        words="The outer header has its own DSCP: beyond the leaf RoCE is in a class that is not lossless, is not"
        " paused, and is dropped. Hosts see the inner header, which is unchanged.",
    ),
    Cause(
        "duplicate-mac", "two hosts of a network have the same MAC",
        needs=(overlay_symptoms.hosts_have_one_mac,),
        rival="",
        tell="rocelab vtysh LEAF -c 'show evpn mac vni all': increasing sequence numbers, and duplicates",
        fix="give {node} its own MAC, then run clear evpn dup-addr on the leaves",
        words="Each frame of one host moves the MAC to its leaf. Packets alternate between two leaves, until"
        " duplicate detection (RFC 7432 section 15.1) freezes the MAC at one of them.",
    ),
    Cause(
        "gateway-mac-conflict", "a leaf's gateways have another MAC than those of all other leaves",
        needs=(overlay_symptoms.gateways_have_two_macs,),
        rival="",
        tell="rocelab exec {node} -- ip link show type vlan, compared with a sibling",
        fix="give {node}'s gateways the MAC of all others; hosts that learned the other MAC resolve it again",
        words="A host that uses the MAC of the anycast gateway reaches no gateway there, and nothing beyond its"
        " network, until it resolves the address again.",
    ),
    Cause(
        "esi-mismatch", "a leaf has another identifier for a host's Ethernet segment than the host's other leaves",
        needs=(segments.a_bond_has_two_segments,),
        rival="",
        tell="rocelab vtysh {node} -c 'show evpn es': no other VTEP has its segment, and it is the designated"
        " forwarder",
        fix="rocelab vtysh {node}: set the evpn mh es-id and es-sys-mac that the bond has at its other leaves",
        words="EVPN treats the host as two. Each of its leaves forwards flooded frames, and returns to the host the"
        " frames that it flooded itself. Other leaves have one path to it, and its MAC moves whenever it sends"
        " through the other leaf.",
    ),
    Cause(
        "spine-as-bottleneck", "a host broadcasts, and its leaf sends each frame to every other leaf",
        needs=(floods.more_leaves_than_came,),
        supports=(floods.an_uplink_drops,),
        explains=("incast",),
        rival="",
        tell="rocelab counters --priority {priority}: all hosts of the network receive the packets that {node}"
        " sends",
        fix="disconnect {node} and stop the program that broadcasts; use storm control at {peer}",
        words="With ingress replication each broadcast leaves its leaf once for every VTEP of the network: an"
        " uplink is full long before the host's own link, and its other traffic waits.",
    ),
    Cause(
        "link-down", "a link of a spanning tree is down, and the tree waits before it uses another one",
        needs=(path_symptoms.a_tree_lost_a_link,),
        explains=("link-flap",),
        rival="link-flap",
        tell="rocelab status: port states, and which links are blocked",
        fix="repair the link; or route between leaves with EVPN, which uses both uplinks and leaves a lost one at"
        " once",
        words="A blocked link forwards only after the root's last BPDU has expired and the ports have passed"
        " listening and learning. Until then, and again after the repair, hosts behind the link are disconnected.",
    ),
)  # fmt: skip
