"""When a port asks its peer to pause: XOFF at the threshold, refreshed while it lasts, XON once it has drained."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from lab.dataplane import impair
from lab.dataplane.impair import ImpairmentHook
from lab.dataplane.port_layout import EventKind
from lab.kernel.netlink.tc_hooks import Hook
from lab.kernel.packets.inject import Injector
from lab.kernel.process import process
from lab.model.impairment import Impairment, Traffic
from lab.model.qos.headroom import PFC_FRAME
from lab.model.qos.port import GroupQos, PortQos, Trust
from lab.units import WIRE_OVERHEAD
from lab.wire.craft import build
from lab.wire.headers import PfcFrame
from tests.inside import entered
from tests.vm.port_programs import (
    DATA,
    MAC,
    POOL,
    PORT,
    PORTS,
    RATE,
    REDIRECT,
    SHOT,
    SWP1,
    SWP2,
    TOKEN,
    UNSPEC,
    Switch,
    mark,
    switch,
)
from tests.vm.run_program import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = build.Path("02:00:00:00:00:22", MAC, "10.9.0.1", "10.9.0.2")
XOFF_AT, XON_AT = 20_000, 10_000
GROUP = PRIORITY = 3
TOKEN_MARK = mark(TOKEN, 0, PORTS.clock)
MIN_TICK, MAX_TICK = 50_000, 1_000_000
PAUSE = 0xFFFF * 512 * 10**9 // RATE
"""Nanoseconds of 65535 quanta."""
ALPHAS = pytest.mark.parametrize("alpha", [Fraction(1, 8), Fraction(1), Fraction(8)])
USES = pytest.mark.parametrize("used", [0, POOL // 2, POOL - 1, POOL, 2 * POOL])


@pytest.fixture(scope="module")
def built() -> Iterator[Switch]:
    with switch() as made:
        yield made


@pytest.fixture
def ports(built: Switch) -> Switch:
    built.reset()
    return built


def frame(*priorities: int, quanta: int = 0xFFFF) -> bytes:
    """The PFC frame of a port that pauses ``priorities``, or with no quanta resumes them."""
    return build.pfc(MAC, PfcFrame.of(dict.fromkeys(priorities, quanta)))


def data(priority: int) -> bytes:
    """A packet of 100 bytes."""
    packet = bytes(replace(PATH, dscp=PORT.dscp_to_priority.index(priority)).layers())
    return packet.ljust(100, b"\0")


def dynamic(alpha: Fraction) -> PortQos:
    """A port whose thresholds move with the pool."""
    group = GroupQos(reserved=3000, alpha=alpha, xoff=None, xon=1000, headroom=50_000)
    return replace(PORT, groups=(group,) * 8)


def static(reserved: int) -> PortQos:
    """A port whose thresholds are fixed."""
    return replace(PORT, groups=(replace(PORT.groups[0], reserved=reserved),) * 8)


def only(*priorities: int) -> list[int]:
    return [int(priority in priorities) for priority in range(8)]


class TestXoff:
    def arriving(self, ports: Switch, held: int, priority: int = PRIORITY) -> list[bytes]:
        """The PFC frames that a packet of 100 bytes causes whose group holds ``held`` bytes."""
        packet = data(priority)
        ports.set_group(SWP1, PORT.priority_to_group[priority], bytes=held)
        before = int(ports.maps.counters[SWP1]["group"]["xoff"].sum())
        with ports.wire() as wire:
            assert ports.rx(packet) == Outcome(UNSPEC, packet, mark(DATA, priority, SWP1))
            frames = [wire.next() for _ in range(int(ports.maps.counters[SWP1]["group"]["xoff"].sum()) - before)]
            assert wire.is_silent()
        return frames

    def test_the_byte_after_the_threshold_pauses_and_none_before(self, ports: Switch) -> None:
        assert self.arriving(ports, XOFF_AT - 100) == []
        assert ports.maps.nodes[0]["paused"] == 0
        assert self.arriving(ports, XOFF_AT - 99) == [frame(PRIORITY)]
        counted = ports.maps.counters[SWP1]
        assert counted["priority"]["tx_pause"].tolist() == only(PRIORITY)
        assert counted["group"]["xoff"].tolist() == only(GROUP)
        assert ports.maps.events["kind"][0] == EventKind.XOFF_SENT

    def test_a_group_pauses_all_the_priorities_it_holds(self, ports: Switch) -> None:
        assert self.arriving(ports, XOFF_AT, priority=7) == [frame(6, 7)]

    @pytest.mark.parametrize("priority", [0, 1, 2, 5])
    def test_a_lossy_group_never_pauses(self, ports: Switch, priority: int) -> None:
        assert self.arriving(ports, 10 * XOFF_AT, priority) == []
        assert not ports.maps.counters[SWP1]["group"]["xoff"].any()

    def test_nobody_is_paused_where_sending_is_off(self, ports: Switch) -> None:
        ports.reset(replace(PORT, pfc=replace(PORT.pfc, tx=False)))
        ports.set_group(SWP1, GROUP, bytes=XOFF_AT)
        with ports.wire() as wire:
            ports.rx(data(PRIORITY))
            assert wire.is_silent()
        assert not ports.maps.counters[SWP1]["priority"]["tx_pause"].any()
        assert not ports.maps.counters[SWP1]["group"]["xoff"].any()
        assert (ports.maps.event_count[0], ports.maps.nodes["paused"][0]) == (0, 0)

    def test_one_crossing_is_one_frame(self, ports: Switch) -> None:
        assert self.arriving(ports, XOFF_AT) == [frame(PRIORITY)]
        with ports.wire() as wire:
            ports.rx(data(PRIORITY), repeat=50)
            assert wire.is_silent()
        assert ports.maps.counters[SWP1]["group"]["xoff"].tolist() == only(GROUP)

    @ALPHAS
    @USES
    def test_a_moving_threshold_is_where_the_model_says(self, ports: Switch, alpha: Fraction, used: int) -> None:
        qos = dynamic(alpha)
        ports.reset(qos)
        ports.maps.nodes["pool_used"] = used
        threshold = qos.groups[GROUP].threshold(POOL - used)
        assert self.arriving(ports, threshold - 100) == []
        assert self.arriving(ports, threshold - 99) == [frame(PRIORITY)]


def sized(size: int, tags: int = 0) -> bytes:
    """A packet of a lossless class with so many octets, tags included."""
    packet = data(PRIORITY)
    packet = packet[:12] + bytes.fromhex("81006064") * tags + packet[12:]
    return packet[:size].ljust(size, b"\0")


class TestLength:
    """A PFC frame is 60 octets without its FCS, whatever the packet was that it was made of (IEEE 802.3 31D)."""

    @pytest.mark.parametrize("size", [34, 42, 59, 60, 61, 1500, 4214])
    @pytest.mark.parametrize("tags", [0, 1])
    def test_it_is_counted_and_occupies_the_link_as_what_it_is(self, ports: Switch, size: int, tags: int) -> None:
        before = root(ports)
        ports.reset(replace(PORT, trust=Trust.PCP if tags else Trust.DSCP))
        ports.set_group(SWP1, GROUP, bytes=XOFF_AT)
        with ports.wire() as wire:
            ports.rx(sized(size, tags))
            assert wire.next_untagged() == frame(PRIORITY)
        counted = ports.maps.counters[SWP1]
        assert (int(counted["tx_pfc"]), int(counted["tx_pfc_bytes"])) == (1, PFC_FRAME)
        after = root(ports)
        assert [after[name] - before[name] for name in ("packets", "bytes", "backlog")] == [1, PFC_FRAME, 0]
        occupied = int(ports.maps.ports["state"]["next_tx"][SWP1]) - int(ports.maps.events["ns"][0])
        assert occupied <= (PFC_FRAME + WIRE_OVERHEAD) * 8 * 10**9 // RATE

    def test_what_waits_behind_it_waits_for_60_octets(self, ports: Switch) -> None:
        """Two packets wait for the link, XOFF goes between them: the second comes its time of the line behind it."""
        rate = 1_000_000
        ports.reset(replace(PORT, rate=rate))
        ports.set_group(SWP1, GROUP, bytes=XOFF_AT)
        with ports.stamped_wire() as wire, Injector(ports.inside, "swp1") as injector:
            injector.send([sized(1000)] * 3)
            ports.rx(sized(4214))
            came = [wire.next_stamped() for _ in range(4)]
        (place,) = (number for number, (_, octets) in enumerate(came) if octets == frame(PRIORITY))
        assert 0 < place < 3, "it goes before what waits"
        behind = came[place + 1][0] - came[place][0]
        assert behind == pytest.approx((PFC_FRAME + WIRE_OVERHEAD) * 8 / rate, abs=100e-6)

    @pytest.mark.parametrize("lost", [True, False])
    def test_an_impairment_where_it_leaves_sees_one_frame(self, ports: Switch, *, lost: bool) -> None:
        """And not the packet that it is written over, which another impairment would lose."""
        traffic = frozenset({Traffic.PAUSES} if lost else {Traffic.ROCE, Traffic.OTHER, Traffic.CONTROL})
        place = ImpairmentHook(ports.inside, PORTS.index(SWP1), Hook.EGRESS)
        ports.set_group(SWP1, GROUP, bytes=XOFF_AT)
        impair.apply(place, Impairment(loss=1.0, traffic=traffic))
        try:
            with ports.wire() as wire:
                ports.rx(sized(4214))
                if not lost:
                    assert wire.next() == frame(PRIORITY)
                assert wire.is_silent()
            counts = impair.read(place)
        finally:
            impair.remove(place)
        assert (counts.matched, counts.lost, counts.struck_bytes) == (lost, lost, PFC_FRAME * lost)


def root(ports: Switch) -> dict[str, int]:
    """What ``tc -s qdisc`` says of the root qdisc of swp1."""
    argv = ["tc", "-j", "-s", "qdisc", "show", "dev", "swp1"]
    with entered(ports.inside):
        (found,) = (entry for entry in json.loads(process.run(argv).stdout) if entry.get("root"))
    return dict(found)


class TestClock:
    """The token is ours: its mark says so, and nothing of the switch's own is under way."""

    def pause(self, ports: Switch, held: int, port: int = SWP1, group: int = GROUP, **fields: int) -> None:
        """A group in XOFF."""
        ports.hold(port, group, **{"bytes": held, "refresh_at": 2**63, **fields})

    def tick(self, ports: Switch, *expected: bytes, port: int = SWP1) -> Outcome:
        """One round of the token, in which a port sends just ``expected``."""
        with ports.wire(port) as wire:
            outcome = ports.tick()
            assert [wire.next() for _ in expected] == list(expected)
            assert wire.is_silent()
        return outcome

    def test_xon_is_sent_at_its_byte_and_the_clock_stops(self, ports: Switch) -> None:
        self.pause(ports, XON_AT + 1)
        assert self.tick(ports) == Outcome(REDIRECT, bytes(60), TOKEN_MARK)
        assert ports.group(SWP1, GROUP)["paused"] == 1
        ports.set_group(SWP1, GROUP, bytes=XON_AT, paused=1, refresh_at=2**63)
        assert self.tick(ports, frame(PRIORITY, quanta=0)).verdict == SHOT
        assert ports.group(SWP1, GROUP)["paused"] == 0
        counted = ports.maps.counters[SWP1]
        assert counted["priority"]["tx_resume"].tolist() == counted["group"]["xon"].tolist() == only(PRIORITY)
        assert [int(ports.maps.nodes[0][name]) for name in ("paused", "ticking", "ticks")] == [0, 0, 2]
        assert ports.maps.events["kind"][0] == EventKind.XON_SENT

    def test_no_pause_ends_before_headroom_is_empty(self, ports: Switch) -> None:
        """A threshold that rises because others drain would otherwise send XON with the headroom still taken."""
        self.pause(ports, XON_AT, headroom=5_000)
        assert self.tick(ports).verdict == REDIRECT
        assert ports.group(SWP1, GROUP)["paused"] == 1
        ports.set_group(SWP1, GROUP, bytes=XON_AT, paused=1, refresh_at=2**63)
        self.tick(ports, frame(PRIORITY, quanta=0))

    def test_a_pause_that_began_before_sending_was_off_ends_unsaid(self, ports: Switch) -> None:
        ports.reset(replace(PORT, pfc=replace(PORT.pfc, tx=False)))
        self.pause(ports, 0)
        assert self.tick(ports).verdict == SHOT
        assert (ports.group(SWP1, GROUP)["paused"], ports.maps.nodes[0]["paused"]) == (0, 0)
        assert ports.maps.event_count[0] == 0
        assert not ports.maps.counters[SWP1]["priority"]["tx_resume"].any()

    @USES
    def test_an_exhausted_pool_moves_a_static_xon_as_well(self, ports: Switch, used: int) -> None:
        """Without this, a group above its reserve and below XON is paused and resumed by turns."""
        qos = static(reserved=3000)
        ports.reset(qos)
        ports.maps.nodes["pool_used"] = used
        release = qos.groups[GROUP].release(POOL - used)
        assert release == (1500 if used >= POOL else (3001 // 2 if used == POOL - 1 else XON_AT))
        self.pause(ports, release + 1)
        self.tick(ports)
        ports.set_group(SWP1, GROUP, bytes=release, paused=1, refresh_at=2**63)
        self.tick(ports, frame(PRIORITY, quanta=0))

    @pytest.mark.parametrize("free", [0, 100, 1000])
    def test_a_static_group_does_not_flap_while_the_pool_is_all_but_exhausted(self, ports: Switch, free: int) -> None:
        """The bytes of one packet that leave the pool, or come to it, end no pause."""
        ports.reset(static(reserved=3000))
        ports.set_group(SWP1, GROUP, bytes=8000, shared=5000)
        ports.maps.nodes["pool_used"] = POOL
        with ports.wire() as wire:
            ports.rx(data(PRIORITY))
            assert wire.next() == frame(PRIORITY)
            ports.maps.nodes["pool_used"] = POOL - free
            for _ in range(5):
                ports.tick()
            assert wire.is_silent()
        counted = ports.maps.counters[SWP1]["group"][GROUP]
        assert (int(counted["xoff"]), int(counted["xon"])) == (1, 0)

    @ALPHAS
    @USES
    def test_a_moving_xon_is_where_the_model_says(self, ports: Switch, alpha: Fraction, used: int) -> None:
        qos = dynamic(alpha)
        ports.reset(qos)
        ports.maps.nodes["pool_used"] = used
        release = qos.groups[GROUP].release(POOL - used)
        self.pause(ports, release + 1)
        self.tick(ports)
        ports.set_group(SWP1, GROUP, bytes=release, paused=1, refresh_at=2**63)
        self.tick(ports, frame(PRIORITY, quanta=0))

    def test_a_pause_is_sent_again_before_half_of_it_has_passed(self, ports: Switch) -> None:
        self.pause(ports, XOFF_AT, refresh_at=1)
        self.tick(ports, frame(PRIORITY))
        assert ports.group(SWP1, GROUP)["refresh_at"] == self.now(ports, XOFF_AT) + PAUSE // 2
        self.tick(ports)

    def test_every_group_of_every_port_has_its_turn(self, ports: Switch) -> None:
        self.pause(ports, XOFF_AT, refresh_at=1)
        self.pause(ports, 0, group=4)
        self.pause(ports, 0, port=SWP2, group=6)
        with ports.wire(SWP2) as other:
            assert self.tick(ports, frame(3), frame(4, quanta=0)).verdict == REDIRECT
            assert other.next() == frame(6, 7, quanta=0)
        assert ports.maps.nodes[0]["paused"] == 1

    @pytest.mark.parametrize("held", [XON_AT + 1, XON_AT + 5_000, XOFF_AT, 10**6])
    def test_it_comes_again_when_the_fullest_group_can_have_drained(self, ports: Switch, held: int) -> None:
        self.pause(ports, held, refresh_at=1)
        self.tick(ports, frame(PRIORITY))
        assert self.now(ports, held) == ports.group(SWP1, GROUP)["refresh_at"] - PAUSE // 2

    def now(self, ports: Switch, held: int) -> int:
        """When the token came, by when it comes again: at the sum of the ports' rates, within 0.05 to 1 ms."""
        drained = (held - XON_AT) * 8 * 10**9 // (2 * RATE)
        return int(ports.maps.nodes[0]["tick_at"]) - min(max(drained, MIN_TICK), MAX_TICK)
