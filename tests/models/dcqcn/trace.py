"""The input of every model of a reaction point, and its output.

The models are written from published descriptions and share no code with the data plane. Times are int nanoseconds,
rates int or float bit/s, alpha a fraction of 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import merge
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Input(NamedTuple):
    """An event from outside: a CNP (``sent`` is None), or a packet of ``sent`` bytes that leaves the NIC."""

    time: int
    sent: int | None


@dataclass(frozen=True, slots=True)
class RateState:
    """The state of one QP just after an event."""

    time: int
    event: str
    """cnp, alpha, decrease, timer or bytes."""
    rate: float
    target: float
    alpha: float


class ReactionPoint(Protocol):
    """A model of one QP's rate."""

    def pending(self) -> int | None:
        """Return the time of the model's next timer; None if no timer runs."""

    def fire(self, time: int, /) -> Iterator[RateState]:
        """Run every timer that is due at ``time``, and yield the state after each."""

    def cnp(self, time: int, /) -> Iterator[RateState]:
        """Take a CNP."""

    def sent(self, time: int, size: int, /) -> Iterator[RateState]:
        """Count ``size`` bytes that left the NIC."""


def run(
    model: ReactionPoint, cnps: Sequence[int], until: int, sent: Sequence[tuple[int, int]] = ()
) -> Iterator[RateState]:
    """Feed a model with CNP times and sent packets up to ``until``, and yield its state after every event.

    Of events at the same time, CNPs and packets come before timers.
    """
    packets = (Input(time, size) for time, size in sent)
    events = merge((Input(time, None) for time in cnps), packets, key=lambda event: event.time)
    for event in events:
        if event.time > until:
            break
        yield from _timers(model, event.time - 1)
        if event.sent is None:
            yield from model.cnp(event.time)
        else:
            yield from model.sent(event.time, event.sent)
    yield from _timers(model, until)


def _timers(model: ReactionPoint, until: int) -> Iterator[RateState]:
    while (time := model.pending()) is not None and time <= until:
        yield from model.fire(time)
