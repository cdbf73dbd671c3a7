"""ECN against the formula of the curve: the step test, and SONiC's accuracy method.

The egress towards h2 is blocked by a pause, filled with frames of one size, and released: the frame in position n has
met exactly n frames, so its chance to be marked is known.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from tests.vm.one_switch import SWITCH, Star, bounds, build, pfc, star, waited

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.vm, pytest.mark.timeout(600)]

RATE = 20_000_000
SIZE = 1000
"""Bytes of each frame, without FCS."""
FILL = 40
REPEATS = 200
ECT0 = 26 << 2 | 2
NOT_ECT = 26 << 2
CE = 3
LONGEST = 0xFFFF


@pytest.fixture(scope="module")
def fabric() -> Iterator[Star]:
    with build(star(2, f"{RATE}bit", 1500)) as built:
        built.configure("h1", "ecn.3.enabled=false")
        yield built


class Queue:
    """The queue of priority 3 towards h2, with a sender before it, a stopper and a receiver behind it."""

    def __init__(self, fabric: Star) -> None:
        self.live = fabric.live(SWITCH, "swp2")
        self._address = fabric.address("h2")
        self._sender = fabric.open_socket("h1", socket.AF_INET, socket.SOCK_DGRAM)
        self._receiver = fabric.open_socket("h2", socket.AF_INET, socket.SOCK_DGRAM)
        self._receiver.bind(("", 9000))
        self._receiver.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        self._receiver.settimeout(20)
        self._stopper = fabric.wire("h2")

    def close(self) -> None:
        for each in (self._sender, self._receiver, self._stopper):
            each.close()

    def round(self, tos: int = ECT0) -> list[int]:
        """Block, fill, release; the ECN field of each position."""
        paused = int(self.live["priority"][3]["rx_pause"])
        self._stopper.send(pfc({3: LONGEST}))
        waited(lambda: self.live["priority"][3]["rx_pause"] > paused, "the pause")
        self._sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
        for number in range(FILL):
            self._sender.sendto(number.to_bytes(2, "big") + bytes(SIZE - 44), (self._address, 9000))
        waited(lambda: self.live["queue"][3]["depth_packets"] == FILL, "a full queue")
        assert self.live["queue"][3]["depth_bytes"] == FILL * SIZE
        self._stopper.send(pfc({3: 0}))
        marks = []
        for number in range(FILL):
            data, ancillary, _, _ = self._receiver.recvmsg(2048, 64)
            assert int.from_bytes(data[:2], "big") == number, "out of order"
            marks.append(ancillary[0][2][0] & 3)
        waited(lambda: not self.live["queue"][3]["depth_packets"], "an empty queue")
        return marks


@pytest.fixture
def queue(fabric: Star) -> Iterator[Queue]:
    queue = Queue(fabric)
    yield queue
    queue.close()
    fabric.configure(SWITCH)


def test_a_step_marks_nothing_up_to_kmin_and_everything_beyond(fabric: Star, queue: Queue) -> None:
    """kmax = kmin + 1 is one byte apart: no position between never and always."""
    kmin = 20 * SIZE
    fabric.configure(SWITCH, f"ecn.3.kmin={kmin}", f"ecn.3.kmax={kmin + 1}", "ecn.3.pmax=100%")
    before = int(queue.live["queue"][3]["ecn_marked"])
    for _ in range(5):
        assert queue.round() == [2] * 21 + [CE] * 19  # the 21st frame meets 20 frames: kmin itself
    assert queue.live["queue"][3]["ecn_marked"] - before == 5 * 19


def test_what_is_not_ect_is_counted_and_left_alone(fabric: Star, queue: Queue) -> None:
    kmin = 20 * SIZE
    fabric.configure(SWITCH, f"ecn.3.kmin={kmin}", f"ecn.3.kmax={kmin + 1}", "ecn.3.pmax=100%")
    before = queue.live["queue"][3].copy()
    assert queue.round(NOT_ECT) == [0] * FILL
    assert queue.live["queue"][3]["not_ect"] - before["not_ect"] == 19
    assert queue.live["queue"][3]["ecn_marked"] == before["ecn_marked"]


def test_marking_that_is_off_marks_nothing(fabric: Star, queue: Queue) -> None:
    fabric.configure(SWITCH, "ecn.3.enabled=false")
    assert queue.round() == [2] * FILL


def test_every_position_is_marked_as_often_as_the_curve_says(fabric: Star, queue: Queue) -> None:
    """pmax (depth - kmin) / (kmax - kmin), each position within the binomial bound, all together at 99.9%."""
    kmin, kmax, pmax = 10 * SIZE, 30 * SIZE, 0.5
    fabric.configure(SWITCH, f"ecn.3.kmin={kmin}", f"ecn.3.kmax={kmax}", f"ecn.3.pmax={pmax}")
    marked = [0] * FILL
    for _ in range(REPEATS):
        for position, ecn in enumerate(queue.round()):
            marked[position] += ecn == CE
    for position, count in enumerate(marked):
        depth = position * SIZE
        theory = 0 if depth <= kmin else 1 if depth > kmax else pmax * (depth - kmin) / (kmax - kmin)
        low, high = bounds(REPEATS, theory, FILL)
        assert low <= count <= high, f"position {position}: {count} of {REPEATS}, expected {theory:.3f}"


def test_the_bound_can_fail() -> None:
    low, high = bounds(REPEATS, 0.25, FILL)
    assert low > REPEATS * 0.1
    assert high < REPEATS * 0.45
    assert bounds(REPEATS, 0.0, FILL) == (0, 0)
