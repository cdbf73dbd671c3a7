"""Rows of the table of causes: congestion control of NICs."""

from __future__ import annotations

from typing import Final

from lab.diagnose.causes.cause import Cause
from lab.diagnose.symptoms import late_acks, notifications

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
    Cause(
        "cnp-in-lossy-class", "CNPs share a lossy class with other traffic, and are late or dropped",
        needs=(notifications.cnps_wait_with_others,),
        explains=("incast", "cnp-lost"),
        nearby=("dscp-map-mismatch", "dscp-rewritten", "gray-loss"),
        rival="cnp-lost",
        tell="rocelab counters: rx_prio6_packets of {peer}, beside np_cnp_sent of {place}",
        fix="rocelab qos set {place} nic.cc.cnp_dscp=48, or map the DSCP of its CNPs to a class of their own",
        words="Its CNPs wait in a queue with bulk traffic, or are dropped there. Senders slow down too late.",
    ),
    Cause(
        "cc-parameters-differ", "a NIC with other registers recovers faster than the others from each CNP",
        needs=(notifications.recovers_faster,),
        supports=(notifications.registers_differ,),
        explains=("incast",),
        rival="dcqcn-off-on-one-host",
        tell="rocelab counters: rp_cnp_handled of {place} grows if it obeys CNPs",
        fix="give it the registers of the others: rocelab qos show {place}, beside another NIC",
        words="All senders obey CNPs. One has other registers, is back sooner after each cut, and takes the share of"
        " the others.",
    ),
    Cause(
        "ack-starved-by-pfc", "ACKs wait in a paused class until QPs time out",
        needs=(late_acks.acks_wait_behind_a_pause,),
        explains=("incast", "victim-flow", "parking-lot"),
        rival="gray-loss",
        tell="out_of_seq_request is 0 and no port drops a packet: nothing is lost",
        fix="give ACKs, or the traffic from {place}, a class of its own; or use a longer QP timeout",
        words="ACKs for its packets share a class with data that PFC pauses. Its QPs retransmit what has arrived.",
    ),
)  # fmt: skip
