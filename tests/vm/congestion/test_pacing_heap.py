"""The limited QPs of a NIC that wait for their time, the earliest first: a heap whose first place may be vacant."""

from __future__ import annotations

import time
from dataclasses import replace
from random import Random
from typing import Final

import numpy as np

from lab.dataplane.port_layout import LIMITERS
from lab.model.qos.congestion.cc_presets import CC_PRESETS
from lab.wire.craft import build
from tests.vm.limited_qp import OURS, PATH, THEIRS, send, start, write
from tests.vm.one_switch import waited
from tests.vm.port_programs import RATE, SWP1, Switch, switch

QPS = 40
PACKETS = 10
"""Of each QP at first: they take 1.1 s at least, in which all QPs wait."""
FURTHER = 200
"""Packets that come as QPs run out of them, in random order, for QPs that wait and for others."""
NEVER: Final = 2**64 - 1
"""The entry behind the last."""
LEAVES = 0.005
"""Seconds between two packets that leave: 40 QPs, each with 184 ms for a packet."""


def test_each_qp_waits_once_and_none_before_its_parent() -> None:
    """From the moment at which all 40 QPs wait until none does, whatever the order in which packets come and go."""
    choice = Random(41)
    numbers = [number for number in range(QPS) for _ in range(PACKETS)]
    choice.shuffle(numbers)
    first = [frame(choice, number) for number in numbers]
    further = [frame(choice, choice.randrange(QPS)) for _ in range(FURTHER)]
    with switch() as nic:
        limit_qps(nic)
        for begin in range(0, len(first), QPS):  # a socket does not have room for all
            send(nic, *first[begin : begin + QPS])
        seen = [check_heap(nic)]
        for each in further:
            send(nic, each)
            seen.append(check_heap(nic))
            time.sleep(choice.uniform(0, 0.02))
        while seen[-1][1]:
            time.sleep(choice.uniform(0, LEAVES))
            seen.append(check_heap(nic))
        waited(lambda: not nic.maps.counters["queue"]["depth_packets"].any(), "the queues to empty")
        assert check_heap(nic) == (1, 0)
        queues = nic.maps.counters[SWP1]["queue"]
        assert queues["sent_packets"].sum() == queues["offered_packets"].sum() == len(first) + FURTHER
    assert seen[0] == (0, QPS)


def frame(choice: Random, number: int) -> bytes:
    """A frame of a QP that takes 124 to 244 ms at the QP's rate."""
    return write(THEIRS + number, choice.randint(750, 1500))


def limit_qps(nic: Switch) -> None:
    """Limit 40 QPs to 50 kb/s, for good: 2 MB later the byte counter would increase that."""
    published = replace(
        CC_PRESETS["connectx"].registers, rpg_time_reset=1000.0, rate_to_set_on_first_cnp=RATE // 2000, rpg_min_rate=1
    )
    start(nic, replace(CC_PRESETS["connectx"], real_rate=RATE, registers=published).qos(RATE, 1146))
    for number in range(QPS):
        nic.connect(PATH.dst, OURS + number, PATH.src, THEIRS + number, fresh=False)
        nic.rx(build.cnp(PATH, OURS + number))


def check_heap(nic: Switch) -> tuple[int, int]:
    """Check the entries of swp1's heap and their order; return whether its first place is vacant, and how many wait.

    An entry is a due time, rounded up, with the limiter's index in the lowest bits.
    """
    heap, limiters = nic.heap(0)
    vacant, due = int(heap["vacant"]), heap["due"][: heap["count"]]
    waiting = limiters["in_heap"].nonzero()[0]
    entries = np.sort(due[vacant:] % LIMITERS)
    assert entries.tolist() == waiting.tolist()
    late = due[vacant:] - limiters["due"][due[vacant:] % LIMITERS]
    assert (late < 2 * LIMITERS).all()
    assert heap["due"][heap["count"]] == NEVER
    for place in range(1, len(due)):
        parent = (place - 1) // 2
        assert due[parent] <= due[place] or (vacant and not parent)
    return vacant, len(waiting)
