"""Rows of the table of causes: PFC pauses, and losses caused by missing pauses."""

from __future__ import annotations

from typing import Final

from lab.diagnose.causes.cause import Cause
from lab.diagnose.symptoms import classes, loss_symptoms, pause_symptoms

_BEHIND: Final = ("incast", "parking-lot", "victim-flow")
"""Consequences of a stopped or slow port for the ports behind it."""

PAUSE_CAUSES: Final = (
    Cause(
        "pfc-storm", "a NIC sends pauses without end",
        needs=(pause_symptoms.paused_for_ever_by_a_host,),
        excludes=(pause_symptoms.frames_that_are_no_pfc,),
        explains=_BEHIND,
        nearby=("slow-receiver",),
        rival="slow-receiver",
        tell="rocelab counters {peer} --priority {priority} --columns port,obeyed: a storm has no XON",
        fix="take {node} off the fabric and replace its NIC; a PFC watchdog at {peer} contains it meanwhile",
        words="The NIC's receiver is stuck: it asks for silence again and again and never takes it back. Its leaf may"
        " not send, fills, and pauses the next; packets of anybody who shares a switch with it stand still, and"
        " none is lost.",
    ),
    Cause(
        "pfc-watchdog-missing", "a leaf has no PFC watchdog, and a storm gets out through it",
        needs=(pause_symptoms.storm_unseen_by_a_watchdog,),
        supports=(pause_symptoms.watchdog_on_a_sibling_only,),
        rival="pfc-storm",
        tell="rocelab qos show {place}: pfc.watchdog.enabled, beside that of a sibling",
        fix="rocelab qos set {node} pfc.watchdog.enabled=true, and one configuration for all leaves",
        words="Its siblings contain a storm by dropping what waits for the port that is stuck. Here nobody does, and"
        " the storm goes on to the spines. The configuration has drifted.",
    ),
    Cause(
        "pfc-watchdog-missing", "a leaf has no PFC watchdog, and its siblings have",
        needs=(pause_symptoms.watchdog_on_a_sibling_only,),
        rival="",
        tell="rocelab qos show {place}: pfc.watchdog.enabled, beside that of a sibling",
        fix="rocelab qos set {place} pfc.watchdog.enabled=true, and one configuration for all leaves",
        words="Nothing storms now. When a NIC does, its siblings contain it, and this leaf does not.",
    ),
    Cause(
        "pfc-watchdog-loop", "a watchdog takes the gaps between a NIC's pauses for the end of the storm",
        needs=(pause_symptoms.watchdog_takes_gaps_for_the_end,),
        explains=_BEHIND,
        rival="pfc-storm",
        tell="rocelab qos show {place}: pfc.watchdog.restoration, beside that of a sibling",
        fix="rocelab qos set {place} pfc.watchdog.restoration=200ms: longer than the gaps; then replace {peer}'s NIC",
        words="Each pause is a new storm to it: until it has seen that, its port holds up whoever sends there, and"
        " the spines behind. A time to restore that is longer than the gaps sees one storm, and keeps it in.",
    ),
    Cause(
        "pfc-deadlock", "ports wait for one another in a circle",
        needs=(pause_symptoms.a_circle_waits,),
        excludes=(pause_symptoms.paused_for_ever_by_a_host,),
        explains=_BEHIND,
        rival="pfc-storm",
        tell="rocelab congestion: a circle has no root, and no host pauses anybody",
        fix="rocelab qos set {place} pfc.watchdog.enabled=true opens it; then make routes free of valleys",
        words="A cyclic buffer dependency: each port holds packets for the next, which is full and pauses it. It"
        " outlives what brought it about, and restarting hosts does not end it.",
    ),
    Cause(
        "slow-receiver", "a host takes in less than its link brings",
        needs=(pause_symptoms.paused_bit_by_bit_by_a_host,),
        excludes=(pause_symptoms.paused_for_ever_by_a_host,),
        explains=_BEHIND,
        rival="pfc-storm",
        tell="rocelab counters {place} --priority {priority}: an XON follows each XOFF",
        fix="look at {node}'s CPU, page tables and PCIe",
        words="The network waits for a host. Its NIC pauses the leaf a bit at a time, and the leaf passes it on.",
    ),
    Cause(
        "pfc-one-sided", "a port does not obey pauses: PFC is on at the other end alone",
        needs=(pause_symptoms.pauses_are_ignored,),
        supports=(pause_symptoms.a_lossless_class_drops, loss_symptoms.sent_again),
        rival="headroom-too-small",
        tell="rocelab counters {place} {peer} --priority {priority} --columns port,obeyed,ignored",
        fix="rocelab qos set {place} pfc.rx=true, and the same priorities at both ends",
        words="The switch asks, nobody stops, the headroom fills, and the lossless class loses packets.",
    ),
    Cause(
        "pfc-one-sided", "a port has no room and does not ask its peer to stop",
        needs=(pause_symptoms.refused_unasked,),
        excludes=(pause_symptoms.link_pause_frames, pause_symptoms.pauses_are_ignored),
        rival="headroom-too-small",
        tell="rocelab qos show {place}: pfc.tx",
        fix="rocelab qos set {place} pfc.tx=true",
        words="The port sends no pause: its peer cannot know that it is full.",
    ),
    Cause(
        "pfc-one-sided", "PFC is configured at one end of a link alone",
        needs=(pause_symptoms.pfc_differs_at_the_ends,),
        excludes=(pause_symptoms.link_pause_frames,),
        rival="",
        tell="rocelab qos show {place}, beside that of {peer}: pfc.tx, pfc.rx and pfc.priorities",
        fix="rocelab qos set {place} pfc.tx=true pfc.rx=true, and the same pfc.priorities at both ends",
        words="Under load one end asks and the other does not stop, or one end is full and does not ask: the lossless"
        " class loses packets. Nothing has to be sent for that to be seen.",
    ),
    Cause(
        "headroom-too-small", "pauses are obeyed, and the headroom is too small for what is under way",
        needs=(pause_symptoms.refused_though_obeyed,),
        supports=(pause_symptoms.a_lossless_class_drops,),
        excludes=(classes.mapped_otherwise, pause_symptoms.pauses_are_ignored),
        rival="pfc-one-sided",
        tell="rocelab counters {place} {peer} --priority {priority} --columns port,obeyed,ignored",
        fix="work headroom out again for the cable as it is, and rocelab qos set {place}"
        " buffer.groups.{priority}.headroom=...",
        words="Between an XOFF and the silence the cable's round trip of packets still comes in. That is more than"
        " there is headroom for: a longer cable, a slower peer, or a larger MTU than it was worked out for.",
    ),
    Cause(
        "global-pause", "a NIC has link pause (802.3x) on, where PFC is meant",
        needs=(pause_symptoms.link_pause_frames,),
        nearby=("slow-receiver", "headroom-too-small"),
        rival="pfc-storm",
        tell="rocelab capture {peer} --filter pause: opcode 0x0001",
        fix="turn link pause off at {node} (ethtool -A), and PFC on",
        words="A PAUSE stops a whole link, with routing and all. Lossless ports ignore it, so that the NIC that asks"
        " with it is not heard, and drops.",
    ),
    Cause(
        "malformed-pfc", "a NIC sends MAC control frames that are wrong",
        needs=(pause_symptoms.frames_that_are_no_pfc,),
        rival="pfc-storm",
        tell="rocelab capture {peer} --filter pfc: address, opcode and class-enable vector (IEEE 802.1Q clause 36)",
        fix="update the firmware of {node}'s NIC",
        words="Frames with a wrong address, opcode or vector. Some are ignored; one whose vector has reserved bits"
        " is as good as any, and stops its switch.",
    ),
)  # fmt: skip
