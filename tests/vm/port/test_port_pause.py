"""What a pause does, against the clock: silence of the class for the quanta asked for, and of no other."""

from __future__ import annotations

import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.dataplane.port_layout import Drop, EventKind
from tests.inside import entered
from tests.vm.one_switch import OVERHEAD, SWITCH, Star, blasting, build, named, pfc, star, waited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.vm, pytest.mark.timeout(300)]

RATE: Final = 20_000_000
SIZE: Final = 4000
TICK: Final = 0.004
"""Seconds of a scheduler tick (CONFIG_HZ=250)."""
BACKLOG: Final = 50
"""Packets, 80 ms of the link's time: what a sender that has just been started may need until it goes on."""
TIMES: Final = 3
_SO_RCVBUFFORCE: Final = 33
_SO_TIMESTAMPNS: Final = 35
_SOL_PACKET: Final = 263
_PACKET_STATISTICS: Final = 6
_STATISTICS: Final = struct.Struct("=II")
_ROOM: Final = 1 << 26
"""Bytes of a socket's buffer for ten seconds of the link's frames, for when nobody has time to read them."""
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
        offset = realtime_offset()
        while not ended.is_set():
            try:
                data, ancillary, _, address = raw.recvmsg(64, 64)
            except TimeoutError:
                continue
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
    raw.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _ROOM)
    raw.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    with entered(fabric.namespaces[SWITCH]):
        raw.bind(("swp3", _ETH_P_ALL))
    tap, ended = Tap(), threading.Event()
    thread = threading.Thread(target=tap.follow, args=(raw, ended))
    queue = fabric.live(SWITCH, "swp3")["queue"]
    with raw, blasting(fabric, "h1", "h3", ROCE << 2 | 2, SIZE), blasting(fabric, "h2", "h3", BULK, SIZE):
        thread.start()
        try:
            waited(lambda: min(queue["depth_packets"][[BULK, 3]]) > BACKLOG, "both queues to fill")
            yield tap
        finally:
            ended.set()
            thread.join()
        _, lost = _STATISTICS.unpack(raw.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size))
        assert lost == 0, "the tap was too slow"


def stopped(fabric: Star, kind: EventKind, frame: bytes) -> float:
    """Send a PFC frame from h3; when the switch's port took it to heart, in seconds of CLOCK_MONOTONIC."""
    since, port = fabric.event_count, fabric.id(SWITCH, "swp3")
    with fabric.wire("h3") as stopper:
        stopper.send(frame)
    return float(waited(lambda: named(fabric.events(since), kind, port), "the frame's effect")[0]["ns"]) / 1e9


def realtime_offset() -> int:
    """Nanoseconds from CLOCK_MONOTONIC to CLOCK_REALTIME: of many looks the one that was interrupted least."""
    looks = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(100)]
    before, now, after = min(looks, key=lambda look: look[2] - look[0])
    return now - (before + after) // 2


def always(measure: Callable[[], float], limit: float) -> None:
    """What ``measure`` finds is below ``limit`` each of three times, and never below nothing."""
    found = [measure() for _ in range(TIMES)]
    assert all(0 <= value < limit for value in found), f"{found}, not below {limit:g}"


def paused(fabric: Star, quanta: int) -> tuple[float, float]:
    """Pause the lossless class at the switch's port to h3: from when until when, in seconds of CLOCK_MONOTONIC."""
    stopped(fabric, EventKind.PAUSED, pfc({3: quanta}))
    count = fabric.live(SWITCH, "swp3")["priority"][3]
    return int(count["paused_from"]) / 1e9, int(count["paused_until"]) / 1e9


def resumption(tap: Tap, began: float, until: float) -> float:
    """When the class spoke again after a pause; a frame that was already on its way when that came does not count."""
    first = tap.first(ROCE, began)
    if first < until:
        assert len(tap.of(ROCE, began)) == 1 or tap.of(ROCE, first)[0] >= until, "it was not silent"
        first = tap.first(ROCE, first)
    return first


QUANTA: Final = 10_000
ASKED: Final = QUANTA * 512 / RATE


def test_a_pause_silences_its_class_for_its_quanta(fabric: Star, tap: Tap) -> None:
    """Q x 512 bit times within 2% or a tick."""

    def excess() -> float:
        began, until = paused(fabric, QUANTA)
        assert until - began == pytest.approx(ASKED, abs=1e-8)
        return resumption(tap, began, until) - until

    always(excess, max(0.02 * ASKED, TICK))


def test_the_other_class_has_the_whole_link_meanwhile(fabric: Star, tap: Tap) -> None:
    """Within a frame at either end."""

    queue = fabric.live(SWITCH, "swp3")["queue"][BULK]

    def difference() -> float:
        waited(lambda: queue["depth_bytes"] > ASKED * RATE / 8, "more than the pause takes")
        began, until = paused(fabric, QUANTA)
        tap.first(BULK, until)
        meanwhile = [when for when in tap.of(BULK, began) if when <= until]
        return abs(1 - len(meanwhile) * (SIZE + OVERHEAD) * 8 / ASKED / RATE)

    always(difference, 2 * (SIZE + OVERHEAD) * 8 / RATE / ASKED)


def test_the_class_that_is_paused_is_the_one_that_the_frame_names(fabric: Star, tap: Tap) -> None:
    """Priority 0 is not lossless here: its pause is counted, and not obeyed; priority 5 has no traffic."""
    live = fabric.live(SWITCH, "swp3")["priority"]
    before = int(live[3]["rx_pause"])

    def silence() -> float:
        ignored = int(live[0]["rx_pause_ignored"])
        with fabric.wire("h3") as stopper:
            stopper.send(pfc({0: 0xFFFF, 5: 0xFFFF}))
        waited(lambda: live[0]["rx_pause_ignored"] > ignored, "the frame")
        heard = time.monotonic()
        return max(tap.first(dscp, heard) for dscp in (ROCE, BULK)) - heard

    pause = 0xFFFF * 512 / RATE
    always(silence, pause / 100)
    assert live[3]["rx_pause"] == before


def test_an_xon_resumes_at_once(fabric: Star, tap: Tap) -> None:
    def hesitation() -> float:
        began, _ = paused(fabric, 0xFFFF)
        waited(lambda: time.monotonic() > began + 0.02, "some silence")
        assert len(tap.of(ROCE, began)) <= 1, "it was not silent"
        resumed = stopped(fabric, EventKind.RESUMED, pfc({3: 0}))
        return tap.first(ROCE, resumed) - resumed

    always(hesitation, TICK)


def test_a_shorter_pause_takes_the_place_of_a_longer_one(fabric: Star, tap: Tap) -> None:
    """Each frame sets the timer anew (IEEE 802.3 annex 31D): 20 ms after a pause of seconds are 20 ms."""
    quanta = round(0.02 * RATE / 512)
    count = fabric.live(SWITCH, "swp3")["priority"][3]

    def excess() -> float:
        paused(fabric, 0xFFFF)
        _send(fabric, pfc({3: quanta}))
        until = int(count["paused_until"]) / 1e9
        return tap.first(ROCE, until - 0.02 + TICK) - until

    always(excess, TICK)


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
        _, until = paused(fabric, quanta)
        tap.first(ROCE, until)
    stopped(fabric, EventKind.PAUSED, pfc({3: 1}))  # settles what came before it
    after = fabric.counters(SWITCH, "swp3")["priority"][3]
    assert after["rx_pause"] - before["rx_pause"] == 4
    asked = 3 * quanta * 512 / RATE
    assert (int(after["paused_ns"]) - int(before["paused_ns"])) / 1e9 == pytest.approx(asked, rel=1e-3)


DETECTION: Final = 0.1
RESTORATION: Final = 0.2


def occurred(fabric: Star, since: int, kind: EventKind) -> float:
    """When the first event of a kind was at the switch's port to h3; waits for it."""
    port = fabric.id(SWITCH, "swp3")
    return int(waited(lambda: named(fabric.events(since), kind, port), f"{kind.name}")[0]["ns"]) / 1e9


@dataclass(frozen=True)
class Storm:
    """A pause of seconds that the watchdog found and h3 then ended; times in seconds of CLOCK_MONOTONIC."""

    began: float
    found: float
    ended: float
    restored: float


def storm(fabric: Star, count: Any) -> Storm:
    """Pause h3's class until the watchdog acts, end it when packets met that, and wait for all to be as before."""
    waited(lambda: count["depth_packets"] > BACKLOG, "a backlog")
    since = fabric.event_count
    began, _ = paused(fabric, 0xFFFF)
    found = occurred(fabric, since, EventKind.STORM)
    offered = int(count["offered_packets"])
    waited(lambda: count["offered_packets"] > offered + 20, "packets that meet the watchdog")
    stopped(fabric, EventKind.RESUMED, pfc({3: 0}))
    ended = int(fabric.live(SWITCH, "swp3")["priority"][3]["paused_until"]) / 1e9
    return Storm(began, found, ended, occurred(fabric, since, EventKind.RESTORED))


@pytest.mark.parametrize("action", ["drop", "forward"])
def test_the_watchdog_takes_a_stormed_queue_over_and_gives_it_back(fabric: Star, tap: Tap, action: str) -> None:
    """A storm is a pause of the whole detection time; it ends when there was none for the restoration time."""
    watch = [f"pfc.watchdog.{name}" for name in ("detection=100ms", "restoration=200ms", f"action={action}")]
    fabric.configure(SWITCH, *watch, "buffer.pool=16MB", "buffer.queues.0=2MB")
    count = fabric.live(SWITCH, "swp3")["queue"][3]
    before = count.copy()
    storms: list[Storm] = []

    def lateness() -> float:
        storms.append(storm(fabric, count))
        last = storms[-1]
        through = [when for when in tap.of(ROCE, last.found) if when < last.ended]
        assert bool(through) is (action == "forward")
        tap.first(ROCE, last.restored)
        late = last.found - last.began - DETECTION, last.restored - last.ended - RESTORATION
        assert min(late) >= 0
        return max(late)

    always(lateness, 5 * TICK)
    fabric.configure(SWITCH, "buffer.pool=16MB", "buffer.queues.0=2MB")
    assert (count["storms"] - before["storms"], count["restored"] - before["restored"]) == (len(storms),) * 2
    dropped = count["drop_packets"][Drop.WATCHDOG] - before["drop_packets"][Drop.WATCHDOG]
    assert bool(dropped) is (action == "drop")


@pytest.mark.parametrize("frame", [pfc({3: 0}), pfc({3: 0, 4: 0, 5: 0xFFFF})], ids=["XON", "XON and another's XOFF"])
@pytest.mark.usefixtures("tap")
def test_a_storm_that_turns_into_a_storm_of_xons_is_over(fabric: Star, frame: bytes) -> None:
    """They pause nothing: the restoration time runs from the first of them on, however many follow.

    SONiC's own watchdog missed this: github.com/sonic-net/sonic-swss, issue 4581.
    """
    watch = [f"pfc.watchdog.{name}" for name in ("detection=100ms", "restoration=200ms", "action=forward")]
    fabric.configure(SWITCH, *watch, "buffer.pool=16MB", "buffer.queues.0=2MB")
    port = fabric.id(SWITCH, "swp3")
    waited(lambda: fabric.live(SWITCH, "swp3")["queue"][3]["depth_packets"] > BACKLOG, "a backlog")
    since = fabric.event_count
    paused(fabric, 0xFFFF)
    occurred(fabric, since, EventKind.STORM)
    ended = stopped(fabric, EventKind.RESUMED, frame)
    xons = 0
    with fabric.wire("h3") as stopper:
        while not named(fabric.events(since), EventKind.RESTORED, port):
            assert time.monotonic() < ended + 10 * RESTORATION, f"not restored after {xons} XONs"
            stopper.send(frame)
            xons += 1
            time.sleep(RESTORATION / 50)
    fabric.configure(SWITCH, "buffer.pool=16MB", "buffer.queues.0=2MB")
    assert xons > 10
    assert 0 <= occurred(fabric, since, EventKind.RESTORED) - ended - RESTORATION < 5 * TICK


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
