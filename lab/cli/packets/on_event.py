"""``rocelab capture --on-event``: events in packets and at the lossless ports of a fabric."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.cli.kit.option_value import read_value
from lab.errors import UsageError
from lab.model.values.suggest import suggest
from lab.units import parse_size, parse_time
from lab.wire.trigger import TriggerEvent, TriggerKind

if TYPE_CHECKING:
    from collections.abc import Collection

    from lab.backends.backend import Fabric
    from lab.dataplane.events import PortEvent, Tail
    from lab.kernel.packets.live_capture import Progress
    from lab.wire.trigger import KeepOnEvent

_LARGEST: Final = 2**30
_LONGEST: Final = 3600.0
WORDS: Final = ", ".join(TriggerKind)


def parse_kinds(text: str) -> frozenset[TriggerKind]:
    """Parse event names like ``nak,drop``; UsageError for an unknown one."""
    words = [word.strip().lower() for word in text.replace("|", ",").split(",")]
    for word in words:
        if word not in set(TriggerKind):
            raise UsageError(
                f"--on-event: there is no event {word!r}", suggest(word, list(TriggerKind), f"choose from {WORDS}")
            )
    return frozenset(map(TriggerKind, words))


def parse_before(text: str) -> int:
    """Return the bytes of packets to keep from before the event."""
    size = read_value("--before", text, parse_size)
    if not 0 < size <= _LARGEST:
        raise UsageError(f"--before {text} is out of range", "it is memory: choose up to 1GiB, like 16MB")
    return size


def parse_after(text: str) -> int:
    """Return the nanoseconds to capture after the event."""
    seconds = read_value("--after", text, parse_time)
    if not 0 <= seconds <= _LONGEST:
        raise UsageError(f"--after {text} is out of range", "choose up to 1h, like 2s")
    return int(seconds * 1e9)


def port_kind(event: PortEvent) -> TriggerKind | None:
    """Return the capture event for an event at a lossless port; None for other events."""
    from lab.dataplane.port_layout import EventKind  # noqa: PLC0415 - only fabrics with lossless ports have events

    kinds = {
        EventKind.STORM: TriggerKind.STORM,
        EventKind.GROUP_DROPS: TriggerKind.DROP,
        EventKind.QUEUE_DROPS: TriggerKind.DROP,
        EventKind.XOFF_SENT: TriggerKind.XOFF,
    }
    return kinds.get(event.kind)


def check_folder(output: str) -> None:
    """Raise UsageError early if the output file could not be written later."""
    folder = Path(output).parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"cannot write {output}: no such folder, or none to write to", "name another file")


def watched_ports(
    fabric: Fabric, wanted: Collection[TriggerKind], sink: KeepOnEvent, then: Progress | None
) -> Progress:
    """Return a callback for the capture that reports port events and the current time to the sink."""
    tail = _tail(fabric)

    def look(counts: object) -> None:
        for event in () if tail is None else tail.new():
            kind = port_kind(event)
            if kind is not None and kind in wanted:
                sink.happened(told(event, kind))
                break
        sink.tick(time.time_ns())
        if then is not None:
            then(counts)  # type: ignore[arg-type]  # as it came

    return look


def told(event: PortEvent, kind: TriggerKind) -> TriggerEvent:
    """Return a port's event as a capture event, with the wall-clock time that packets have."""
    from lab.dataplane.events import MEANINGS, SUBJECTS, clock, describe_value  # noqa: PLC0415

    what = f"{SUBJECTS[event.kind]} {event.number} {MEANINGS[event.kind]} {describe_value(event)}".rstrip()
    return TriggerEvent(
        kind=kind,
        timestamp=int(clock(event.boot_seconds).timestamp() * 1e9),
        link=f"{event.node}:{event.interface}",
        what=what,
    )


def _tail(fabric: Fabric) -> Tail | None:
    """Return the events from now on; None without lossless ports."""
    if fabric.topology.qos is None:
        return None
    from lab.dataplane.events import Tail  # noqa: PLC0415
    from lab.dataplane.port_maps import open_maps  # noqa: PLC0415

    tail = Tail(open_maps(fabric.name), fabric.numbering.names)
    tail.new()
    return tail
