"""The table of causes: for each, the symptoms that indicate, support or exclude it, and its fix.

A cause is present at a place if all symptoms that it ``needs`` are found there and none that it ``excludes``. The
first symptom that it needs provides the place and the base confidence. Each symptom of ``supports`` that is found
adds to the confidence. Causes in ``explains`` are consequences of it, and are not reported. To add a cause, add a
row, and a symptom if none fits. A cause that can be recognised in two ways has two rows. A cause is named after the
scenario that shows it, or else after the fault. In ``tell`` and ``fix``, ``{place}``, ``{node}``, ``{port}``,
``{peer}`` and ``{priority}`` are replaced by those of the sign.
"""

from __future__ import annotations

from typing import Final

from lab.diagnose.causes.address_causes import ADDRESS_CAUSES
from lab.diagnose.causes.cause import Cause
from lab.diagnose.causes.class_causes import CLASS_CAUSES
from lab.diagnose.causes.overlay_causes import OVERLAY_CAUSES
from lab.diagnose.causes.pause_causes import PAUSE_CAUSES
from lab.diagnose.symptoms import (
    address_symptoms,
    full_queues,
    host_symptoms,
    loops,
    loss_symptoms,
    path_symptoms,
    probes,
    silent_daemons,
)

_UNROUTED: Final = ("one-path-only", "hash-polarisation", "elephant-collision", "rehash-on-failure", "acl-4791")
"""Consequences of a switch whose routes are no longer updated."""

CAUSES: Final = (
    *PAUSE_CAUSES,
    *CLASS_CAUSES,
    Cause(
        "hash-polarisation", "a switch sends all QPs by one of its equal ways",
        needs=(path_symptoms.many_flows_on_one_uplink,),
        excludes=(path_symptoms.fewer_next_hops_than_siblings,),
        explains=("incast",),
        rival="elephant-collision",
        tell="rocelab exec {node} -- sysctl net.ipv4.fib_multipath_hash_policy: 0 hashes addresses alone",
        fix="hash UDP source ports too, with another seed at each tier",
        words="Its hash sees one flow where there are many QPs: it looks at addresses alone, or with the same seed as"
        " the tier before. Its routes are as they should be.",
    ),
    Cause(
        "elephant-collision", "a few QPs share an uplink by bad luck, and another is idle",
        needs=(path_symptoms.few_flows_on_one_uplink,),
        excludes=(path_symptoms.fewer_next_hops_than_siblings,),
        explains=("incast",),
        rival="hash-polarisation",
        tell="rocelab exec {node} -- ip route get ADDRESS ipproto udp sport PORT dport 4791, for each QP",
        fix="use more QPs for each pair, or pin paths",
        words="Nothing is broken: the hash drew the same way for flows that are few. Each has half of what it could"
        " have.",
    ),
    Cause(
        "daemon-killed", "a routing daemon of a switch is gone",
        needs=(silent_daemons.a_daemon_is_gone,),
        explains=_UNROUTED,
        nearby=("vtep-unreachable",),
        rival="daemon-stopped",
        tell="rocelab exec {node} -- ps -e: whether zebra and those that tell it routes are there",
        fix="start it again, with all of FRR: on a switch systemctl restart frr",
        words="Links and ports are as they were. Its neighbours drop what they learnt of it as their timers run out.",
    ),
    Cause(
        "daemon-stopped", "a routing daemon of a switch stands still",
        needs=(silent_daemons.a_daemon_stands_still,),
        explains=_UNROUTED,
        nearby=("vtep-unreachable",),
        rival="daemon-killed",
        tell="rocelab exec {node} -- ps -eo stat,comm: T is stopped, D waits for the kernel, R loops",
        fix="have it go on (kill -CONT), or start FRR again: on a switch systemctl restart frr",
        words="Its sockets are open and it answers nobody. Its neighbours drop what they learnt of it as their timers"
        " run out.",
    ),
    Cause(
        "routing-loop", "switches send packets to one another in a circle",
        needs=(loops.packets_go_in_a_circle,),
        supports=(address_symptoms.a_ping_is_not_answered, loss_symptoms.sent_again),
        explains=("one-path-only",),
        nearby=("acl-4791", "gid-index", "hash-polarisation", "elephant-collision"),
        rival="acl-4791",
        tell="rocelab exec {node} -- ip route get ADDRESS, at each switch of the circle: a static route comes before"
        " what is learnt",
        fix="take the route that leads back off {node}: rocelab vtysh {node} -c 'show ip route' tells a static one"
        " from one of BGP",
        words="What is for these addresses goes around until its TTL is used up, and takes the rate of every link on"
        " its way. No port counts a drop.",
    ),
    Cause(
        "one-path-only", "a switch uses one of its equal paths",
        needs=(path_symptoms.fewer_next_hops_than_siblings,),
        excludes=(path_symptoms.a_link_is_down, path_symptoms.a_session_is_lost),
        explains=("incast", "hash-polarisation", "elephant-collision"),
        rival="hash-polarisation",
        tell="rocelab vtysh {node} -c 'show running-config': maximum-paths; of BGP, bestpath as-path multipath-relax",
        fix="rocelab vtysh {node}: maximum-paths 64; of OSPF the same cost on all uplinks, of BGP bestpath as-path"
        " multipath-relax",
        words="Links and sessions are up, and its routes have one next hop where its siblings have more.",
    ),
    Cause(
        "rehash-on-failure", "a link that carried nothing goes, and flows beside it change their ways",
        needs=(path_symptoms.flows_move_beside_a_link,),
        supports=(loss_symptoms.sent_again,),
        rival="link-flap",
        tell="rocelab exec {node} -- ip nexthop show, and ip route get with a QP's source port, before and after",
        fix="rocelab exec {node}: a resilient next-hop group, in which only what was on the lost link moves",
        words="The hash is divided anew among the ways that are left: flows that were never on the link go by ways of"
        " another length, overtake themselves, and are sent again.",
    ),
    Cause(
        "power-lost", "a switch above the leaves has lost all of its links at once",
        needs=(path_symptoms.a_spine_is_dark,),
        explains=("one-path-only",),
        nearby=("link-flap", "rehash-on-failure", "gray-loss", "mtu-black-hole"),
        rival="link-flap",
        tell="rocelab exec {node} -- ip -br link: whether all of its links are down, or one",
        fix="power {node}, or replace it; see rocelab counters for whether the switches beside it carry its share",
        words="Switches at the other ends of its links lose the carrier, and send by those beside it. No host is cut"
        " off as long as one of these is left; all of them share less.",
    ),
    Cause(
        "leaf-dies", "a leaf has lost all of its links at once",
        needs=(path_symptoms.a_leaf_is_dark,),
        explains=("one-path-only", "vtep-unreachable", "acl-4791"),
        nearby=("link-flap", "rehash-on-failure", "gray-loss", "mtu-black-hole"),
        rival="link-flap",
        tell="rocelab exec {node} -- ip -br link: whether all of its links are down, or one",
        fix="power {node}, or replace it; put hosts that are on it alone on another leaf too",
        words="Whoever is behind its links loses the carrier and goes on without it. Hosts that are on it alone are"
        " cut off until it is back; those on two leaves miss a moment.",
    ),
    Cause(
        "link-flap", "a link goes down, and may come back",
        needs=(path_symptoms.a_link_is_down,),
        supports=(path_symptoms.a_session_is_lost, loss_symptoms.sent_again),
        explains=("one-path-only", "acl-4791", "incast"),
        nearby=("gray-loss", "mtu-black-hole"),
        rival="gray-loss",
        tell="rocelab exec {node} -- ip -s link: carrier changes",
        fix="clean or replace optic and cable of {place}, or set up the end that is shut; drain the link meanwhile",
        words="Each time it goes, its session is lost, routes change, and what was under way is sent again.",
    ),
    *(
        Cause(
            "link-cut", title,
            needs=(loss_symptoms.nothing_arrives, noticed),
            excludes=(loss_symptoms.only_small_ones_pass,),
            explains=(*_UNROUTED, "incast"),
            nearby=("vtep-unreachable",),
            rival="gray-loss",
            tell="rocelab counters {port} {peer}: sent at one end, received at the other, in both directions",
            fix="replace optic and cable of {place}; BFD or UDLD on every link takes such a one out of use",
            words="Neither end has lost its carrier, and only a protocol between the two ends notices, whose timers"
            " run out. Until then each sends into it.",
        )
        for title, noticed in (
            ("a link is up, and what is sent into it does not arrive", path_symptoms.a_session_is_lost),
            ("a link is up, nothing sent into it arrives, and no route uses it", path_symptoms.no_route_goes_by_it),
        )
    ),
    Cause(
        "gray-loss", "a link loses packets, and no counter of a device says so",
        needs=(loss_symptoms.vanishes_on_a_link,),
        supports=(loss_symptoms.sent_again, probes.some_probes_vanish),
        excludes=(loss_symptoms.only_small_ones_pass,),
        rival="link-flap",
        tell="rocelab counters {port} {peer}: sent at one end, received at the other",
        fix="drain {place}, then replace optic and cable",
        words="More leaves one end than comes to the other. Nothing is down and nothing drops; QPs go back and send"
        " again all that followed.",
    ),
    Cause(
        "mtu-black-hole", "a link takes smaller packets than its neighbours: small works, large hangs",
        needs=(loss_symptoms.only_small_ones_pass,),
        supports=(loss_symptoms.sent_again, probes.only_small_probes_pass),
        rival="gray-loss",
        tell="rocelab exec {node} -- ip link, and ping -M do -s 1472 and -s 8000 over each path",
        fix="rocelab exec {peer_node} -- ip link set {peer_interface} mtu 9000: one MTU end to end",
        words="What is larger than the MTU of the end that receives is dropped there before anybody counts it, and no"
        " ICMP comes back. QPs with large packets time out for ever; small ones notice nothing.",
    ),
    Cause(
        "mtu-black-hole", "a link has a smaller MTU than its neighbours",
        needs=(loss_symptoms.smaller_than_its_siblings,),
        supports=(probes.only_small_probes_pass,),
        rival="",
        tell="rocelab exec {node} -- ip link, and ping -M do -s 1472 and -s 8000 over each path",
        fix="rocelab exec {node} -- ip link set {interface} mtu 9000, and so at the other end: one MTU end to end",
        words="Nothing large passes there now. What is larger than that, and goes that way, would not arrive.",
    ),
    Cause(
        "mtu-black-hole", "a host's link takes smaller packets than those of its siblings",
        needs=(host_symptoms.a_host_has_a_smaller_mtu,),
        supports=(probes.only_small_probes_pass,),
        rival="",
        tell="rocelab exec {node} -- ip link, beside that of {peer_node}, and ping -M do -s 1472 and -s 8000 to it",
        fix="rocelab exec {node} -- ip link set {interface} mtu 9000, and so at the other end: one MTU end to end",
        words="Small packets pass and large ones do not. RDMA connections that are made now agree on smaller ones,"
        " which hides it.",
    ),
    Cause(
        "gid-index", "a program uses a GID index at which its address is not any more",
        needs=(loss_symptoms.an_address_has_moved,),
        supports=(loss_symptoms.swallowed_by_a_switch,),
        explains=("acl-4791",),
        rival="acl-4791",
        tell="rocelab rdma show: the index of each GID of {node}",
        fix="look the index up again (ibv_devinfo -v, show_gids) where a program was told it once",
        words="The address was taken off its NIC and given back, and another has its place in the GID table. The QP"
        " speaks for an address that nobody routes to.",
    ),
    Cause(
        "rdma-device-lost", "a host's RDMA device is gone",
        needs=(host_symptoms.its_device_is_gone,),
        supports=(loss_symptoms.sent_again,),
        nearby=("acl-4791", "gid-index"),
        rival="acl-4791",
        tell="rocelab exec {node} -- rdma link: whether there is a device on {interface}",
        fix="rocelab exec {node} -- rdma link add NAME type rxe netdev {interface}, NAME as rocelab status has it; on"
        " a real host load the driver again",
        words="Its interface is up and answers pings, and no device takes in what comes for UDP 4791: whoever writes"
        " to it times out, and its own programs find no device.",
    ),
    Cause(
        "acl-4791", "a switch filters RoCE: ping works, RDMA times out",
        needs=(loss_symptoms.swallowed_by_a_switch,),
        supports=(loss_symptoms.a_filter_counts, probes.no_probe_passes),
        excludes=(loss_symptoms.an_address_has_moved,),
        rival="gid-index",
        tell="rocelab exec {node} -- nft list ruleset: hits of a rule on udp dport 4791",
        fix="permit UDP 4791 at {node}",
        words="RDMA comes to the switch and does not leave it, no port counts a drop, and everything else passes.",
    ),
    Cause(
        "acl-4791", "a host filters RoCE: ping works, RDMA times out",
        needs=(host_symptoms.a_host_takes_nothing_in,),
        supports=(loss_symptoms.a_filter_counts, host_symptoms.no_probe_leaves),
        excludes=(loss_symptoms.an_address_has_moved,),
        rival="gid-index",
        tell="rocelab exec {node} -- nft list ruleset: hits of a rule on udp dport 4791",
        fix="permit UDP 4791 at {node}, in both directions",
        words="RDMA comes to its NIC and not to its RDMA device, which answers nobody; everything else passes.",
    ),
    Cause(
        "link-rate", "a link came up slower than its siblings",
        needs=(full_queues.slower_than_its_siblings,),
        explains=("incast", "victim-flow"),
        rival="incast",
        tell="rocelab qos show {place}: rate, beside that of a sibling; on a switch ethtool {interface}: speed",
        fix="clean or replace optic and cable of {place}, and give both ends the speed of their siblings",
        words="Equal paths are chosen as if links were equal: this one is full before its siblings are, and what"
        " waits for it has everybody paused who sends there.",
    ),
    Cause(
        "parking-lot", "PFC divides by port: the nearer a sender is, the more it gets",
        needs=(full_queues.the_near_get_more,),
        explains=("incast",),
        rival="incast",
        tell="rocelab counters --watch: rates of the senders, by how many switches lie before {place}",
        fix="let congestion control find rates (DCQCN), so that PFC does not have to",
        words="Nothing is broken. Each switch divides its link among its ports, whoever is behind them: a sender that"
        " shares a port with others gets a part of a part.",
    ),
    Cause(
        "victim-flow", "a pair that shares no bottleneck with anybody is paused for others",
        needs=(full_queues.paused_for_the_sake_of_others,),
        explains=("incast",),
        rival="incast",
        tell="rocelab congestion: the queue that is full is not on its way",
        fix="a lossless class of its own, or ECN that slows the others down before PFC does",
        words="PFC pauses a class of a port, not a flow: who sends by the same port stops, whatever its own way is"
        " like.",
    ),
    Cause(
        "incast", "no fault: capacity",
        needs=(full_queues.a_link_is_full,),
        rival="",
        tell="rocelab congestion: whose queue is full, and who is paused for it",
        fix="fewer senders at once, or a faster link",
        words="The link is full, and those who share it wait. That is what it was built for.",
        fault=False,
    ),
    *OVERLAY_CAUSES,
    *ADDRESS_CAUSES,
)  # fmt: skip
