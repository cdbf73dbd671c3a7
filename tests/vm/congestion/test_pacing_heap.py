"""The limited QPs of a NIC that wait for their time, the earliest first: a heap whose first place may be vacant."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from lab.model.qos.congestion.cc_presets import CC_PRESETS
from lab.wire.craft import build
from tests.vm.limited_qp import OURS, PATH, THEIRS, send, start, write
from tests.vm.one_switch import waited
from tests.vm.port_programs import RATE, SWP1, Switch, switch

QPS = 40
BURSTS = 200


def test_each_qp_waits_once_and_none_before_its_parent() -> None:
    """Whatever the order in which packets come and go."""
    choice, seen = Random(41), set()
    with switch() as nic:
        limit_qps(nic)
        for _ in range(BURSTS):
            burst = choice.choices(range(QPS), k=choice.randint(1, 8))
            send(nic, *(write(THEIRS + number, choice.randint(100, 1500)) for number in burst))
            seen.add(check_heap(nic))
        waited(lambda: not nic.maps.counters["queue"]["depth_packets"].any(), "the queues to empty")
        assert check_heap(nic)[1] == 0
        queues = nic.maps.counters[SWP1]["queue"]
        assert queues["sent_packets"].sum() == queues["offered_packets"].sum()
    assert {vacant for vacant, _ in seen} == {0, 1}
    assert max(waiting for _, waiting in seen) > QPS // 2


def limit_qps(nic: Switch) -> None:
    """Limit 40 QPs to a fiftieth of the line rate each, for good."""
    published = replace(
        CC_PRESETS["connectx"].registers, rpg_time_reset=1000.0, rate_to_set_on_first_cnp=RATE // 50, rpg_min_rate=1
    )
    start(nic, replace(CC_PRESETS["connectx"], real_rate=RATE, registers=published).qos(RATE, 1146))
    for number in range(QPS):
        nic.connect(PATH.dst, OURS + number, PATH.src, THEIRS + number, fresh=False)
        nic.rx(build.cnp(PATH, OURS + number))


def check_heap(nic: Switch) -> tuple[int, int]:
    """Check the order of swp1's heap, and what is in it; whether its first place is vacant, and how many wait."""
    heap, waiting = nic.heap(0)
    vacant, due = int(heap["vacant"]), heap["due"][: heap["count"]]
    assert sorted(due["limiter"][vacant:]) == waiting.tolist()
    for place in range(1, len(due)):
        parent = (place - 1) // 2
        assert due["at"][parent] <= due["at"][place] or (vacant and not parent)
    return vacant, len(waiting)
