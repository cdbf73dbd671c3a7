"""Rows of the table of causes: what slows a training job down, and is no fault of the network."""

from __future__ import annotations

from typing import Final

from lab.diagnose.causes.cause import Cause
from lab.diagnose.symptoms import classes, crossed_rails, host_symptoms

JOB_CAUSES: Final = (
    Cause(
        "straggler-host", "a host computes more slowly than the others, and all ranks wait for it",
        needs=(host_symptoms.a_host_computes_slowly,),
        rival="slow-receiver",
        tell="rocelab job explain RUN: the rank's computation is longer, and its transfer is not",
        fix="look at {node}'s clocks, temperature, CPU load and input pipeline, or place its rank elsewhere",
        words="Its computation takes longer in most steps, in which it sends nothing: the network has no part in it."
        " A collective ends only when the last rank has contributed, so the whole job is as slow as this host.",
    ),
    Cause(
        "rail-misaligned-placement", "ranks of a job are on different rails, and their traffic crosses the spine",
        needs=(crossed_rails.ranks_cross_rails,),
        explains=("incast", "victim-flow", "parking-lot"),
        rival="incast",
        tell="rocelab job explain RUN: the NIC of each rank, and whether each host has a NIC on one common leaf",
        fix="place all ranks of a ring on NICs of the same rail, for example eth1 of each host",
        words="Nothing is broken. A ring between NICs of one leaf needs no uplink. These ranks share the uplinks of"
        " their leaves, which are full before the hosts' links are.",
    ),
    Cause(
        "mtu-not-negotiated", "a job's library uses a path MTU that a rank's NIC does not have",
        needs=(host_symptoms.a_job_needs_a_larger_mtu,),
        explains=("mtu-black-hole", "gray-loss"),
        rival="mtu-black-hole",
        tell="rocelab exec {node} -- ibv_devinfo: its active_mtu, beside that of other hosts and UCX_IB_PATH_MTU",
        fix="rocelab exec {node} -- ip link set {interface} mtu 9000, or remove mtu from the job (UCX_IB_PATH_MTU)",
        words="Programs that exchange their active MTU, as ib_write_bw does, use the smaller one and pass. This"
        " library uses the MTU of its setting. The NIC cannot send such packets, and drops those that it receives.",
    ),
    Cause(
        "wrong-traffic-class", "a job's traffic class is not lossless: it has another DSCP than the fabric's",
        needs=(classes.a_job_uses_a_lossy_class,),
        excludes=(classes.map_differs,),
        explains=("dscp-rewritten", "incast", "victim-flow", "gray-loss"),
        rival="dscp-rewritten",
        tell="rocelab qos show {node}: the priority of the job's DSCP, which is its traffic class divided by 4",
        fix="set the traffic class of the job again (--tclass 106, or NCCL_IB_TC=106: DSCP 26, ECT(0))",
        words="All of its packets are in a class that PFC does not pause. Under load they are dropped, and a QP whose"
        " last packets are lost repeats them only after its ACK timeout.",
    ),
)  # fmt: skip
