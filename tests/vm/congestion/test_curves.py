"""The scaling law in captures: at 10, 30 and 100 Mb/s, one train of CNPs leads to one curve of normalised rates.

The unit of time is the period of the increase timer, which is scaled as all times are: 268 frames of 1,000 bytes at
the line rate, whatever that is. The unit of rates is the line rate.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import accumulate, combinations, repeat
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from lab.model.qos.congestion.cc_presets import CC_PRESETS
from lab.wire.craft import build
from tests.vm.limited_qp import OURS, PATH, THEIRS, write
from tests.vm.measured_rate import make_room, saturated
from tests.vm.one_switch import OVERHEAD, waited
from tests.vm.port_programs import PORT, SWP1, Switch, switch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

pytestmark = [pytest.mark.vm]

RATES: Final = (10_000_000, 30_000_000, 100_000_000)
SIZE: Final = 1000
GAPS: Final = (1.75, 2.75, 1.75, 0.75, 10.25)
"""Periods behind each CNP; the last one is the recovery.

None is near a whole number: a CNP that meets the timer's increase comes before it in one run, and behind it in the
next. The first CNP comes before any packet, and the curve begins with the second. Packets that wait when a QP becomes
limited leave at the line rate. How many those are depends on the sender, and not on registers.
"""
WINDOW: Final = 0.5
"""Periods over which a rate is an average.

Each CNP has windows of its own, and what is left of its periods is not judged. The gap behind a packet follows the
rate at which the packet left. So up to one gap of the rate before a CNP reaches into the window behind it. At a
quarter of the line rate, from which the last CNP cuts, that is 4/134 of a window.
"""
BOUND: Final = 0.05


@pytest.fixture(scope="module")
def built() -> Iterator[Switch]:
    with switch() as made:
        yield made


def test_curves_overlay_at_every_rate(built: Switch) -> None:
    """With times that are 30% too long, they do not."""
    curves = {rate: curve(built, rate) for rate in RATES}
    apart = {pair: deviation(*(curves[rate] for rate in pair)) for pair in combinations(RATES, 2)}
    print(apart, *(np.round(each, 3) for each in curves.values()), sep="\n")
    assert max(apart.values()) < BOUND
    assert deviation(curve(built, RATES[1], slower=1.3), curves[RATES[1]]) > BOUND


def curve(nic: Switch, rate: int, slower: float = 1.0) -> NDArray[np.float64]:
    """Return shares of the line rate, window by window from the second CNP on."""
    preset = CC_PRESETS["paper"]
    cc = replace(preset, real_rate=round(preset.real_rate * slower)).qos(rate, SIZE)
    period = preset.registers.rpg_time_reset * preset.real_rate / rate
    nic.reset(replace(PORT, rate=rate, cc=cc))
    nic.connect(PATH.dst, OURS, PATH.src, THEIRS)
    cnp, frame = build.cnp(PATH, OURS), write(THEIRS, SIZE)
    queue = nic.maps.counters[SWP1]["queue"]
    with nic.stamped_wire() as wire, nic.tap() as tap:
        for end in (wire, tap):
            make_room(end)
        wire.send(cnp)
        began = time.monotonic()
        waited(lambda: nic.maps.counters[SWP1]["rp_cnp_handled"] == 1, "the first CNP")
        with saturated(nic, repeat(frame)):
            *moments, end_of_all = accumulate(GAPS)
            for moment in moments:
                time.sleep(max(began + moment * period - time.monotonic(), 0))
                wire.send(cnp)
            time.sleep(max(began + end_of_all * period - time.monotonic(), 0))
        waited(lambda: not queue["depth_packets"].any(), "the queue to empty")
        count = int(queue["sent_packets"].sum())
        times = np.array([wire.next_stamped()[0] for _ in range(count)])
        passed = [tap.next_stamped() for _ in range(count + len(GAPS))]
    cnps = [at for at, seen in passed if seen == cnp]
    assert len(cnps) == len(GAPS)
    starts = np.concatenate(
        [at + period * WINDOW * np.arange(gap // WINDOW) for at, gap in zip(cnps[1:], GAPS[1:], strict=True)]
    )
    began_with, ended_with = (
        np.interp(edges, times, np.arange(count) * 8.0 * (SIZE + OVERHEAD))
        for edges in (starts, starts + period * WINDOW)
    )
    shares: NDArray[np.float64] = (ended_with - began_with) / (WINDOW * period * rate)
    return shares


def deviation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the largest difference of two curves, as a fraction of the other."""
    return float(np.max(np.abs(one / other - 1)))
