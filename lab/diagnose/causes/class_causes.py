"""Rows of the table of causes: ECN marking and DSCP classification."""

from __future__ import annotations

from typing import Final

from lab.diagnose.causes.cause import Cause
from lab.diagnose.symptoms import classes, ecn_marks

CLASS_CAUSES: Final = (
    Cause(
        "ecn-missing-one-leaf", "a port marks nothing: it has no ECN profile",
        needs=(ecn_marks.deep_and_unmarked,),
        supports=(ecn_marks.no_profile_bound,),
        excludes=(ecn_marks.kmin_beyond_reach,),
        rival="ecn-above-xoff",
        tell="rocelab qos show {place}: whether ecn.{priority} is enabled, or its kmin above XOFF",
        fix="rocelab qos set {place} ecn.{priority}.enabled=true",
        words="Its queue is as deep as that of its siblings, which mark, and it marks nothing. Only PFC is left.",
    ),
    Cause(
        "ecn-missing-one-leaf", "ports have no ECN profile, and others have",
        needs=(ecn_marks.no_profile_bound,),
        rival="",
        tell="rocelab qos show {place}: ecn.{priority}.enabled",
        fix="rocelab qos set {place} ecn.{priority}.enabled=true",
        words="Nothing waits there now. Under load it would mark nothing.",
    ),
    Cause(
        "ecn-above-xoff", "Kmin lies above XOFF: PFC acts before ECN",
        needs=(ecn_marks.deep_and_unmarked,),
        supports=(ecn_marks.kmin_beyond_reach,),
        excludes=(ecn_marks.no_profile_bound,),
        rival="ecn-missing-one-leaf",
        tell="rocelab qos show {place}: whether ecn.{priority} is enabled, or its kmin above XOFF",
        fix="rocelab qos set {place} ecn.{priority}.kmin=... below XOFF: Kmin < Kmax < XOFF",
        words="The queue never reaches Kmin: senders are paused before. PFC has become the congestion control.",
    ),
    Cause(
        "ecn-above-xoff", "Kmin lies above XOFF",
        needs=(ecn_marks.kmin_beyond_reach,),
        rival="",
        tell="rocelab qos show {place}: ecn.{priority}.kmin, and XOFF",
        fix="rocelab qos set {place} ecn.{priority}.kmin=... below XOFF: Kmin < Kmax < XOFF",
        words="Nothing waits there now. Under load PFC would act before ECN.",
    ),
    Cause(
        "ecn-too-low", "a queue marks what waits for nothing: Kmin is too low",
        needs=(ecn_marks.marks_though_shallow,),
        rival="ecn-off-by-3kb",
        tell="rocelab qos show {place}: ecn.{priority}.kmin, beside that of a sibling",
        fix="rocelab qos set {place} ecn.{priority}.kmin=... as its siblings have it",
        words="Packets are marked though less waits than what its siblings mark above. DCQCN would cut its senders"
        " down to a crawl.",
    ),
    Cause(
        "ecn-off-by-3kb", "a port's thresholds are a little off those of its siblings",
        needs=(ecn_marks.marks_otherwise_at_the_same_depth,),
        supports=(ecn_marks.thresholds_differ,),
        rival="ecn-too-low",
        tell="rocelab qos show {place}: ecn.{priority}, kmin, kmax and pmax, beside those of a sibling",
        fix="rocelab qos set {place} ecn.{priority}.kmin=..., kmax or pmax, as its siblings have it",
        words="At the same depth it marks far more, or fewer, of its packets than its sibling. Nothing is dropped and"
        " nobody is paused; a collective waits for the flow that is marked most.",
    ),
    Cause(
        "ecn-off-by-3kb", "a port's thresholds are a little off those of its siblings",
        needs=(ecn_marks.thresholds_differ,),
        rival="",
        tell="rocelab qos show {place}: ecn.{priority}, kmin, kmax and pmax, beside those of a sibling",
        fix="rocelab qos set {place} ecn.{priority}.kmin=..., kmax or pmax, as its siblings have it",
        words="One profile was typed differently. Under load it marks earlier or later than its siblings.",
    ),
    Cause(
        "not-ect", "hosts send without ECT: what should be marked cannot be",
        needs=(ecn_marks.not_capable,),
        rival="ecn-missing-one-leaf",
        tell="rocelab exec {node} -- tcpdump -v -c 5 -n udp dst port 4791: the two bits behind the DSCP",
        fix="give the job its traffic class again (--tclass 106: DSCP 26, ECT(0))",
        words="The queue is above Kmin and chose packets to mark, whose ECN bits are 00. Its senders are blind, and"
        " only PFC stops them.",
    ),
    Cause(
        "dscp-map-mismatch", "a node maps the DSCP of RoCE to another class than its neighbours",
        needs=(classes.mapped_otherwise,),
        supports=(classes.map_differs,),
        explains=("incast",),
        nearby=("headroom-too-small", "pfc-one-sided"),
        rival="pfc-one-sided",
        tell="rocelab qos show {node}: map.dscp.26, beside that of a neighbour",
        fix="rocelab qos set {node} map.dscp.26=3, one map everywhere",
        words="Between two nodes a packet changes its class. A pause of the lossless class stops nothing there:"
        " nothing of that class waits; its neighbour fills its headroom, and drops.",
    ),
    Cause(
        "dscp-map-mismatch", "a node's DSCP map differs from that of the others",
        needs=(classes.map_differs,),
        rival="",
        tell="rocelab qos show {node}: map.dscp.26, beside that of a neighbour",
        fix="rocelab qos set {node} map.dscp.26=3, one map everywhere",
        words="Nothing of that DSCP passes now. When it does, it is in another class there.",
    ),
    Cause(
        "dscp-rewritten", "a host's RDMA leaves it in a class that is not lossless",
        needs=(classes.sent_in_a_lossy_class,),
        excludes=(classes.mapped_otherwise, classes.map_differs),
        rival="dscp-map-mismatch",
        tell="rocelab exec {node} -- tcpdump -v -c 5 -n udp dst port 4791: a tos of 0x6a is DSCP 26 and ECT(0)",
        fix="give the job its traffic class (--tclass 106: DSCP 26, ECT(0)), and take off {node} what rewrites it",
        words="Both ends of its link agree on the class, in which no pause holds it back: under load its packets are"
        " dropped like anybody's.",
    ),
)  # fmt: skip
