"""A limited QP's rate as a capture of its NIC's wire shows it, against the model that the CNPs are fed to.

The rate of every packet is what the gap to the next one makes of it. Times of CNPs are those of a capture as well,
and nothing is read from the port.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lab.model.qos.congestion.cc_presets import CC_PRESETS
from lab.wire.craft import build
from tests.models.dcqcn.nvidia import NvidiaReactionPoint
from tests.models.dcqcn.trace import run
from tests.vm.limited_qp import BACK, LOSSLESS, NS, OURS, PATH, THEIRS, registers, send, start, write
from tests.vm.measured_rate import BOUND, deviation, make_room, saturated
from tests.vm.one_switch import OVERHEAD, waited
from tests.vm.port_programs import RATE, SWP1, Switch, switch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from tests.models.dcqcn.nvidia import NvidiaRegisters

SIZE = 4000
GAPS = (0.05, 0.02, 0.005, 0.001, 0.3, 0.06, 0.1, 0.001, 0.5)
"""Seconds between CNPs."""
QPS = 1024
_QPN = slice(47, 50)
"""Octets of the BTH's QPN in a frame over IPv4."""


@pytest.fixture(scope="module")
def built() -> Iterator[Switch]:
    with switch() as made:
        yield made


@pytest.mark.parametrize(
    ("preset", "wrong"),
    [
        ("paper", {"time_reset": 11_000_000}),
        ("connectx", {"dce_tcp_g": 1000}),
        pytest.param("hpcc", {"dce_tcp_g": 1000}, marks=pytest.mark.long),  # other values of the same registers
    ],
)
def test_the_rate_is_within_two_percent_of_the_models(built: Switch, preset: str, wrong: dict[str, Any]) -> None:
    """And more than that from a model with one wrong register."""
    cc = CC_PRESETS[preset].qos(RATE, SIZE)
    start(built, cc)
    cnp = build.cnp(PATH, OURS)
    with built.stamped_wire() as wire, built.tap() as tap:
        for end in (wire, tap):
            make_room(end)
        wire.send(cnp)
        waited(lambda: built.maps.counters[SWP1]["rp_cnp_handled"] == 1, "the first CNP")
        with saturated(built, repeat(write(THEIRS, SIZE))):
            for gap in GAPS:
                time.sleep(gap)
                wire.send(cnp)
        waited(lambda: not built.maps.counters[SWP1]["queue"]["depth_packets"].any(), "the queue to empty")
        ahead = time.time_ns() - time.monotonic_ns()
        count = int(built.maps.counters[SWP1]["queue"]["sent_packets"].sum())
        times = np.array([round(wire.next_stamped()[0] * NS) - ahead for _ in range(count)])
        passed = [tap.next_stamped() for _ in range(count + 1 + len(GAPS))]
        cnps = [round(at * NS) - ahead for at, frame in passed if frame == cnp]
    assert len(cnps) == 1 + len(GAPS)
    model = registers(cc.registers)
    assert deviation(*curve(model, cnps, times), times, SIZE) < BOUND
    assert deviation(*curve(replace(model, **wrong), cnps, times), times, SIZE) > BOUND


def test_a_thousand_qps_are_limited_at_once_and_each_keeps_to_its_rate(built: Switch) -> None:
    limit = RATE / 2 / QPS
    published = replace(
        CC_PRESETS["connectx"].registers, rpg_time_reset=1000.0, rate_to_set_on_first_cnp=round(limit), rpg_min_rate=1
    )
    start(built, replace(CC_PRESETS["connectx"], real_rate=RATE, registers=published).qos(RATE, 64))
    template = write(THEIRS, 200, replace(BACK, dscp=LOSSLESS))
    frames = []
    for number in range(QPS):
        built.connect(PATH.dst, OURS + number, PATH.src, THEIRS - number, fresh=False)
        built.rx(build.cnp(PATH, OURS + number))
        qpn = (THEIRS - number).to_bytes(3, "big")
        frames.append(template[: _QPN.start] + qpn + template[_QPN.stop :])
    assert built.maps.ports["state"]["limited"][SWP1] == QPS
    came: dict[bytes, list[float]] = {}
    with built.stamped_wire() as wire:
        make_room(wire)
        for _ in range(2):
            send(built, *frames)
        for _ in range(2 * QPS):
            at, frame = wire.next_stamped()
            came.setdefault(frame[_QPN], []).append(at)
    rate = int(built.maps.limiters[0]["rate"])
    assert len(came) == QPS
    gaps = np.array([later - earlier for earlier, later in came.values()])
    assert (gaps > (200 + OVERHEAD) * 8 / rate * 0.98).all(), "some QP is faster than its rate"


def curve(
    model: NvidiaRegisters, cnps: Sequence[int], times: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """When the model's rate changes, and the rates in bit/s from then on."""
    states = list(run(NvidiaReactionPoint(model), cnps, int(times[-1]), [(int(at), SIZE) for at in times]))
    return np.array([state.time for state in states]), np.array([state.rate for state in states])
