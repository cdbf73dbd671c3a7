"""Queue pairs of all RDMA devices: a row for each that appears, changes its state or goes.

The kernel is asked once a second. A row has the time at which the change was seen; a queue pair that came and went
between two looks is not seen at all.
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
"""Between two looks at a device."""
GONE: Final = "gone"
"""The state of one that is there no more."""
_NO_REMOTE: Final = -1
SCHEMA: Final = RowSchema(
    "queue_pairs",
    3,
    (
        ("node", "S64"), ("interface", "S16"), ("qpn", "u4"),
        ("state", "S8"), ("before", "S8"), ("type", "S4"), ("remote", "i8"), ("pid", "u4"), ("program", "S16"),
    ),
)  # fmt: skip
"""``before`` is "" of one that appears. ``remote`` is the QPN at the far end, -1 where there is none."""


@dataclass
class _Device:
    """One device, and what it had last, by QPN."""

    node: str
    interface: str
    index: int
    next_look: int
    known: dict[int, QueuePair] = field(default_factory=dict)


class QueuePairs:
    """Asks the kernel, a device at a time; one that is gone is asked no more."""

    def __init__(self, devices: Sequence[tuple[str, str, str]], now: int) -> None:
        """``devices`` as node, interface and their own names; OperationFailed where there is no RDMA."""
        self._tracking = Tracking()
        indices = self._tracking.devices()
        self._devices = [
            _Device(node, interface, indices[name], now + INTERVAL * number // len(devices))
            for number, (node, interface, name) in enumerate(devices)
            if name in indices
        ]

    @property
    def descriptors(self) -> list[int]:
        """What must stay open."""
        return [self._tracking.socket.fileno()]

    def look(self, now: int) -> Iterator[dict[str, Any]]:
        """Ask the devices whose turn it is; yields a row of ``SCHEMA`` for each change."""
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
        """Ask no more."""
        self._tracking.close()


def changes(known: dict[int, QueuePair], found: Iterable[QueuePair]) -> Iterator[dict[str, Any]]:
    """A row for each queue pair that is not as ``known``, which is brought up to date. A row lacks the device."""
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
    """A row of ``SCHEMA`` as an event of the source ``rdma``, as recordings had it before there were row tables."""
    remote = None if row["remote"] == _NO_REMOTE else row["remote"]
    return {"source": "rdma", "kind": "qp", **row, "remote": remote}
