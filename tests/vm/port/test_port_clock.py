"""The clock that ends pauses comes back by itself, in whatever way its token is lost; frames are sent in order."""

from __future__ import annotations

import socket
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, PadN
from scapy.layers.l2 import Ether

from lab.kernel.netlink import links
from lab.kernel.packets.inject import Injector
from lab.kernel.process import process
from lab.model.qos.port import Trust
from tests.inside import entered
from tests.vm.one_switch import waited
from tests.vm.port.test_port_xoff import GROUP, PRIORITY, XOFF_AT, data, frame
from tests.vm.port_programs import (
    MAC,
    PFC,
    PORT,
    PORTS,
    REDIRECT,
    SHOT,
    SWP1,
    SWP2,
    TOKEN,
    XOFF,
    Switch,
    mark,
    switch,
)
from tests.vm.run_program import run_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.vm.port_programs import Wire

pytestmark = [pytest.mark.vm]

LOST = 0.010
"""Seconds in which the clock is back, at the latest."""
SPARES = 8
"""RL_SPARES of clock.h."""
_GIVEN_UP = 5.0
LONG_PRIORITY = 4
LONG = bytes(
    Ether(src="02:00:00:00:00:22", dst=MAC)
    / IPv6(src="fdc9::1", dst="fdc9::2", tc=PORT.dscp_to_priority.index(LONG_PRIORITY) << 2)
    / IPv6ExtHdrDestOpt(options=[PadN(optdata=bytes(52))])
    / UDP(sport=9, dport=9)
    / bytes(100)
)
"""Its UDP header begins behind octet 60."""


@pytest.fixture(scope="module")
def built() -> Iterator[Switch]:
    with switch() as made:
        yield made


@pytest.fixture
def ports(built: Switch) -> Switch:
    built.reset()
    return built


@pytest.fixture
def going(ports: Switch) -> Iterator[tuple[Switch, Wire]]:
    """A port that has paused its peer, and the end of its cable; the clock goes."""
    ports.set_group(SWP1, GROUP, bytes=XOFF_AT)
    with ports.wire() as wire:
        ports.rx(data(PRIORITY))
        assert wire.next() == frame(PRIORITY)
        ticks_on(ports)
        yield ports, wire


def ticks_on(ports: Switch) -> float:
    """Until the clock has ticked again, in seconds; without a nap, so that no idle host makes it longer."""
    began, before = time.monotonic(), int(ports.maps.nodes["ticks"][0])
    while ports.maps.nodes["ticks"][0] == before:
        assert time.monotonic() < began + _GIVEN_UP, "the clock has stopped"
    return time.monotonic() - began


def revived(ports: Switch) -> int:
    return int(ports.maps.nodes["revived"][0])


def lateness(ports: Switch, meanwhile: Callable[[], object]) -> float:
    """Do something until a token is lost and replaced; by how many seconds the clock was late at most."""
    late, deadline = 0.0, time.monotonic() + _GIVEN_UP
    while not revived(ports):
        assert time.monotonic() < deadline, "no token was lost"
        meanwhile()
        late = max(late, time.monotonic() - int(ports.maps.nodes["tick_at"][0]) / 1e9)
    return late


def resumes(ports: Switch, wire: Wire) -> None:
    """The clock does what it is for: the pause ends as soon as the group has drained."""
    ports.set_group(SWP1, GROUP, bytes=0, paused=1, refresh_at=2**63)
    assert wire.next() == frame(PRIORITY, quanta=0)


@contextmanager
def without(ports: Switch, device: str) -> Iterator[None]:
    """An interface is down meanwhile."""
    with entered(ports.inside):
        process.run(["ip", "link", "set", device, "down"])
    try:
        yield
    finally:
        with entered(ports.inside):
            process.run(["ip", "link", "set", device, "up"])


@contextmanager
def losing(ports: Switch, *action: str) -> Iterator[None]:
    """An action of tc's for all that lo gives back meanwhile, before the clock has it."""
    words = ["dev", "lo", "ingress", "pref", "1", "matchall"]
    with entered(ports.inside):
        process.run(["tc", "filter", "add", *words, "action", *action])
    try:
        yield
    finally:
        with entered(ports.inside):
            process.run(["tc", "filter", "delete", *words[:-1]])


class TestLoss:
    def test_a_token_that_lo_loses_on_its_way_is_replaced(self, going: tuple[Switch, Wire]) -> None:
        """What is not of the clock's generation is dropped where a token of a full backlog would be missed."""
        ports, wire = going
        for loss in range(1, 4):
            ports.maps.nodes["generation"] += 1
            assert ticks_on(ports) < LOST
            assert revived(ports) == loss
        resumes(ports, wire)

    def test_a_backlog_that_is_full_loses_it_for_no_longer_than_it_is_full(self, going: tuple[Switch, Wire]) -> None:
        """A queue of the CPU that takes one packet: of one on lo and a token that is due with it, one is lost."""
        ports, wire = going
        limit = process.run(["sysctl", "-n", "net.core.netdev_max_backlog"]).stdout.strip()
        with entered(ports.inside):
            flood = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            flood.bind(("lo", 0))
        process.run(["sysctl", "-qw", "net.core.netdev_max_backlog=0"])
        try:
            late = lateness(ports, lambda: flood.send(bytes(60)))
        finally:
            process.run(["sysctl", "-qw", f"net.core.netdev_max_backlog={limit}"])
            flood.close()
        assert late < LOST
        resumes(ports, wire)

    def test_the_first_one_may_be_lost(self, ports: Switch) -> None:
        """What winds the clock up leaves a spare as well: none has come round yet, and nobody else need come by."""
        first = data(PRIORITY)
        once = ("police", "rate", "8kbit", "burst", str(len(first)), "conform-exceed", "continue/drop")
        ports.set_group(SWP1, GROUP, bytes=XOFF_AT)
        with ports.wire() as wire, losing(ports, *once):
            ports.rx(first)
            assert wire.next() == frame(PRIORITY)
            assert ticks_on(ports) < LOST
            assert revived(ports) == 1
            resumes(ports, wire)

    def test_what_takes_its_place_may_be_lost_as_well(self, going: tuple[Switch, Wire]) -> None:
        """While a backlog is full a spare is lost every 3 ms, and nobody else need come by."""
        ports, wire = going
        spares = ports.maps.ports["state"]["spares"]
        waited(lambda: spares[PORTS.clock] == SPARES, "all spares to be there")
        with losing(ports, "drop"):
            before = int(ports.maps.nodes["ticks"][0])
            waited(lambda: spares[PORTS.clock] <= SPARES - 3, "three to be lost")
            assert ports.maps.nodes["ticks"][0] == before
        assert ticks_on(ports) < LOST
        resumes(ports, wire)

    def test_the_last_packet_of_many_leaves_a_spare(self, going: tuple[Switch, Wire]) -> None:
        """However many are lost while a backlog is full: when its last packet is looked at, it is so no longer."""
        ports, wire = going
        spares = ports.maps.ports["state"]["spares"]
        ports.set_group(SWP1, GROUP, bytes=XOFF_AT, paused=1, refresh_at=2**63)
        with losing(ports, "drop"):
            waited(lambda: not spares[PORTS.clock], "all spares to be lost")
            ports.maps.nodes["tick_at"] = time.monotonic_ns() + 10**9  # for a second nobody finds it late
            ports.rx(data(0))
            assert spares[PORTS.clock] == 1
        ticks_on(ports)
        resumes(ports, wire)

    def test_lo_may_be_down_and_any_packet_ticks(self, going: tuple[Switch, Wire]) -> None:
        ports, wire = going
        with without(ports, "lo"), ports.wire(SWP2) as other:
            ports.set_group(SWP1, GROUP, bytes=0, paused=1, refresh_at=2**63)
            overdue = int(ports.maps.nodes["tick_at"][0]) + int(LOST * 1e9)
            waited(lambda: time.monotonic_ns() > overdue, "the clock to be late")
            other.send(data(0))
            assert wire.next() == frame(PRIORITY, quanta=0)
        assert revived(ports) == 1
        assert not ports.maps.nodes["paused"][0]

    def test_it_is_wound_up_when_lo_is_up_again(self, going: tuple[Switch, Wire]) -> None:
        ports, wire = going
        with without(ports, "lo"):
            overdue = int(ports.maps.nodes["tick_at"][0]) + int(LOST * 1e9)
            waited(lambda: time.monotonic_ns() > overdue, "the clock to be late")
        with ports.wire(SWP2) as other:
            other.send(data(0))
            assert ticks_on(ports) < LOST
            resumes(ports, wire)

    def test_a_token_that_lo_s_queue_refuses_is_replaced(self, going: tuple[Switch, Wire]) -> None:
        """All slots are taken, but for the one that the token has left, and that a spare seems to need."""
        ports, wire = going
        state = ports.maps.ports["state"]
        before = {name: int(state[name][PORTS.clock]) for name in ("free", "fresh")}
        state["free"][PORTS.clock], state["fresh"][PORTS.clock] = 0, 2**32 - 1
        state["spares"][PORTS.clock] = 0
        try:
            assert lateness(ports, lambda: None) < LOST
        finally:
            for name, value in before.items():
                state[name][PORTS.clock] = value
        ticks_on(ports)
        resumes(ports, wire)

    def test_a_token_that_cannot_be_cut_goes_on_as_it_is(self, ports: Switch) -> None:
        """The kernel cuts no packet before the transport header that a socket found (bpf_skb_change_tail)."""
        ports.hold(SWP1, GROUP, bytes=XOFF_AT, refresh_at=2**63)
        ports.maps.nodes["ticking"] = 1
        send(ports, "lo", LONG, mark(TOKEN, 0, PORTS.clock))
        for _ in range(3):
            ticks_on(ports)
        assert not revived(ports)

    @pytest.mark.parametrize("more", [0, 3990])
    def test_a_packet_that_cannot_be_cut_pauses_its_sender_as_well(self, ports: Switch, more: int) -> None:
        ports.set_group(SWP1, PORT.priority_to_group[LONG_PRIORITY], bytes=XOFF_AT)
        with ports.wire() as wire:
            wire.send(LONG + bytes(more))
            sent = wire.next()
        assert sent == frame(LONG_PRIORITY)
        assert ports.maps.counters[SWP1]["tx_pfc_bytes"] == 60

    def test_a_token_that_was_given_up_is_dropped_when_it_turns_up(self, ports: Switch) -> None:
        ports.hold(SWP1, GROUP, bytes=XOFF_AT, refresh_at=2**63)
        ports.maps.nodes["generation"] = 9
        for generation in range(8):
            token = mark(TOKEN, generation, PORTS.clock)
            with entered(ports.inside):
                outcome = run_program(ports.programs.tick, bytes(60), links.LOOPBACK_INDEX, token, 1)
            assert outcome.verdict == (REDIRECT if generation == 1 else SHOT)


def send(ports: Switch, device: str, packet: bytes, marked: int) -> None:
    """A packet out of an interface with a mark, as a program would send it."""
    with Injector(ports.inside, device) as injector:
        injector._socket.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, marked.to_bytes(4, sys.byteorder))
        injector.send([packet])


class TestOrder:
    """What CPUs say at once leaves in the order in which it became true: the last frame tells how it is."""

    @pytest.mark.parametrize("paused", [0, 1])
    def test_a_frame_that_is_overtaken_is_not_sent(self, ports: Switch, paused: int) -> None:
        ports.set_group(SWP1, GROUP, bytes=XOFF_AT, paused=paused)
        with ports.wire() as wire:
            for asked in (XOFF, 0):
                send(ports, "swp1", data(0), mark(PFC, GROUP, asked | 1 << PRIORITY))
            assert wire.next() == frame(PRIORITY, quanta=0xFFFF * paused)
            assert wire.is_silent()
        assert ports.maps.counters[SWP1]["tx_pfc"] == 1
        assert ports.maps.counters[SWP1]["tx_pfc_failed"] == 0

    def test_an_xon_that_cannot_be_sent_is_sent_later(self, ports: Switch) -> None:
        ports.hold(SWP1, GROUP, bytes=0)
        with without(ports, "swp1"):
            assert ports.tick().verdict == REDIRECT
            assert ports.group(SWP1, GROUP)["paused"] == 1
            assert ports.maps.counters[SWP1]["tx_pfc_failed"] == 1
        with ports.wire() as wire:
            assert ports.tick().verdict == SHOT
            assert wire.next() == frame(PRIORITY, quanta=0)
        counted = ports.maps.counters[SWP1]
        assert (int(counted["group"]["xon"][GROUP]), int(counted["priority"]["tx_resume"][PRIORITY])) == (1, 1)


class TestTags:
    """MAC control frames have no tag (IEEE 802.3 31.4.1.3), whatever the packet had that caused them."""

    @pytest.mark.parametrize("tags", [1, 2])
    def test_a_tagged_packet_is_answered_without_a_tag(self, ports: Switch, tags: int) -> None:
        ports.set_group(SWP1, GROUP, bytes=XOFF_AT)
        ports.reset(replace(PORT, trust=Trust.PCP))
        ports.set_group(SWP1, GROUP, bytes=XOFF_AT)
        plain = data(0)
        tag = (0x8100).to_bytes(2) + (PORT.pcp_to_priority.index(PRIORITY) << 13 | 100).to_bytes(2)
        with ports.wire() as wire:
            wire.send(plain[:12] + tag * tags + plain[12:])
            assert wire.next_untagged() == frame(PRIORITY)


def test_a_port_is_refused_on_another_s_interface(ports: Switch) -> None:
    """Both would send out of one's queues, and one would charge the other's groups."""
    kind = ports.programs.kind
    for handle, taken in ((SWP1, False), (SWP2, True), (PORTS.clock, False)):
        argv = ["tc", "qdisc", "replace", "dev", "swp2", "root", "handle", f"{handle:x}:", kind]
        with entered(ports.inside):
            assert (process.run(argv, check=False).returncode == 0) is taken


@pytest.mark.parametrize("port", [SWP2, PORTS.clock, 4000])
def test_the_number_of_another_port_or_of_none_makes_no_port_of_an_interface(ports: Switch, port: int) -> None:
    """Packets go by as they do on any interface, and nobody counts them."""
    ports.reset()
    with entered(ports.inside):
        process.run(["tc", "qdisc", "replace", "dev", "swp1", "root", "handle", f"{port:x}:", "pfifo"])
    try:
        assert ports.rx(data(0), SWP1).mark == 0
        assert ports.tx(data(0), port=SWP1).mark == 0
    finally:
        with entered(ports.inside):
            process.run(["tc", "qdisc", "delete", "dev", "swp1", "root"])
            process.run(["tc", "qdisc", "add", "dev", "swp1", "root", "handle", f"{SWP1:x}:", ports.programs.kind])
    assert not ports.maps.counters["priority"]["rx_packets"].any()
    assert ports.rx(data(0), SWP1).mark != 0
