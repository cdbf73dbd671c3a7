"""Events in crafted packets, and what is kept of a capture when one happens."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from lab.analysis.read.records import Reader
from lab.cli.packets.on_event import parse_after, parse_before, parse_kinds, port_kind, told
from lab.dataplane.events import PortEvent
from lab.dataplane.port_layout import Drop, EventKind
from lab.errors import UsageError
from lab.wire.pcapng import Direction, Interface, Record, Statistics, Writer
from lab.wire.trigger import KeepOnEvent, TriggerEvent, TriggerKind, Watcher
from tests.unit.analysis import packets

if TYPE_CHECKING:
    from collections.abc import Iterable

START, MS = 10**18, 1_000_000
LINK = Interface("leaf1:swp1", speed=10**9)


def record(frame: bytes, ms: float = 0, interface: int = 0) -> Record:
    return Record(START + int(ms * MS), interface, len(frame), Direction.INBOUND, memoryview(frame))


def kinds_of(*frames: bytes, wanted: Iterable[TriggerKind] = TriggerKind) -> list[str]:
    """Of each frame, 1 ms after the one before it, the event that it is."""
    watcher = Watcher(frozenset(wanted))
    found = [watcher.look(record(frame, at), LINK) for at, frame in enumerate(frames)]
    return ["" if event is None else event.kind.value for event in found]


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (packets.send(1), ""),
        (packets.ack(1), ""),
        (packets.ack(1, 0x60), "nak"),
        (packets.ack(1, 0x62), "nak"),
        (packets.ack(1, 0x2E), "rnr"),
        (packets.congestion(), "cnp"),
        (packets.send(1, path=packets.MARKED), "ce"),
        (packets.pause({3: 9}), "xoff"),
        (packets.pause({3: 0}), ""),
        (packets.responses(1, 2)[0], ""),
        (packets.vxlan(packets.ack(1, 0x60)), "nak"),
        (packets.tagged(packets.ack(1, 0x60)), "nak"),
        (packets.ack(1, 0x60)[:50], ""),
        (b"", ""),
    ],
)
def test_a_packet_is_an_event(frame: bytes, kind: str) -> None:
    assert kinds_of(frame) == [kind]
    assert kinds_of(frame, wanted=[TriggerKind.STORM]) == [""]


def test_psns_that_are_missing_are_a_drop() -> None:
    """By flow; what comes again, what follows a READ, and answers are none; PSNs wrap."""
    assert kinds_of(*map(packets.send, (0xFFFFFE, 0xFFFFFF, 0, 2))) == ["", "", "", "drop"]
    assert kinds_of(*map(packets.send, (5, 6, 5, 6, 7, 9))) == ["", "", "", "", "", "drop"]
    assert kinds_of(packets.send(1), packets.read(2, 9000), packets.send(11), packets.send(13)) == [
        "",
        "",
        "",
        "drop",
    ]
    assert kinds_of(packets.send(1), packets.send(9, qp=0x99), packets.ack(50), packets.send(2)) == [""] * 4
    watcher = Watcher([TriggerKind.DROP])
    assert [watcher.look(record(packets.send(psn), interface=psn % 2), LINK) for psn in (1, 2, 3, 4)].count(None) == 2


PFC = packets.pause({3: 0xFFFF})
PAUSE = PFC[:14] + bytes.fromhex("0001ffff") + bytes(42)


@pytest.mark.parametrize("receiver", ["020000000001", "ffffffffffff", "0180c200000e"])
@pytest.mark.parametrize("frame", [PFC, PAUSE], ids=["PFC", "Pause"])
def test_a_pause_that_receivers_ignore_is_no_event(frame: bytes, receiver: str) -> None:
    """PFC has one destination; Pause may also have the station's own (IEEE 802.3 annexes 31B and 31D)."""
    stray = bytes.fromhex(receiver) + frame[6:]
    obeyed = frame == PAUSE and receiver.startswith("02")
    watcher = Watcher([TriggerKind.STORM])
    found = [watcher.look(record(stray, at * 30), LINK) for at in range(9)]
    assert any(found) is obeyed
    assert kinds_of(frame, stray) == ["xoff", "xoff" if obeyed else ""]


def test_a_pause_without_an_end_is_a_storm() -> None:
    """65,535 quanta are 33.6 ms at 1 Gb/s; refreshed every 30 ms they stop the link for 200 ms after the 7th time."""
    watcher = Watcher([TriggerKind.STORM])
    taken = [watcher.look(record(packets.pause({3: 0xFFFF}), at * 30), LINK) for at in range(9)]
    assert [at for at, event in enumerate(taken) if event is not None] == [7, 8]
    assert taken[7] is not None
    assert "XOFF priority 3 for 210 ms without an end" in taken[7].what


@pytest.mark.parametrize(("every", "quanta"), [(40, {3: 0xFFFF}), (30, {3: 0xFFFF, 4: 0})])
def test_pauses_that_end_are_none(every: int, quanta: dict[int, int]) -> None:
    """They run out before the next one; or an XON comes in between, which one of another class is not."""
    watcher = Watcher([TriggerKind.STORM])
    found = []
    for at in range(20):
        found.append(watcher.look(record(packets.pause(quanta), at * every), LINK))
        if every == 30 and at % 4 == 3:
            found.append(watcher.look(record(packets.pause({3: 0}), at * every + 1), LINK))
    assert not any(found)


class Run:
    """A capture of sends 100 us apart, of 142 bytes each, around an event."""

    def __init__(self, before: int = 1000, after: int = 2 * MS) -> None:
        self.output = io.BytesIO()
        self.opened = self.done = 0
        self.sink = KeepOnEvent(Watcher([TriggerKind.NAK]), before, after, self._open, self._end)
        self.sink.add_interface(LINK)

    def _open(self) -> Writer:
        self.opened += 1
        return Writer(self.output)

    def _end(self) -> None:
        self.done += 1

    def psns(self) -> list[int]:
        self.output.seek(0)
        return [int.from_bytes(bytes(each.data)[51:54]) for each in Reader(self.output, "kept")]


SEND = len(packets.send(1))


def test_the_last_bytes_before_and_the_time_after_are_kept() -> None:
    run = Run(before=5 * SEND + 62)
    for psn in range(100):
        run.sink.write([record(packets.send(psn), psn * 0.1)])
        assert not run.opened
    run.sink.write([record(packets.ack(7777, 0x60), 10)])
    assert (run.opened, run.done) == (1, 0)
    run.sink.write(record(packets.send(psn), psn * 0.1) for psn in range(101, 150))
    run.sink.write_statistics(0, Statistics(150, 0))
    assert run.psns() == [*range(95, 100), 7777, *range(101, 121)]
    assert run.done
    assert run.sink.event is not None
    assert run.sink.event.what == "10.0.0.2 to 10.0.0.1 QP 0x11: NAK, PSN Sequence Error PSN 7777"


def test_what_is_remembered_is_a_copy_and_bounded() -> None:
    run = Run(before=3 * SEND)
    buffer = bytearray(packets.send(1))
    for psn in range(1000):
        buffer[51:54] = psn.to_bytes(3)
        run.sink.write([record(b"")._replace(data=memoryview(buffer), length=SEND)])
    buffer[51:54] = b"\xff\xff\xff"
    run.sink.happened(TriggerEvent(TriggerKind.DROP, START, "leaf1:swp1", "told from outside"))
    assert run.psns() == [997, 998, 999]


def test_silence_after_the_event_ends_it_too() -> None:
    run = Run()
    run.sink.tick(START + 10**12)
    assert not run.done
    run.sink.write([record(packets.ack(1, 0x60))])
    run.sink.tick(START + MS)
    assert not run.done
    run.sink.tick(START + 3 * MS)
    assert run.done


def test_nothing_happens_and_nothing_is_written() -> None:
    run = Run()
    run.sink.write([record(packets.send(1))])
    run.sink.write_statistics(0, Statistics(1, 0))
    assert (run.opened, run.sink.event) == (0, None)


def test_events_of_ports() -> None:
    dropped = PortEvent(5.0, 0.0, "leaf1", "swp3", EventKind.QUEUE_DROPS, 3, int(Drop.SHARED))
    assert port_kind(dropped) is TriggerKind.DROP
    storm = PortEvent(5.0, 0.0, "leaf1", "swp3", EventKind.STORM, 3, 9000)
    assert port_kind(storm) is TriggerKind.STORM
    event = told(storm, TriggerKind.STORM)
    assert (event.link, event.what) == ("leaf1:swp3", "queue 3 storm 9 KB")
    assert port_kind(PortEvent(5.0, 0.0, "leaf1", "swp3", EventKind.RESUMED, 3, 0)) is None


@pytest.mark.parametrize("text", ["", "nack", "drop,,nak"])
def test_wrong_kinds(text: str) -> None:
    with pytest.raises(UsageError, match="--on-event: there is no event"):
        parse_kinds(text)


def test_sizes_and_times() -> None:
    assert parse_kinds("nak|Drop, storm") == {TriggerKind.NAK, TriggerKind.DROP, TriggerKind.STORM}
    assert (parse_before("2MB"), parse_after("250ms")) == (2_000_000, 250 * MS)
    for wrong in ("0", "2GB", "x"):
        with pytest.raises(UsageError, match="--before"):
            parse_before(wrong)
    for wrong in ("2h", "x", "-1s"):
        with pytest.raises(UsageError, match="--after"):
            parse_after(wrong)
