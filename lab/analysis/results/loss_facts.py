"""What an analysis found of losses: steps back, gaps, where packets were lost, and the causes that sum that up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GoBackN:
    """A requester stepped back from the PSN after the highest to ``psn`` and sent ``packets`` again.

    ``time`` in seconds since the first packet of the file; ``cause`` is the NAK that asked for it, ``timeout`` when
    none did, or ``unknown`` when the answers were not captured, or nobody knows which were its own. ``alone``:
    nothing else was sent again, which is selective repeat and not go-back-N (IBA vol. 1 sections 9.7.5.1.2 and
    9.7.6).
    """

    link: str
    src: str
    dst: str
    qp: int
    time: float
    seconds: float
    psn: int
    back: int
    packets: int
    cause: str
    alone: bool


@dataclass(frozen=True, slots=True)
class MissingPsns:
    """``count`` PSNs from ``psn`` on were skipped, ``time`` seconds after the first packet of the file."""

    link: str
    src: str
    dst: str
    qp: int
    time: float
    psn: int
    count: int


@dataclass(frozen=True, slots=True)
class Loss:
    """Packets that were lost on their way through the links of a capture, and what that cost.

    ``count`` PSNs from ``psn`` on were last seen at ``after`` and never at ``before``; None where the capture has no
    link on that side. Without ``before`` it may be the answer that was lost. ``answer`` is the negative answer that
    told of it, or ``timeout``, or ``unknown``; ``response``: it was a READ's response, and ``psn`` the READ's.
    ``time`` is when the requester began to send again, in seconds since the first packet of the file, ``waited`` how
    long before that the loss showed: at ``before`` by the next packet, elsewhere by silence. ``resent`` packets went
    again.
    """

    src: str
    dst: str
    qp: int
    psn: int
    count: int
    after: str | None
    before: str | None
    answer: str
    response: bool
    time: float
    waited: float
    resent: int


@dataclass(frozen=True, slots=True)
class LossCounter:
    """What counts a loss: ``side`` is requester or responder, names are those of mlx5 and of rxe, empty for none."""

    side: str
    mlx5: str
    rxe: str


@dataclass(frozen=True, slots=True)
class LossCause:
    """Losses of one kind at one place, in a sentence; ``longest`` is the longest wait in seconds."""

    what: str
    after: str | None
    before: str | None
    answer: str
    losses: int
    flows: int
    resent: int
    longest: float
    counters: tuple[LossCounter, ...]
