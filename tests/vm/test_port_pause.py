"""What a pause does, against the clock: silence of the class for the quanta asked for, and of no other."""

from __future__ import annotations

import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest

from lab.dataplane.layout import Drop, EventKind

from .one_switch import OVERHEAD, SWITCH, Star, blasting, build, named, pfc, star, waited

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.vm, pytest.mark.timeout(300)]

RATE: Final = 20_000_000
SIZE: Final = 4000
TICK: Final = 0.004
"""Seconds of a scheduler tick (CONFIG_HZ=250)."""
TIMES: Final = 9
_SO_TIMESTAMPNS: Final = 35
_ETH_P_ALL: Final = 3
_TIMESPEC: Final = struct.Struct("=qq")
BULK: Final = 0
ROCE: Final = 26


@pytest.fixture(scope="module")
def fabric() -> Iterator[Star]:
    with build(star(3, f"{RATE}bit", 4500)) as built:
        built.configure(SWITCH, "buffer.pool=16MB", "buffer.queues.0=2MB")
        yield built


@dataclass
class Tap:
    """What leaves the switch towards h3: when, in seconds of CLOCK_MONOTONIC, and with which DSCP."""

    frames: list[tuple[float, int]] = field(default_factory=list)

    def follow(self, raw: socket.socket, ended: threading.Event) -> None:
        """Take frames until ``ended``."""
        raw.settimeout(0.1)
        while not ended.is_set():
            try:
                data, ancillary, _, address = raw.recvmsg(64, 64)
            except TimeoutError:
                continue
            offset = time.time_ns() - time.monotonic_ns()
            if address[2] == socket.PACKET_OUTGOING and data[12:14] == b"\x08\x00":
                seconds, nanoseconds = _TIMESPEC.unpack(ancillary[0][2])
                self.frames.append(((seconds * 10**9 + nanoseconds - offset) / 1e9, data[15] >> 2))

    def of(self, dscp: int, after: float) -> list[float]:
        """When frames of one DSCP left, from ``after`` on."""
        return [when for when, code in list(self.frames) if code == dscp and when > after]

    def first(self, dscp: int, after: float) -> float:
        """When the first frame of a DSCP left, from ``after`` on; waits for it."""
        return float(waited(lambda: self.of(dscp, after), "the class to go on")[0])


@pytest.fixture
def tap(fabric: Star) -> Iterator[Tap]:
    """Both hosts send to h3 all the time, one in the lossless class and one best effort; what the switch lets go."""
    raw = fabric.open_socket(SWITCH, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    raw.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    with fabric.namespaces[SWITCH].entered():
        raw.bind(("swp3", _ETH_P_ALL))
    tap, ended = Tap(), threading.Event()
    thread = threading.Thread(target=tap.follow, args=(raw, ended))
    queue = fabric.live(SWITCH, "swp3")["queue"]
    with raw, blasting(fabric, "h1", "h3", ROCE << 2 | 2, SIZE), blasting(fabric, "h2", "h3", BULK, SIZE):
        thread.start()
        waited(lambda: queue[3]["depth_packets"] > 5 and queue[0]["depth_packets"] > 5, "both queues to fill")
        yield tap
        ended.set()
        thread.join()


def stopped(fabric: Star, kind: EventKind, frame: bytes) -> float:
    """Send a PFC frame from h3; when the switch's port took it to heart, in seconds of CLOCK_MONOTONIC."""
    since, port = fabric.event_count, fabric.id(SWITCH, "swp3")
    with fabric.wire("h3") as stopper:
        stopper.send(frame)
    return float(waited(lambda: named(fabric.events(since), kind, port), "the frame's effect")[0]["ns"]) / 1e9


def usual(times: list[float]) -> float:
    """The third shortest of nine. A machine with other work makes some of them longer, and none shorter."""
    return sorted(times)[2]


def resumption(tap: Tap, began: float, asked: float) -> float:
    """When the class spoke again after a pause; a frame that was already on its way when that came does not count."""
    first = tap.first(ROCE, began)
    if first - began < asked - TICK:
        assert len(tap.of(ROCE, began)) == 1 or tap.of(ROCE, first)[0] - began >= asked - TICK, "it was not silent"
        first = tap.first(ROCE, first)
    return first


def test_a_pause_silences_its_class_for_its_quanta_and_no_other(fabric: Star, tap: Tap) -> None:
    """Q x 512 bit times within 2% or a tick, and the whole link for the other class meanwhile."""
    quanta = 10_000
    asked = quanta * 512 / RATE
    over, shares = [], []
    for _ in range(TIMES):
        began = stopped(fabric, EventKind.PAUSED, pfc({3: quanta}))
        over.append(resumption(tap, began, asked) - began - asked)
        meanwhile = [when for when in tap.of(BULK, began) if when <= began + asked]
        shares.append(len(meanwhile) * (SIZE + OVERHEAD) * 8 / asked / RATE)
    assert 0 <= usual(over) < max(0.02 * asked, TICK)
    assert sorted(shares)[-3] == pytest.approx(1, abs=0.05)  # in others the sender had no CPU to keep up


def test_the_class_that_is_paused_is_the_one_that_the_frame_names(fabric: Star, tap: Tap) -> None:
    """Priority 0 is not lossless here: its pause is counted, and not obeyed; priority 5 has no traffic."""
    before = fabric.counters(SWITCH, "swp3")
    with fabric.wire("h3") as stopper:
        stopper.send(pfc({0: 0xFFFF, 5: 0xFFFF}))
    live = fabric.live(SWITCH, "swp3")["priority"]
    waited(lambda: live[0]["rx_pause_ignored"] > before["priority"][0]["rx_pause_ignored"], "the frame")
    heard = time.monotonic()
    pause = 0xFFFF * 512 / RATE
    for dscp in (ROCE, BULK):
        assert tap.first(dscp, heard) - heard < pause / 2
    assert live[3]["rx_pause"] == before["priority"][3]["rx_pause"]


def test_an_xon_resumes_at_once(fabric: Star, tap: Tap) -> None:
    taken = []
    for _ in range(TIMES):
        began = stopped(fabric, EventKind.PAUSED, pfc({3: 0xFFFF}))
        tap.first(BULK, began + 0.02)
        silent = len(tap.of(ROCE, began))
        assert silent <= 1, "it was not silent"
        resumed = stopped(fabric, EventKind.RESUMED, pfc({3: 0}))
        taken.append(tap.first(ROCE, resumed) - resumed)
    assert 0 < usual(taken) < TICK


def test_a_shorter_pause_takes_the_place_of_a_longer_one(fabric: Star, tap: Tap) -> None:
    """Each frame sets the timer anew (IEEE 802.3 annex 31D): 20 ms after a pause of seconds are 20 ms."""
    quanta = round(0.02 * RATE / 512)
    count = fabric.live(SWITCH, "swp3")["priority"][3]
    over = []
    for _ in range(TIMES):
        began = stopped(fabric, EventKind.PAUSED, pfc({3: 0xFFFF}))
        tap.first(BULK, began)
        _send(fabric, pfc({3: quanta}))
        until = int(count["paused_until"]) / 1e9
        over.append(tap.first(ROCE, until - 0.02 + TICK) - until)
    assert 0 <= usual(over) < TICK


def _send(fabric: Star, frame: bytes) -> None:
    """Send a PFC frame from h3, and wait until the switch has taken it."""
    count = fabric.live(SWITCH, "swp3")
    seen = int(count["rx_pfc"])
    with fabric.wire("h3") as stopper:
        stopper.send(frame)
    waited(lambda: count["rx_pfc"] > seen, "the frame")


def test_paused_time_is_counted(fabric: Star, tap: Tap) -> None:
    quanta = 4000
    stopped(fabric, EventKind.PAUSED, pfc({3: 1}))
    before = fabric.counters(SWITCH, "swp3")["priority"][3]
    for _ in range(3):
        began = stopped(fabric, EventKind.PAUSED, pfc({3: quanta}))
        tap.first(ROCE, began + quanta * 512 / RATE)
    stopped(fabric, EventKind.PAUSED, pfc({3: 1}))  # settles what came before it
    after = fabric.counters(SWITCH, "swp3")["priority"][3]
    assert after["rx_pause"] - before["rx_pause"] == 4
    asked = 3 * quanta * 512 / RATE
    assert (int(after["paused_ns"]) - int(before["paused_ns"])) / 1e9 == pytest.approx(asked, rel=1e-3)


DETECTION: Final = 0.1
RESTORATION: Final = 0.2


def storm(fabric: Star, quanta: int) -> tuple[float, float]:
    """h3 pauses without end for half a second; when the first pause began and when the last one ended."""
    count = fabric.live(SWITCH, "swp3")["priority"][3]
    began = stopped(fabric, EventKind.PAUSED, pfc({3: quanta}))
    while time.monotonic() < began + 0.5:
        _send(fabric, pfc({3: quanta}))
    return began, int(count["paused_until"]) / 1e9


def occurred(fabric: Star, since: int, kind: EventKind) -> float:
    """When the first event of a kind was at the switch's port to h3; waits for it."""
    port = fabric.id(SWITCH, "swp3")
    return int(waited(lambda: named(fabric.events(since), kind, port), f"{kind.name}")[0]["ns"]) / 1e9


@pytest.mark.parametrize("action", ["drop", "forward"])
def test_the_watchdog_takes_a_stormed_queue_over_and_gives_it_back(fabric: Star, tap: Tap, action: str) -> None:
    """A storm is a pause of the whole detection time; it ends when there was none for the restoration time."""
    watch = [f"pfc.watchdog.{name}" for name in ("detection=100ms", "restoration=200ms", f"action={action}")]
    fabric.configure(SWITCH, *watch, "buffer.pool=16MB", "buffer.queues.0=2MB")
    since, before = fabric.event_count, fabric.counters(SWITCH, "swp3")["queue"][3]
    began, ended = storm(fabric, 4000)
    stormed, restored = occurred(fabric, since, EventKind.STORM), occurred(fabric, since, EventKind.RESTORED)
    after = fabric.counters(SWITCH, "swp3")["queue"][3]
    fabric.configure(SWITCH, "buffer.pool=16MB", "buffer.queues.0=2MB")
    assert DETECTION <= stormed - began < DETECTION + 0.1
    assert RESTORATION <= restored - ended < RESTORATION + 0.1
    assert (after["storms"] - before["storms"], after["restored"] - before["restored"]) == (1, 1)
    dropped = after["drop_packets"][Drop.WATCHDOG] - before["drop_packets"][Drop.WATCHDOG]
    through = [when for when in tap.of(ROCE, stormed) if when < ended]
    assert bool(dropped) is (action == "drop")
    assert bool(through) is (action == "forward")
    tap.first(ROCE, restored)


@pytest.mark.parametrize(
    "frame",
    [
        pfc({3: 0xFFFF})[:33],
        b"\x01\x80\xc2\x00\x00\x02" + pfc({3: 0xFFFF})[6:],
        pfc({3: 0xFFFF})[:14] + b"\x01\x02" + pfc({3: 0xFFFF})[16:],
    ],
    ids=["cut short", "wrong destination", "unknown opcode"],
)
@pytest.mark.usefixtures("tap")
def test_invalid_frames_are_counted_and_pause_nothing(fabric: Star, frame: bytes) -> None:
    before = fabric.counters(SWITCH, "swp3")
    with fabric.wire("h3") as stopper:
        stopper.send(frame)
    live = fabric.live(SWITCH, "swp3")
    waited(lambda: live["rx_pfc_invalid"] == before["rx_pfc_invalid"] + 1, "the count")
    assert live["rx_pfc"] == before["rx_pfc"]
    assert live["priority"][3]["rx_pause"] == before["priority"][3]["rx_pause"]
