"""The balance of one hop in a window: packets that entered it, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ENDS: Final = 5
"""The maximum number of samples at each end of a window, whose median is taken."""
_USUAL: Final = 0.9
"""Quantile of the changes between samples. Larger changes are losses in a burst, and not packets in flight."""
_LEAST: Final = 3.0
"""Packets that may be in flight between two readings, unless the samples show that there are fewer."""
_MANY: Final = 20
"""The number of samples that show how much is in flight on a link: it arrives later, and what is lost does not."""
_LOWEST: Final = 2
"""The number of readings that may be lower: the sampler was interrupted between both ends."""
_STILL: Final = 10
"""The fewest samples without a packet that show how many a link has lost."""
_PAUSES: Final = 0.05
"""Share of the samples that does not show how many packets a link holds: the most are there when a machine pauses."""
_OFTEN: Final = 3
"""The fewest times at which a link loses packets, for a loss that nothing else shows."""
_APART: Final = 0.25
"""Share of the samples between the first and the last of them, at least."""
_STEADY: Final = 1.5
"""Ratio of the packets of one half of a window to those of the other, at most, at a steady rate."""
_CERTAIN: Final = 0.5
"""Packets: less than one."""


class HopKind(StrEnum):
    """The kind of a hop."""

    LINK = "link"
    """A link in one direction: from the counters of the sender to those of the receiver."""
    SWITCH = "switch"
    """A switch: from the ingress counters of all of its ports to their egress counters, drops and queues."""
    NIC_RX = "NIC, receiving"
    """From a NIC's ingress counters to its RDMA device."""
    NIC_TX = "NIC, sending"
    """From a NIC's RDMA device to its egress counters, drops and queues."""


@dataclass(frozen=True, slots=True)
class HopBalance:
    """Packets of a hop in a window."""

    kind: HopKind
    place: str
    """A link ``A--B`` (what A sends), a switch, or a NIC."""
    entered: int
    missing: float
    """Packets that entered and are not accounted for; negative if more left than entered."""
    slack: float
    """Packets that may be in flight, or between two readings. A smaller balance means nothing."""
    held: float = 0.0
    """The mean number of packets on a link in a window, beyond those that are always there: they were lost before."""
    samples: int = 0
    """The number of samples that show it; 0 for too few, and for hops other than links."""
    losses: int = 0
    """How often a link lost packets, at times that are far apart; 0 if that is not certain."""
    gains: int = 0
    """How often it delivered more packets than were sent into it, in the same way."""

    @property
    def lost(self) -> int:
        """Packets that vanished; 0 within the slack."""
        return round(self.missing) if self.missing > self.slack else 0

    @property
    def surplus(self) -> int:
        """Packets that left without having entered; 0 within the slack."""
        return round(-self.missing) if -self.missing > self.slack else 0


def balance(
    kind: HopKind, place: str, entered: NDArray[np.int64], left: NDArray[np.int64], lost_before: int | None = None
) -> HopBalance:
    """Return the balance of a hop from its counters at each sample of a window.

    The difference of the two counters is what is in flight, plus what was lost so far. What is in flight varies from
    one sample to the next, by both signs. So the difference at each end of the window is a median, and the slack is
    twice the usual change between samples. The difference of a link falls when packets arrive late: twice its largest
    fall is enough for many samples. If it never falls, a single lost packet is seen among thousands.

    ``lost_before`` is the difference when the link was last idle. A lower one is of a packet that was counted at the
    receiver only, because it arrived between both readings.
    """
    if not len(entered):
        return HopBalance(kind=kind, place=place, entered=0, missing=0.0, slack=_LEAST)
    open_packets = entered - left
    ends = max(1, min(_ENDS, len(open_packets) // 2))
    missing = float(np.median(open_packets[-ends:]) - np.median(open_packets[:ends]))
    steps = np.abs(np.diff(open_packets))
    slack = _LEAST + (2 * float(np.quantile(steps, _USUAL)) if len(steps) else 0.0)
    # A steady loss is a step at each sample, too.
    steady = abs(missing) / max(1, len(steps))
    slack = max(_LEAST, slack - 2 * steady)
    if kind is HopKind.LINK and len(open_packets) >= _MANY:
        fall = float(np.max(np.maximum.accumulate(open_packets) - open_packets))
        slack = min(slack, _CERTAIN + 2 * fall)
    held, samples, losses, gains = 0.0, 0, 0, 0
    if kind is HopKind.LINK and len(open_packets) >= _MANY:
        if _is_steady(entered):
            losses, gains = _rises(open_packets), _rises(-open_packets)
        usual = np.sort(open_packets)[: len(open_packets) - int(_PAUSES * len(open_packets))]
        least = max(0, int(usual[_LOWEST]), lost_before or 0)
        held, samples = float(np.maximum(0, usual - least).mean()), len(usual)
    return HopBalance(
        kind=kind, place=place, entered=int(entered[-1] - entered[0]), missing=missing, slack=slack,
        held=held, samples=samples, losses=losses, gains=gains,
    )  # fmt: skip


def missing_when_idle(entered: NDArray[np.int64], left: NDArray[np.int64]) -> int | None:
    """Return how many packets were missing on a link when it was last idle; None if it never was."""
    changes = np.flatnonzero(np.diff(entered) | np.diff(left))
    ends = np.append(changes, len(entered) - 1)
    idle = ends[np.diff(ends, prepend=-1) >= _STILL]
    return int(entered[idle[-1]] - left[idle[-1]]) if len(idle) else None


def _is_steady(entered: NDArray[np.int64]) -> bool:
    """Return whether about as many packets entered a link in both halves of a window.

    The faster they come, the more a link with delay holds.
    """
    middle = len(entered) // 2
    first, second = int(entered[middle] - entered[0]), int(entered[-1] - entered[middle])
    return max(first, second) <= _STEADY * min(first, second)


def _rises(packets: NDArray[np.int64]) -> int:
    """Return how often a number of packets rises, if it never falls and does not only rise for a short time; else 0.

    Packets in flight come and go. At a steady rate, their number rises without a fall only when traffic begins.
    """
    steps = np.diff(packets)
    rises = np.flatnonzero(steps)
    if len(rises) < _OFTEN or np.any(steps < 0) or rises[-1] - rises[0] < _APART * len(packets):
        return 0
    return len(rises)
