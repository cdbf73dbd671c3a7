"""Rows of the table of causes: ECN marking and DSCP classification."""

from __future__ import annotations

from typing import Final

from lab.diagnose.causes.cause import Cause
from lab.diagnose.symptoms import classes, ecn_marks

CLASS_CAUSES: Final = (
    Cause(
        "ecn-missing-one-leaf", "a port does not mark: it has no ECN profile",
        needs=(ecn_marks.deep_and_unmarked,),
        supports=(ecn_marks.no_profile_bound,),
        excludes=(ecn_marks.kmin_beyond_reach,),
        rival="ecn-above-xoff",
        tell="rocelab qos show {place}: whether ecn.{priority} is enabled, or its kmin above XOFF",
        fix="rocelab qos set {place} ecn.{priority}.enabled=true",
        words="Its queue is as deep as those of its siblings, which mark; it does not mark. Only PFC is left to"
        " slow senders down.",
    ),
    Cause(
        "ecn-missing-one-leaf", "some ports have no ECN profile, while others have one",
        needs=(ecn_marks.no_profile_bound,),
        rival="",
        tell="rocelab qos show {place}: ecn.{priority}.enabled",
        fix="rocelab qos set {place} ecn.{priority}.enabled=true",
        words="Its queue is empty now. Under load it would not mark.",
    ),
    Cause(
        "ecn-above-xoff", "Kmin is above XOFF: PFC acts before ECN",
        needs=(ecn_marks.deep_and_unmarked,),
        supports=(ecn_marks.kmin_beyond_reach,),
        excludes=(ecn_marks.no_profile_bound,),
        rival="ecn-missing-one-leaf",
        tell="rocelab qos show {place}: whether ecn.{priority} is enabled, or its kmin above XOFF",
        fix="rocelab qos set {place} ecn.{priority}.kmin=... below XOFF: Kmin < Kmax < XOFF",
        words="The queue never reaches Kmin, because senders are paused first. PFC has become the congestion"
        " control.",
    ),
    Cause(
        "ecn-above-xoff", "Kmin is above XOFF",
        needs=(ecn_marks.kmin_beyond_reach,),
        rival="",
        tell="rocelab qos show {place}: ecn.{priority}.kmin, and XOFF",
        fix="rocelab qos set {place} ecn.{priority}.kmin=... below XOFF: Kmin < Kmax < XOFF",
        words="Its queue is empty now. Under load PFC would act before ECN.",
    ),
    Cause(
        "ecn-too-low", "a queue marks packets although it is short: Kmin is too low",
        needs=(ecn_marks.marks_though_shallow,),
        rival="ecn-off-by-3kb",
        tell="rocelab qos show {place}: ecn.{priority}.kmin, compared with a sibling",
        fix="rocelab qos set {place} ecn.{priority}.kmin=..., the value of its siblings",
        words="Packets are marked at a queue depth at which its siblings do not mark. DCQCN would reduce its"
        " senders to a fraction of their rate.",
    ),
    Cause(
        "ecn-off-by-3kb", "a port's ECN thresholds differ slightly from those of its siblings",
        needs=(ecn_marks.marks_otherwise_at_the_same_depth,),
        supports=(ecn_marks.thresholds_differ,),
        rival="ecn-too-low",
        tell="rocelab qos show {place}: ecn.{priority}, kmin, kmax and pmax, compared with a sibling",
        fix="rocelab qos set {place} ecn.{priority}.kmin=..., kmax or pmax: the values of its siblings",
        words="At the same depth it marks far more, or fewer, of its packets than its sibling. No packet is dropped"
        " or paused; a collective waits for the flow with the most marks.",
    ),
    Cause(
        "ecn-off-by-3kb", "a port's ECN thresholds differ slightly from those of its siblings",
        needs=(ecn_marks.thresholds_differ,),
        rival="",
        tell="rocelab qos show {place}: ecn.{priority}, kmin, kmax and pmax, compared with a sibling",
        fix="rocelab qos set {place} ecn.{priority}.kmin=..., kmax or pmax: the values of its siblings",
        words="One profile was configured differently. Under load it marks earlier or later than its siblings.",
    ),
    Cause(
        "not-ect", "hosts send without ECT, so that their packets cannot be marked",
        needs=(ecn_marks.not_capable,),
        rival="ecn-missing-one-leaf",
        tell="rocelab exec {node} -- tcpdump -v -c 5 -n udp dst port 4791: the two bits after the DSCP",
        fix="set the traffic class of the job again (--tclass 106: DSCP 26, ECT(0))",
        words="The queue is above Kmin and selects packets to mark, but their ECN bits are 00. Its senders get no"
        " congestion signal, and only PFC stops them.",
    ),
    Cause(
        "dscp-map-mismatch", "a node maps the DSCP of RoCE to another class than its neighbours",
        needs=(classes.mapped_otherwise,),
        supports=(classes.map_differs,),
        explains=("incast",),
        nearby=("headroom-too-small", "pfc-one-sided"),
        rival="pfc-one-sided",
        tell="rocelab qos show {node}: map.dscp.26, compared with a neighbour",
        fix="rocelab qos set {node} map.dscp.26=3, the same map on all nodes",
        words="Packets change their class between two nodes. A pause of the lossless class has no effect, because"
        " its packets wait in another class. The neighbour's headroom fills, and it drops.",
    ),
    Cause(
        "dscp-map-mismatch", "a node's DSCP map differs from that of the others",
        needs=(classes.map_differs,),
        rival="",
        tell="rocelab qos show {node}: map.dscp.26, compared with a neighbour",
        fix="rocelab qos set {node} map.dscp.26=3, the same map on all nodes",
        words="No packets of that DSCP pass now. When they do, this node puts them into another class.",
    ),
    Cause(
        "dscp-rewritten", "packets change their DSCP between two nodes that map it alike",
        needs=(classes.rewritten_on_a_link,),
        explains=("incast",),
        nearby=("headroom-too-small", "pfc-one-sided"),
        rival="dscp-map-mismatch",
        tell="rocelab exec {node} -- tc -s filter show dev {interface} egress; rocelab exec {peer_node} -- tc -s"
        " filter show dev {peer_interface} ingress; nft list ruleset",
        fix="remove what rewrites the DSCP on {place}: a filter or a rule at one of its ends, or a device between",
        words="Both ends of the link map DSCPs as all nodes do, and count the packets in different classes. A pause"
        " of the lossless class has no effect on them.",
    ),
    Cause(
        "dscp-rewritten", "a host sends RDMA packets in a class that is not lossless",
        needs=(classes.sent_in_a_lossy_class,),
        excludes=(classes.changes_on_a_link, classes.map_differs, classes.a_job_uses_a_lossy_class),
        rival="dscp-map-mismatch",
        tell="rocelab exec {node} -- tcpdump -v -c 5 -n udp dst port 4791: a tos of 0x6a is DSCP 26 and ECT(0)",
        fix="set the traffic class of the job (--tclass 106: DSCP 26, ECT(0)), and remove the rule on {node} that"
        " rewrites it",
        words="Both ends of its link agree on the class, but PFC does not cover it: under load its packets are"
        " dropped.",
    ),
)  # fmt: skip
