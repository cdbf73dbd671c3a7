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
from lab.diagnose.causes.congestion_causes import CONGESTION_CAUSES
from lab.diagnose.causes.conservation_causes import CONSERVATION_CAUSES
from lab.diagnose.causes.job_causes import JOB_CAUSES
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
    *CONGESTION_CAUSES,
    *JOB_CAUSES,
    Cause(
        "hash-polarisation", "a switch sends all QPs over one of its equal-cost paths",
        needs=(path_symptoms.many_flows_on_one_uplink,),
        excludes=(path_symptoms.fewer_next_hops_than_siblings,),
        explains=("incast",),
        rival="elephant-collision",
        tell="rocelab exec {node} -- sysctl net.ipv4.fib_multipath_hash_policy: 0 hashes addresses alone",
        fix="hash UDP source ports too, with another seed at each tier",
        words="Its ECMP hash gives many QPs the same value: it uses addresses only, or the same seed as the tier"
        " before. Its routes are correct.",
    ),
    Cause(
        "elephant-collision", "a few QPs hash to the same uplink, and another uplink is idle",
        needs=(path_symptoms.few_flows_on_one_uplink,),
        excludes=(path_symptoms.fewer_next_hops_than_siblings,),
        explains=("incast",),
        rival="hash-polarisation",
        tell="rocelab exec {node} -- ip route get ADDRESS ipproto udp sport PORT dport 4791, for each QP",
        fix="use more QPs for each pair, or pin paths",
        words="Nothing is broken: with few flows, the hash can choose one uplink for several of them. Each gets"
        " half of the rate that it could have.",
    ),
    Cause(
        "daemon-killed", "a routing daemon of a switch is not running",
        needs=(silent_daemons.a_daemon_is_gone,),
        explains=_UNROUTED,
        nearby=("vtep-unreachable",),
        rival="daemon-stopped",
        tell="rocelab exec {node} -- ps -e: whether zebra and the protocol daemons (bgpd, ospfd) run",
        fix="restart all of FRR: on a switch systemctl restart frr",
        words="Links and ports have not changed. Its neighbours remove the routes learned from it when their timers"
        " expire.",
    ),
    Cause(
        "daemon-stopped", "a routing daemon of a switch hangs",
        needs=(silent_daemons.a_daemon_stands_still,),
        explains=_UNROUTED,
        nearby=("vtep-unreachable",),
        rival="daemon-killed",
        tell="rocelab exec {node} -- ps -eo stat,comm: T is stopped, D waits for the kernel, R loops",
        fix="resume it (kill -CONT), or restart FRR: on a switch systemctl restart frr",
        words="Its sockets are open, but it does not answer. Its neighbours remove the routes learned from it when"
        " their timers expire.",
    ),
    Cause(
        "routing-loop", "switches forward packets in a loop",
        needs=(loops.packets_go_in_a_circle,),
        supports=(address_symptoms.a_ping_is_not_answered, loss_symptoms.sent_again),
        explains=("one-path-only",),
        nearby=("acl-4791", "gid-index", "hash-polarisation", "elephant-collision"),
        rival="acl-4791",
        tell="rocelab exec {node} -- ip route get ADDRESS, at each switch of the loop: a static route takes"
        " precedence over learned routes",
        fix="remove the route that points back from {node}: rocelab vtysh {node} -c 'show ip route' shows whether"
        " it is static or from BGP",
        words="Packets to these addresses circulate until their TTL expires, and use up the bandwidth of every link"
        " of the loop. No port counts a drop.",
    ),
    Cause(
        "one-path-only", "a switch uses only one of its equal-cost paths",
        needs=(path_symptoms.fewer_next_hops_than_siblings,),
        excludes=(path_symptoms.a_link_is_down, path_symptoms.a_session_is_lost),
        explains=("incast", "hash-polarisation", "elephant-collision"),
        rival="hash-polarisation",
        tell="rocelab vtysh {node} -c 'show running-config': maximum-paths; for BGP also bestpath as-path"
        " multipath-relax",
        fix="rocelab vtysh {node}: maximum-paths 64; for OSPF the same cost on all uplinks, for BGP bestpath"
        " as-path multipath-relax. Or a route map or a prefix list filters one of its sessions",
        words="Links and sessions are up, but its routes have one next hop while those of its siblings have more.",
    ),
    Cause(
        "rehash-on-failure", "an unused link goes down, and flows on the links beside it change their paths",
        needs=(path_symptoms.flows_move_beside_a_link,),
        supports=(loss_symptoms.sent_again,),
        rival="link-flap",
        tell="rocelab exec {node} -- ip nexthop show, and ip route get with a QP's source port, before and after",
        fix="rocelab exec {node}: use a resilient next-hop group, which moves only the flows of the lost link",
        words="The hash is redistributed over the remaining paths. Flows that never used the link move to paths of"
        " another length, arrive out of order, and are retransmitted.",
    ),
    Cause(
        "power-lost", "a switch above the leaves has lost all of its links at once",
        needs=(path_symptoms.a_spine_is_dark,),
        explains=("one-path-only",),
        nearby=("link-flap", "rehash-on-failure", "gray-loss", "mtu-black-hole"),
        rival="link-flap",
        tell="rocelab exec {node} -- ip -br link: whether all of its links are down, or one",
        fix="power {node}, or replace it; check with rocelab counters that the switches beside it carry its share",
        words="Switches at the other ends of its links lose the carrier and use the switches beside it. Hosts stay"
        " connected while one of these is left, and share less bandwidth.",
    ),
    Cause(
        "leaf-dies", "a leaf has lost all of its links at once",
        needs=(path_symptoms.a_leaf_is_dark,),
        explains=("one-path-only", "vtep-unreachable", "acl-4791"),
        nearby=("link-flap", "rehash-on-failure", "gray-loss", "mtu-black-hole"),
        rival="link-flap",
        tell="rocelab exec {node} -- ip -br link: whether all of its links are down, or one",
        fix="power {node}, or replace it; connect its single-homed hosts to a second leaf",
        words="Its neighbours lose the carrier and route around it. Single-homed hosts are disconnected until it is"
        " back; hosts on two leaves lose traffic for a moment.",
    ),
    Cause(
        "link-flap", "a link goes down, and may come back",
        needs=(path_symptoms.a_link_is_down,),
        supports=(path_symptoms.a_session_is_lost, loss_symptoms.sent_again),
        explains=("one-path-only", "acl-4791", "incast"),
        nearby=("gray-loss", "mtu-black-hole"),
        rival="gray-loss",
        tell="rocelab exec {node} -- ip -s link: carrier changes",
        fix="clean or replace the optic and cable of {place}, or enable the end that is shut; drain the link"
        " meanwhile",
        words="Each time it goes down, its session is lost, routes change, and packets in flight are retransmitted.",
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
            fix="replace the optic and cable of {place}; BFD or UDLD on every link takes such a link out of use",
            words="Neither end has lost its carrier. Only a protocol between the two ends notices, when its timers"
            " expire; until then each end sends into the dead link.",
        )
        for title, noticed in (
            ("a link is up, but packets sent into it do not arrive", path_symptoms.a_session_is_lost),
            ("a link is up, packets sent into it do not arrive, no route uses it", path_symptoms.no_route_goes_by_it),
        )
    ),
    Cause(
        "gray-loss", "a link loses packets that no device counts as dropped",
        needs=(loss_symptoms.vanishes_on_a_link,),
        supports=(loss_symptoms.sent_again, probes.some_probes_vanish),
        excludes=(loss_symptoms.only_small_ones_pass,),
        rival="link-flap",
        tell="rocelab counters {port} {peer}: sent at one end, received at the other",
        fix="drain {place}, then replace the optic and cable",
        words="One end sends more packets than the other receives. Nothing is down and no port counts a drop; QPs"
        " go back to the lost packet and retransmit everything after it.",
    ),
    Cause(
        "mtu-black-hole", "a link has a smaller MTU than its neighbours: small packets pass, large ones are lost",
        needs=(loss_symptoms.only_small_ones_pass,),
        supports=(loss_symptoms.sent_again, probes.only_small_probes_pass),
        rival="gray-loss",
        tell="rocelab exec {node} -- ip link, and ping -M do -s 1472 and -s 8000 over each path",
        fix="rocelab exec {peer_node} -- ip link set {peer_interface} mtu 9000: one MTU end to end",
        words="The receiving end drops packets that exceed its MTU before any counter, and sends no ICMP. QPs with"
        " large packets keep timing out; those with small packets work.",
    ),
    Cause(
        "mtu-black-hole", "a link has a smaller MTU than its neighbours",
        needs=(loss_symptoms.smaller_than_its_siblings,),
        supports=(probes.only_small_probes_pass,),
        rival="",
        tell="rocelab exec {node} -- ip link, and ping -M do -s 1472 and -s 8000 over each path",
        fix="rocelab exec {node} -- ip link set {interface} mtu 9000, and the same at the other end: one MTU end to"
        " end",
        words="No large packets use it now. Larger packets sent that way would be lost.",
    ),
    Cause(
        "mtu-black-hole", "a host's link has a smaller MTU than those of its siblings",
        needs=(host_symptoms.a_host_has_a_smaller_mtu,),
        supports=(probes.only_small_probes_pass,),
        rival="",
        tell="rocelab exec {node} -- ip link, compared with {peer_node}, and ping -M do -s 1472 and -s 8000 to it",
        fix="rocelab exec {node} -- ip link set {interface} mtu 9000, and the same at the other end: one MTU end to"
        " end",
        words="Small packets pass and large ones do not. New RDMA connections agree on a smaller path MTU, which"
        " hides the fault.",
    ),
    Cause(
        "gid-index", "a program uses a GID index that no longer holds its address",
        needs=(loss_symptoms.an_address_has_moved,),
        supports=(loss_symptoms.swallowed_by_a_switch,),
        explains=("acl-4791",),
        rival="acl-4791",
        tell="rocelab rdma show: the index of each GID of {node}",
        fix="look up the index again (ibv_devinfo -v, show_gids) wherever a program is configured with it",
        words="The address was removed from the NIC and added again, and another address has its place in the GID"
        " table. The QP sends from an address without a route.",
    ),
    Cause(
        "rdma-device-lost", "a host has lost its RDMA device",
        needs=(host_symptoms.its_device_is_gone,),
        supports=(loss_symptoms.sent_again,),
        nearby=("acl-4791", "gid-index"),
        rival="acl-4791",
        tell="rocelab exec {node} -- rdma link: whether there is a device on {interface}",
        fix="rocelab exec {node} -- rdma link add NAME type rxe netdev {interface}, with the NAME that rocelab"
        " status shows; on a real host reload the driver",
        words="Its interface is up and answers pings, but no device receives UDP 4791: peers that write to it time"
        " out, and its own programs find no device.",
    ),
    Cause(
        "acl-4791", "a switch filters RoCE: ping works, RDMA times out",
        needs=(loss_symptoms.swallowed_by_a_switch, loss_symptoms.something_else_passes),
        supports=(loss_symptoms.a_filter_counts, probes.no_probe_passes),
        excludes=(loss_symptoms.an_address_has_moved,),
        rival="gid-index",
        tell="rocelab exec {node} -- nft list ruleset: hits of a rule on udp dport 4791",
        fix="permit UDP 4791 at {node}",
        words="RDMA packets arrive at the switch and do not leave it. No port counts a drop, and all other traffic"
        " passes.",
    ),
    Cause(
        "acl-4791", "a host drops RoCE: its NIC receives packets, its RDMA device none",
        needs=(host_symptoms.a_host_takes_nothing_in,),
        supports=(loss_symptoms.a_filter_counts, host_symptoms.no_probe_leaves),
        excludes=(loss_symptoms.an_address_has_moved,),
        rival="gid-index",
        tell="rocelab exec {node} -- nft list ruleset: hits of a rule on udp dport 4791",
        fix="permit UDP 4791 at {node}, in both directions",
        words="RDMA packets arrive at its NIC but do not reach its RDMA device, so that no peer gets an answer. A"
        " filter on UDP 4791 does that; hits of a rule prove it.",
    ),
    Cause(
        "link-rate", "a link came up slower than its siblings",
        needs=(full_queues.slower_than_its_siblings,),
        explains=("incast", "victim-flow"),
        rival="incast",
        tell="rocelab qos show {place}: rate, compared with a sibling; on a switch ethtool {interface}: speed",
        fix="clean or replace the optic and cable of {place}, and set both ends to the speed of their siblings",
        words="ECMP treats its links as equal: this one fills before its siblings do, and its queue pauses every"
        " sender on that path.",
    ),
    Cause(
        "link-rate", "a host's link came up slower than those of other hosts",
        needs=(full_queues.slower_than_other_hosts,),
        explains=("incast", "victim-flow"),
        rival="incast",
        tell="rocelab qos show {place}: rate, compared with other hosts; on a switch ethtool {interface}: speed",
        fix="clean or replace the optic and cable of {place}, and set both ends to the speed of other hosts",
        words="The host sends and receives more slowly than others, and jobs with this host wait for it. Its leaf"
        " pauses those that send to it.",
    ),
    Cause(
        "parking-lot", "PFC shares bandwidth by port: the nearer a sender is, the more it gets",
        needs=(full_queues.the_near_get_more,),
        explains=("incast",),
        rival="incast",
        tell="rocelab counters --watch: the rates of the senders, by the number of switches between them and"
        " {place}",
        fix="let congestion control (DCQCN) set the rates, so that PFC does not have to",
        words="Nothing is broken. Each switch shares its link among its ports, however many senders a port has: a"
        " sender behind a shared port gets a part of a part.",
    ),
    Cause(
        "victim-flow", "a flow that does not use the bottleneck is paused because of flows that do",
        needs=(full_queues.paused_for_the_sake_of_others,),
        explains=("incast",),
        rival="incast",
        tell="rocelab congestion: the full queue is not on its path",
        fix="a separate lossless class, or ECN that slows the other flows down before PFC does",
        words="PFC pauses a class of a port, not a flow: every sender behind that port stops, even if its own path"
        " is free.",
    ),
    Cause(
        "incast", "no fault: capacity",
        needs=(full_queues.a_link_is_full,),
        rival="",
        tell="rocelab congestion: which queue is full, and which ports it pauses",
        fix="fewer senders at once, or a faster link",
        words="The link is full, and its senders share it. The fabric works as designed.",
        fault=False,
    ),
    *OVERLAY_CAUSES,
    *ADDRESS_CAUSES,
    *CONSERVATION_CAUSES,
)  # fmt: skip
