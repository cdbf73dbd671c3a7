"""No packet of a limited QP is left waiting when two CPUs work on its NIC at once, in the host's time.

One CPU sends while CNPs, pauses and the ends of QPs come in on the other. Then nothing comes that would have the
qdisc look, and all packets must leave by its timer alone. Without a wake-up one stays for good: no time is judged.
"""

from __future__ import annotations

import os
import threading
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from tests.vm.congestion.schedules import Schedule
from tests.vm.port_programs import Switch, switch

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.stress, pytest.mark.timeout(600)]

ROUNDS: Final = 40
MOST_EVENTS: Final = 12


@pytest.fixture(scope="module")
def built() -> Iterator[Switch]:
    assert len(os.sched_getaffinity(0)) > 1, "one CPU stresses nothing"
    with switch() as made:
        yield made


@pytest.mark.parametrize("seed", range(8))
def test_all_packets_leave_by_the_timer_alone(built: Switch, seed: int) -> None:
    with closing(Schedule(built, Random(seed))) as here, closing(Schedule(built, Random(100 + seed))) as there:
        here.begin()
        for _ in range(ROUNDS):
            other = threading.Thread(target=befall, args=(there, 1))
            other.start()
            befall(here, 0)
            other.join()
            here.drain()


def befall(schedule: Schedule, cpu: int) -> None:
    """Have some events come on a CPU: packets and a link that goes down on the first, all others on the second."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        for _ in range(schedule.choice.randint(1, MOST_EVENTS)):
            schedule.choose({"send": 9, "flap": 1} if not cpu else {"pause": 4, "notify": 4, "end_qp": 1})
    finally:
        os.sched_setaffinity(0, before)
