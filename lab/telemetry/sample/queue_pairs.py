"""Queue pairs of all RDMA devices: a row for each that appears, changes its state or disappears.

The kernel is polled once a second, and a row has the time of the poll. A queue pair that appears and disappears
between two polls is missed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from lab.errors import OperationFailed
from lab.kernel.netlink.rdma_tracking import Tracking, program_of
from lab.telemetry.store.row_tables import RowSchema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lab.kernel.netlink.rdma_tracking import QueuePair

_NS: Final = 10**9
INTERVAL: Final = _NS
"""The interval between two polls of a device, in ns."""
GONE: Final = "gone"
"""The state of a queue pair that no longer exists."""
_NO_REMOTE: Final = -1
SCHEMA: Final = RowSchema(
    "queue_pairs",
    3,
    (
        ("node", "S64"), ("interface", "S16"), ("qpn", "u4"),
        ("state", "S8"), ("before", "S8"), ("type", "S4"), ("remote", "i8"), ("pid", "u4"), ("program", "S16"),
    ),
)  # fmt: skip
"""``before`` is "" for a new queue pair. ``remote`` is the remote QPN, -1 if there is none."""


@dataclass
class _Device:
    """One device, and its queue pairs at the last poll, by QPN."""

    node: str
    interface: str
    index: int
    next_look: int
    known: dict[int, QueuePair] = field(default_factory=dict)


class QueuePairs:
    """Polls the kernel, a device at a time; a device that is gone is not polled again."""

    def __init__(self, devices: Sequence[tuple[str, str, str]], now: int) -> None:
        """``devices`` are node, interface and device name; OperationFailed without RDMA."""
        self._tracking = Tracking()
        indices = self._tracking.devices()
        self._devices = [
            _Device(
                node=node, interface=interface, index=indices[name], next_look=now + INTERVAL * number // len(devices)
            )
            for number, (node, interface, name) in enumerate(devices)
            if name in indices
        ]

    @property
    def descriptors(self) -> list[int]:
        """The descriptors that must stay open."""
        return [self._tracking.socket.fileno()]

    def look(self, now: int) -> Iterator[dict[str, Any]]:
        """Poll the devices that are due; yield a row of ``SCHEMA`` for each change."""
        for device in list(self._devices):
            if now < device.next_look:
                continue
            device.next_look = now + INTERVAL
            try:
                found = self._tracking.queue_pairs(device.index)
            except OperationFailed:
                self._devices.remove(device)
                found = []
            for change in changes(device.known, found):
                yield {"node": device.node, "interface": device.interface, **change}

    def close(self) -> None:
        """Close the socket."""
        self._tracking.close()


def changes(known: dict[int, QueuePair], found: Iterable[QueuePair]) -> Iterator[dict[str, Any]]:
    """Yield a row, without the device's keys, for each difference to ``known``, which is updated."""
    now = {each.qpn: each for each in found}
    for qpn in [*now, *(known.keys() - now.keys())]:
        before, after = known.get(qpn), now.get(qpn)
        if after is None:
            yield _row(known[qpn], GONE, known[qpn].state, "")
        elif before is None or (before.state, before.remote) != (after.state, after.remote):
            yield _row(after, after.state, before.state if before is not None else "", program_of(after.pid))
    known.clear()
    known.update(now)


def _row(pair: QueuePair, state: str, before: str, program: str) -> dict[str, Any]:
    remote = _NO_REMOTE if pair.remote is None else pair.remote
    return {
        "qpn": pair.qpn, "state": state, "before": before, "type": pair.kind, "remote": remote, "pid": pair.pid,
        "program": program,
    }  # fmt: skip


def event_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a row of ``SCHEMA`` to an event of source ``rdma``, the form in recordings before row tables."""
    remote = None if row["remote"] == _NO_REMOTE else row["remote"]
    return {"source": "rdma", "kind": "qp", **row, "remote": remote}
