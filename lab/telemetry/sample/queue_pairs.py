"""Queue pairs of all RDMA devices, asked for once a second, and told as they come, change their state and go.

A change is told when it is seen, up to a second late; one that came and went between two looks is not seen at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from lab.errors import OperationFailed
from lab.kernel.netlink.rdma_tracking import Tracking, program_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lab.kernel.netlink.rdma_tracking import QueuePair

_NS: Final = 10**9
INTERVAL: Final = _NS
"""Between two looks at a device."""
GONE: Final = "gone"
"""The state of one that is there no more."""


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
        """Ask those whose turn it is, and tell what has changed."""
        for device in list(self._devices):
            if now < device.next_look:
                continue
            device.next_look = now + INTERVAL
            try:
                found = self._tracking.queue_pairs(device.index)
            except OperationFailed:
                self._devices.remove(device)
                found = []
            for event in changes(device.known, found):
                yield {"source": "rdma", "kind": "qp", "node": device.node, "interface": device.interface, **event}

    def close(self) -> None:
        """Ask no more."""
        self._tracking.close()


def changes(known: dict[int, QueuePair], found: Iterable[QueuePair]) -> Iterator[dict[str, Any]]:
    """What is told of queue pairs that are not as ``known``, which is brought up to date."""
    now = {each.qpn: each for each in found}
    for qpn in [*now, *(known.keys() - now.keys())]:
        before, after = known.get(qpn), now.get(qpn)
        if after is None:
            yield {"qpn": qpn, "state": GONE, "before": known[qpn].state}
        elif before is None or (before.state, before.remote) != (after.state, after.remote):
            yield {
                "qpn": qpn, "state": after.state, "before": before.state if before is not None else "",
                "type": after.kind, "remote": after.remote, "pid": after.pid, "program": program_of(after.pid),
            }  # fmt: skip
    known.clear()
    known.update(now)
