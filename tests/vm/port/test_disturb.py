"""Cables that are late, unsteady and out of order, in virtual time: each packet as the seed says, and no drop.

h1 -- s1 -- h2, links of 100 Mb/s; the cable that is disturbed is the one from h1 to s1, in that direction.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from contextlib import contextmanager
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pytest

from lab.dataplane import disturb, reconfigure
from lab.errors import UsageError
from lab.kernel.packets.inject import Injector
from lab.model.disturbance import LONGEST, Disturbance
from tests import splitmix
from tests.inside import entered
from tests.pings import Echoes, ping
from tests.vm import port_programs
from tests.vm.one_switch import SWITCH, Star, balanced, bounds, build, ports, settle, star, waited
from tests.vm.port.test_port_clock import send
from tests.vm.port.test_port_xoff import GROUP, PRIORITY, data, frame
from tests.vm.port_programs import PFC, SWP1, XOFF, Switch, mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.dataplane.disturb import DisturbanceCounts

pytestmark = [pytest.mark.vm, pytest.mark.timeout(300)]

SEED = 20161
JITTER, REORDER = range(2)
"""Which of a packet's random numbers decides what."""
LOSSLESS_TOS = 26 << 2
LOSSLESS = frozenset({3})
PACKETS = 2000
ROCE_PORT = 4791
ACKNOWLEDGE = bytes.fromhex("1100ffff")
"""The BTH of an acknowledgement up to its QPN (IBA vol. 1, 9.2). The AETH is below."""
CREDITS = bytes.fromhex("1f000001")
FIRST_PSN = (1 << 24) - PACKETS // 2
EXACT = 300e-6
"""Seconds to which a ping tells a time: the kernel and ping itself take turns on one CPU."""


@pytest.fixture(scope="module")
def fabric() -> Iterator[Star]:
    with build(star(2, "100Mbit", 1500)) as made:
        yield made


@contextmanager
def disturbed(fabric: Star, disturbance: Disturbance) -> Iterator[None]:
    disturb.disturb(fabric.maps, fabric.id("h1"), disturbance)
    try:
        yield
    finally:
        disturb.calm(fabric.maps, fabric.id("h1"))


def rounds(fabric: Star, count: int = 100) -> Echoes:
    """Pings from h1 to h2, one every 5 ms."""
    return ping(fabric.namespaces["h1"], fabric.address("h2"), count)


def counts(fabric: Star) -> DisturbanceCounts:
    return disturb.read(fabric.maps, fabric.id("h1"))


class TestTime:
    def test_a_delay_is_kept_to_every_packet(self, fabric: Star) -> None:
        usual = median(rounds(fabric).times)
        with disturbed(fabric, Disturbance(delay=0.03)):
            late = rounds(fabric)
        assert late.lost == []
        assert late.times == pytest.approx([usual + 0.03] * 100, abs=EXACT)
        assert median(rounds(fabric).times) == pytest.approx(usual, abs=EXACT)

    def test_each_packet_has_the_jitter_that_the_seed_says(self, fabric: Star) -> None:
        """Of up to 4 ms: the next packet comes after 5, and none waits for another."""
        usual = median(rounds(fabric).times)
        with disturbed(fabric, Disturbance(jitter=0.004, seed=SEED)):
            echoes = rounds(fabric)
            assert counts(fabric).packets == 100
        drawn = [value / 2**64 * 0.004 for value in splitmix.stream(SEED, JITTER, 100)]
        assert echoes.times == pytest.approx([usual + late for late in drawn], abs=EXACT)

    def test_jitter_alone_leaves_the_order_as_it_is(self, fabric: Star) -> None:
        """Of up to 40 ms, packets every 5 ms: many wait for one before them."""
        with disturbed(fabric, Disturbance(jitter=0.04, seed=SEED)):
            echoes = rounds(fabric)
        assert [number for number, _ in echoes.answers] == list(range(100))
        assert max(echoes.times) > 0.03


def exchanged(fabric: Star, packets: int) -> list[int]:
    """Numbered datagrams of a lossless class as h2 gets them that h1 sends as fast as its link takes them."""
    with (
        fabric.open_socket("h2", socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        fabric.open_socket("h1", socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)  # SO_RCVBUFFORCE of <asm-generic/socket.h>
        receiver.bind(("0.0.0.0", 9))  # noqa: S104 - of a namespace
        receiver.settimeout(5)
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, LOSSLESS_TOS)
        for number in range(packets):
            sender.sendto(number.to_bytes(4).ljust(400, b"\0"), (fabric.address("h2"), 9))
        return [int.from_bytes(receiver.recv(500)[:4]) for _ in range(packets)]


def overtaken(chosen: list[int], packets: int, distance: int) -> list[int]:
    """The order in which packets arrive when each of the chosen is overtaken by the next ``distance`` others."""
    order: list[int] = []
    late: deque[tuple[int, int]] = deque()
    others = 0
    for number in range(packets):
        if number in chosen:
            late.append((number, others + distance))
            continue
        others += 1
        order.append(number)
        while late and late[0][1] <= others:
            order.append(late.popleft()[0])
    return order + [number for number, _ in late]


class TestOrder:
    @pytest.mark.parametrize("distance", [1, 7])
    def test_the_order_is_the_one_that_the_seed_says(self, fabric: Star, distance: int) -> None:
        asked = Disturbance(reorder=0.05, distance=distance, hold=1, priorities=LOSSLESS, seed=SEED)
        assert exchanged(fabric, 100) == list(range(100))
        with disturbed(fabric, asked):
            arrived = exchanged(fabric, PACKETS)
            done = counts(fabric)
        chosen = splitmix.chosen(SEED, REORDER, PACKETS, 0.05)
        assert arrived == overtaken(chosen, PACKETS, distance)
        assert sum(later < sooner for sooner, later in pairwise(arrived)) > len(chosen) / 2
        low, high = bounds(PACKETS, 0.05, 1)
        assert low <= done.reordered == len(chosen) <= high
        assert done.packets == PACKETS
        assert exchanged(fabric, 100) == list(range(100))

    def test_one_that_nothing_overtakes_goes_when_its_time_is_up(self, fabric: Star) -> None:
        usual = median(rounds(fabric).times)
        with disturbed(fabric, Disturbance(reorder=1.0, distance=1000, hold=0.02)):
            echoes = rounds(fabric)
            done = counts(fabric)
        assert echoes.times == pytest.approx([usual + 0.02] * 100, abs=EXACT)
        assert (done.packets, done.reordered, done.timed_out) == (100, 100, 100)

    def test_other_priorities_keep_their_time_and_order(self, fabric: Star) -> None:
        usual = median(rounds(fabric).times)
        with disturbed(fabric, Disturbance(jitter=1, reorder=1.0, hold=1, priorities=LOSSLESS)):
            assert rounds(fabric).times == pytest.approx([usual] * 100, abs=EXACT)
            assert counts(fabric).packets == 0


def acknowledged(fabric: Star, packets: int, qpn: int) -> list[int]:
    """Numbers of acknowledgements from h1 to a QP of h2, in the order in which a capture at the switch shows them.

    Their PSNs pass the highest one.
    """
    with (
        fabric.open_socket(SWITCH, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as capture,
        fabric.open_socket("h2", socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        fabric.open_socket("h1", socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        with entered(fabric.namespaces[SWITCH]):
            capture.bind(("swp1", 3))
        capture.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)
        capture.settimeout(5)
        receiver.bind(("0.0.0.0", ROCE_PORT))  # noqa: S104 - of a namespace
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, LOSSLESS_TOS)
        for number in range(packets):
            psn = (FIRST_PSN + number) % (1 << 24)
            bth = ACKNOWLEDGE + qpn.to_bytes(4) + psn.to_bytes(4)
            sender.sendto(bth + CREDITS + bytes(4), (fabric.address("h2"), ROCE_PORT))
        shown: list[int] = []
        while len(shown) < packets:
            frame = capture.recv(500)
            if frame[36:38] == ROCE_PORT.to_bytes(2):
                shown.append((int.from_bytes(frame[51:54]) - FIRST_PSN) % (1 << 24))
    return shown


def out_of_order(fabric: Star) -> dict[tuple[str, str], tuple[int, int]]:
    """Ports that count acknowledgements out of order: received and sent."""
    settle(fabric)
    counted = {
        place: (int(each["rx_ack_out_of_order"]), int(each["tx_ack_out_of_order"]))
        for place, each in ports(fabric).items()
    }
    return {place: each for place, each in counted.items() if any(each)}


class TestAcknowledgements:
    def test_each_port_counts_what_a_capture_shows(self, fabric: Star) -> None:
        """The port behind the cable first, those after it the same, and the sender none."""
        assert acknowledged(fabric, 100, qpn=17) == list(range(100))
        assert out_of_order(fabric) == {}
        with disturbed(fabric, Disturbance(reorder=0.05, distance=2, hold=0.1, priorities=LOSSLESS, seed=SEED)):
            shown = acknowledged(fabric, PACKETS, qpn=18)
        late = sum(number < max(shown[:place], default=0) for place, number in enumerate(shown))
        assert late > 50
        assert out_of_order(fabric) == {
            (SWITCH, "swp1"): (late, 0),
            (SWITCH, "swp2"): (0, late),
            ("h2", "eth1"): (late, 0),
        }


class TestUnseen:
    def test_neither_counters_nor_configuration_show_it(self, fabric: Star) -> None:
        with disturbed(fabric, Disturbance(delay=0.001, jitter=0.001, reorder=0.1, seed=SEED)):
            exchanged(fabric, 300)
            settle(fabric)
            counted = ports(fabric)
            for name, node in fabric.numbering.nodes.items():
                found = reconfigure.differences(fabric.maps, node, fabric.built[name], fabric.plan[name])
                assert not any(found.values()), found
        assert all(balanced(each) for each in counted.values())
        assert not any(each["queue"]["drop_packets"].any() for each in counted.values())

    def test_nothing_is_left_of_it(self, fabric: Star) -> None:
        with disturbed(fabric, Disturbance(delay=0.001)):
            with pytest.raises(UsageError, match=r"is disturbed: heal that fault first"):
                disturb.disturb(fabric.maps, fabric.id("h1"), Disturbance(delay=1))
            assert disturb.is_disturbed(fabric.maps, fabric.id("h1"))
            assert not disturb.is_disturbed(fabric.maps, fabric.id("h2"))
        disturb.calm(fabric.maps, fabric.id("h1"))
        rounds(fabric, 10)
        assert (fabric.maps.ports["cable"] == np.zeros((), disturb.CABLE)).all()
        state = fabric.maps.ports["state"]
        assert not any(state[name].any() for name in ("disturbed", "late", "on_wire"))


@pytest.fixture
def switch() -> Iterator[Switch]:
    with port_programs.switch() as made:
        yield made


@pytest.mark.parametrize("jitter", [5.0, LONGEST])
def test_a_jitter_that_takes_more_than_32_bits_is_drawn_from_all_of_it(switch: Switch, jitter: float) -> None:
    """What each packet's draw makes of 5 and of 60 s, by the time at which it is to arrive: nobody waits for it."""
    packets = 200
    disturb.disturb(switch.maps, SWP1, Disturbance(jitter=jitter, seed=SEED))
    began = time.monotonic_ns()
    with Injector(switch.inside, "swp1") as injector:
        injector.send([data(0)] * packets)
    waited(lambda: switch.maps.ports["state"]["on_wire"][SWP1] == packets, "the cable to hold them all")
    ended = time.monotonic_ns() + 10**6
    drawn = [(value >> 32) * round(jitter * 1e9) >> 32 for value in splitmix.stream(SEED, JITTER, packets)]
    assert max(drawn) > 0.9 * jitter * 1e9
    arrive = switch.slots(SWP1, packets)["ready_at"].tolist()
    assert all(began <= when - late <= ended for when, late in zip(arrive, drawn, strict=True))


def test_a_pause_is_never_overtaken(switch: Switch) -> None:
    """A PFC frame that is sent after data which everything overtakes comes before it, and at once."""
    disturb.disturb(switch.maps, SWP1, Disturbance(reorder=1.0, distance=1000, jitter=10, hold=2))
    switch.set_group(SWP1, GROUP, paused=1)
    with switch.wire() as wire:
        send(switch, "swp1", data(0), 0)
        send(switch, "swp1", data(0), mark(PFC, GROUP, XOFF | 1 << PRIORITY))
        assert wire.next() == frame(PRIORITY)
        assert wire.is_silent()
    assert disturb.read(switch.maps, SWP1).packets == 1
    disturb.calm(switch.maps, SWP1)
    switch.set_group(SWP1, GROUP)
    waited(lambda: not switch.maps.ports["state"]["on_wire"][SWP1], "the cable to empty", 20)
