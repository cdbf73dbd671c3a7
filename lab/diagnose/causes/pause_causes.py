"""Rows of the table of causes: PFC pauses, and losses caused by missing pauses."""

from __future__ import annotations

from typing import Final

from lab.diagnose.causes.cause import Cause
from lab.diagnose.symptoms import classes, loss_symptoms, pause_symptoms

_BEHIND: Final = ("incast", "parking-lot", "victim-flow")
"""Consequences of a stopped or slow port for the ports behind it."""

PAUSE_CAUSES: Final = (
    Cause(
        "pfc-storm", "a NIC sends pauses continuously",
        needs=(pause_symptoms.paused_for_ever_by_a_host,),
        excludes=(pause_symptoms.frames_that_are_no_pfc,),
        explains=_BEHIND,
        nearby=("slow-receiver",),
        rival="slow-receiver",
        tell="rocelab counters {peer} --priority {priority} --columns port,obeyed: a storm has no XON",
        fix="disconnect {node} and replace its NIC; a PFC watchdog at {peer} contains the storm meanwhile",
        words="The NIC's receiver is stuck: it sends XOFF again and again and never XON. Its leaf must not send,"
        " fills, and pauses the next switch. Packets of all hosts behind these switches are held up, but none is"
        " lost.",
    ),
    Cause(
        "pfc-watchdog-missing", "a leaf has no PFC watchdog, and a pause storm spreads through it",
        needs=(pause_symptoms.storm_unseen_by_a_watchdog,),
        supports=(pause_symptoms.watchdog_on_a_sibling_only,),
        rival="pfc-storm",
        tell="rocelab qos show {place}: pfc.watchdog.enabled, compared with a sibling",
        fix="rocelab qos set {node} pfc.watchdog.enabled=true, and the same configuration for all leaves",
        words="Its siblings contain a storm: they drop the packets for the stuck port. This leaf does not, and the"
        " storm spreads to the spines. Its configuration has drifted.",
    ),
    Cause(
        "pfc-watchdog-missing", "some leaves have a PFC watchdog, and others do not",
        needs=(pause_symptoms.watchdog_on_a_sibling_only,),
        rival="",
        tell="rocelab qos show {place}: pfc.watchdog.enabled, compared with a sibling",
        fix="rocelab qos set {place} pfc.watchdog.enabled=true, or false: the same for all leaves",
        words="There is no storm now. If a NIC starts one, leaves with a watchdog contain it, and the others do not.",
    ),
    Cause(
        "pfc-watchdog-loop", "a watchdog treats the gaps between a NIC's pauses as the end of the storm",
        needs=(pause_symptoms.watchdog_takes_gaps_for_the_end,),
        explains=_BEHIND,
        rival="pfc-storm",
        tell="rocelab qos show {place}: pfc.watchdog.restoration, compared with a sibling",
        fix="rocelab qos set {place} pfc.watchdog.restoration=200ms: longer than the gaps; then replace {peer}'s NIC",
        words="The watchdog detects each pause as a new storm. Until it does, the port holds up its senders and the"
        " spines behind them. With a restoration time longer than the gaps it sees one storm and contains it.",
    ),
    Cause(
        "pfc-deadlock", "ports wait for each other in a circle",
        needs=(pause_symptoms.a_circle_waits,),
        excludes=(pause_symptoms.paused_for_ever_by_a_host,),
        explains=_BEHIND,
        rival="pfc-storm",
        tell="rocelab congestion: a circle has no root, and no host sends pauses",
        fix="rocelab qos set {place} pfc.watchdog.enabled=true breaks it; then make the routes valley-free",
        words="A cyclic buffer dependency: each port holds packets for the next port, which is full and pauses it."
        " It outlasts its trigger, and restarting hosts does not end it.",
    ),
    Cause(
        "slow-receiver", "a host receives more slowly than its link delivers",
        needs=(pause_symptoms.paused_bit_by_bit_by_a_host,),
        excludes=(pause_symptoms.paused_for_ever_by_a_host,),
        explains=_BEHIND,
        rival="pfc-storm",
        tell="rocelab counters {place} --priority {priority}: an XON follows each XOFF",
        fix="check {node}'s CPU, page tables and PCIe",
        words="The network waits for a host. Its NIC repeatedly pauses the leaf for a short time, and the leaf"
        " pauses its own senders.",
    ),
    Cause(
        "pfc-one-sided", "a port does not obey pauses: PFC is enabled only at the other end",
        needs=(pause_symptoms.pauses_are_ignored,),
        supports=(pause_symptoms.a_lossless_class_drops, loss_symptoms.sent_again),
        rival="headroom-too-small",
        tell="rocelab counters {place} {peer} --priority {priority} --columns port,obeyed,ignored",
        fix="rocelab qos set {place} pfc.rx=true, and the same priorities at both ends",
        words="The switch sends XOFF, the peer does not stop, the headroom fills, and the lossless class loses"
        " packets.",
    ),
    Cause(
        "pfc-one-sided", "a port has no buffer left and does not pause its peer",
        needs=(pause_symptoms.refused_unasked,),
        excludes=(pause_symptoms.link_pause_frames, pause_symptoms.pauses_are_ignored),
        rival="headroom-too-small",
        tell="rocelab qos show {place}: pfc.tx",
        fix="rocelab qos set {place} pfc.tx=true",
        words="The port sends no pause, so that its peer keeps sending.",
    ),
    Cause(
        "pfc-one-sided", "PFC is enabled at only one end of a link",
        needs=(pause_symptoms.pfc_differs_at_the_ends,),
        excludes=(pause_symptoms.link_pause_frames,),
        rival="",
        tell="rocelab qos show {place}, compared with {peer}: pfc.tx, pfc.rx and pfc.priorities",
        fix="rocelab qos set {place} pfc.tx=true pfc.rx=true, and the same pfc.priorities at both ends",
        words="Under load one end sends XOFF and the other does not stop, or one end is full and sends no XOFF: the"
        " lossless class loses packets. The configuration shows this without traffic.",
    ),
    Cause(
        "headroom-too-small", "pauses are obeyed, but the headroom is too small for the packets in flight",
        needs=(pause_symptoms.refused_though_obeyed,),
        supports=(pause_symptoms.a_lossless_class_drops,),
        excludes=(classes.changes_on_a_link, pause_symptoms.pauses_are_ignored),
        rival="pfc-one-sided",
        tell="rocelab counters {place} {peer} --priority {priority} --columns port,obeyed,ignored",
        fix="recalculate the headroom for the cable, and rocelab qos set {place}"
        " buffer.groups.{priority}.headroom=...",
        words="After an XOFF, the packets of one round trip of the cable still arrive. They exceed the headroom:"
        " the cable is longer, the peer slower, or the MTU larger than it was calculated for.",
    ),
    Cause(
        "global-pause", "a NIC uses link pause (802.3x) instead of PFC",
        needs=(pause_symptoms.link_pause_frames,),
        nearby=("slow-receiver", "headroom-too-small"),
        rival="pfc-storm",
        tell="rocelab capture {peer} --filter pause: opcode 0x0001",
        fix="disable link pause at {node} (ethtool -A), and enable PFC",
        words="A PAUSE frame stops a whole link, including routing protocols. Lossless ports ignore it, so that the"
        " NIC that sends it keeps receiving, and drops.",
    ),
    Cause(
        "malformed-pfc", "a NIC pauses a class that is lossy at both ends of its link",
        needs=(pause_symptoms.pauses_of_a_lossy_class,),
        excludes=(pause_symptoms.frames_that_are_no_pfc,),
        rival="pfc-one-sided",
        tell="rocelab qos show {place}, compared with {peer}: pfc.priorities",
        fix="find out what sends the frames at {node}: its firmware, or a program; enable PFC for the class only if"
        " it carries lossless traffic",
        words="The frames are well formed, but neither end has PFC for their class. The port ignores them, and"
        " nothing is paused.",
    ),
    Cause(
        "malformed-pfc", "a NIC sends malformed MAC control frames",
        needs=(pause_symptoms.frames_that_are_no_pfc,),
        rival="pfc-storm",
        tell="rocelab capture {peer} --filter pfc: address, opcode and class-enable vector (IEEE 802.1Q clause 36)",
        fix="update the firmware of {node}'s NIC",
        words="Frames have a wrong address, opcode or class-enable vector. Switches ignore some; one whose vector"
        " has reserved bits set counts as valid, and pauses its switch.",
    ),
)  # fmt: skip
