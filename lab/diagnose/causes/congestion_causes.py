"""Rows of the table of causes: congestion control of NICs."""

from __future__ import annotations

from typing import Final

from lab.diagnose.causes.cause import Cause
from lab.diagnose.symptoms import notifications

CONGESTION_CAUSES: Final = (
    Cause(
        "cnp-lost", "CNPs are sent, and do not reach the senders of marked packets",
        needs=(notifications.cnps_vanish,),
        explains=("incast",),
        rival="ecn-without-cc",
        tell="rocelab congestion: np_cnp_sent of the receivers beside rp_cnp_handled of the senders",
        fix="remove what drops DSCP 48 at {place}: a filter, a policer, or a full queue of its class",
        words="Congestion is marked and reported, but senders do not receive the reports. They slow down only when"
        " PFC pauses them.",
    ),
    Cause(
        "ecn-without-cc", "a NIC does not answer marked packets, and others do",
        needs=(notifications.answers_no_marks,),
        supports=(notifications.notification_point_off,),
        explains=("incast",),
        rival="cnp-lost",
        tell="rocelab congestion: np_cnp_sent of {place}, 0 if it sends no CNPs",
        fix="rocelab qos set {place} nic.cc.np=true, or nic.cc.algorithm=dcqcn",
        words="Packets to it are marked, and it sends no CNPs. Senders to it do not slow down until PFC pauses them.",
    ),
    Cause(
        "dcqcn-off-on-one-host", "a NIC ignores CNPs, and others slow down",
        needs=(notifications.ignores_cnps,),
        supports=(notifications.reaction_point_off,),
        explains=("incast",),
        rival="cnp-lost",
        tell="rocelab qos show {place}, beside another NIC: nic.cc.rp",
        fix="rocelab qos set {place} nic.cc.rp=true, or nic.cc.algorithm=dcqcn",
        words="It sends at line rate whatever CNPs say, and keeps the queue above Kmin. Senders that obey slow down"
        " for it.",
    ),
)  # fmt: skip
