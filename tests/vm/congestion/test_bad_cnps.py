"""Bad CNPs: forged, damaged, in floods, and in a class that a pause holds. Their effect is bounded and counted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from lab.dataplane.port_layout import LIMITERS
from lab.model.qos.congestion.cc_presets import CC_PRESETS
from lab.wire.craft import build
from tests.vm.limited_qp import FREE, LOSSLESS, OURS, PATH, THEIRS, send, start, write
from tests.vm.one_switch import pfc, waited
from tests.vm.port_programs import PORT, RATE, STOLEN, SWP1, Switch, switch

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH6: Final = replace(PATH, src="fdc9::1", dst="fdc9::2")
BOTH: Final = pytest.mark.parametrize("path", [PATH, PATH6], ids=["IPv4", "IPv6"])
IP: Final = 14
"""Offset of the IP header in a frame."""
TRANSPORT: Final = 8 + 12 + 16 + 4
"""Bytes behind the IP header: UDP, BTH, the reserved octets, ICRC."""
PAPER: Final = CC_PRESETS["paper"].qos(RATE, 1146)
FLOOD: Final = 5000


@pytest.fixture(scope="module")
def built() -> Iterator[Switch]:
    with switch() as made:
        yield made


def changed(frame: bytes, offset: int) -> bytes:
    """The frame with one bit inverted; ``offset`` may count from the end."""
    octets = bytearray(frame)
    octets[offset] ^= 1
    return bytes(octets)


def counted(nic: Switch) -> dict[str, int]:
    """The counters of the reaction point that are not 0."""
    counters = nic.maps.counters[SWP1]
    names = ("rp_cnp_handled", "rp_cnp_ignored", "rp_cnp_failed", "rp_cnp_icrc_error")
    return {name: int(counters[name]) for name in names if counters[name]}


def limited(nic: Switch) -> int:
    return int(nic.maps.ports["state"]["limited"][SWP1])


@BOTH
def test_a_cnp_with_a_wrong_icrc_slows_nothing_and_is_counted(built: Switch, path: build.Path) -> None:
    """In the ICRC, the reserved octets, the QPN, the UDP source port and the sender's address."""
    start(built, PAPER)
    built.connect(path.dst, OURS, path.src, THEIRS, fresh=False)
    frame = build.cnp(path, OURS)
    forged = [changed(frame, -offset) for offset in (1, 4, 5, TRANSPORT - 16, TRANSPORT)]
    forged.append(changed(frame, IP + (15 if path is PATH else 23)))
    for each in forged:
        assert built.rx(each).verdict == STOLEN
    assert counted(built) == {"rp_cnp_icrc_error": len(forged)}
    assert limited(built) == 0


@BOTH
def test_what_switches_change_is_not_in_the_icrc(built: Switch, path: build.Path) -> None:
    """Traffic class, hop limit and the octet of BECN (IBA vol. 1, A17.3.3)."""
    start(built, PAPER)
    built.connect(path.dst, OURS, path.src, THEIRS, fresh=False)
    frame = build.cnp(path, OURS)
    hops, ecn = (8, 1) if path is PATH else (7, 0)
    becn = -(TRANSPORT - 8 - 4)
    for each in (frame, changed(frame, IP + hops), changed(frame, becn), changed(frame, IP + ecn)):
        built.rx(each)
    assert counted(built) == {"rp_cnp_handled": 4}


def test_a_flood_of_cnps_leaves_a_qp_its_minimum_and_others_the_link(built: Switch) -> None:
    start(built, PAPER)
    built.rx(build.cnp(PATH, OURS), repeat=FLOOD)
    assert counted(built) == {"rp_cnp_handled": FLOOD}
    assert limited(built) == 1
    assert int(built.maps.limiters[0]["rate"]) == PAPER.registers.rpg_min_rate
    frame, free, count = write(THEIRS, 1000), write(FREE, 1000), 20
    with built.wire() as wire:
        send(built, *[frame] * 3, *[free] * count)
        came = [wire.next() for _ in range(count + 1)]
        assert came.count(free) == count, "another QP waited for the one that is flooded"
        assert [wire.next() for _ in range(2)] == [frame] * 2, "a QP at its minimum rate still sends"


def test_a_flood_for_qps_that_do_not_exist_takes_no_limiter(built: Switch) -> None:
    start(built, PAPER)
    count = 500
    for qpn in range(count):
        built.rx(build.cnp(PATH, OURS + 1 + qpn))
    assert counted(built) == {"rp_cnp_ignored": count}
    assert limited(built) == 0
    assert not built.maps.limiters["started"][:LIMITERS].any()
    assert not built.maps.nodes["limiters"].any()


def test_a_minimum_above_the_line_rate_limits_nothing(built: Switch) -> None:
    """`topology check` and `qos set` refuse it; a link may be slowed down afterwards."""
    start(built, PAPER)
    built.maps.config["cc"]["rpg_min_rate"] = 2 * RATE
    built.rx(build.cnp(PATH, OURS))

    def released() -> bool:
        send(built, write(FREE, 100))
        return limited(built) == 0

    waited(released, "the QP to be released")
    assert counted(built) == {"rp_cnp_handled": 1}


def test_cnps_in_a_class_that_is_paused_wait_and_are_no_more_than_the_minimum_time_allows(built: Switch) -> None:
    """`topology check` refuses such a class at hosts."""
    apart = 10.0
    registers = replace(CC_PRESETS["connectx"].registers, min_time_between_cnps=apart, cnp_dscp=LOSSLESS)
    cc = replace(CC_PRESETS["connectx"], real_rate=RATE, registers=registers).qos(RATE, 1500)
    built.reset(replace(PORT, cc=cc))
    built.connect(PATH.dst, OURS, PATH.src, THEIRS)
    priority = PORT.dscp_to_priority[LOSSLESS]
    marked = write(OURS, 1000, replace(PATH, ecn=3))
    counters = built.maps.counters[SWP1]
    with built.wire() as wire:
        built.rx(pfc({priority: 0xFFFF}))
        for _ in range(100):
            built.rx(marked)
        assert wire.is_silent()
        assert (int(counters["np_cnp_sent"]), int(counters["np_cnp_suppressed"])) == (1, 99)
        assert int(counters["queue"]["depth_packets"].sum()) == 1
        built.rx(pfc({priority: 0}))
        assert len(wire.next()) == IP + 20 + TRANSPORT
