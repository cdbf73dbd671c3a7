"""Facts about losses: retransmission episodes, gaps, places of loss, and causes that group losses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GoBackN:
    """A retransmission episode: from the PSN after the highest, back to ``psn``, with ``packets`` resent.

    ``time`` is in seconds since the first packet of the file. ``cause`` is the NAK that requested it, ``timeout`` if
    none did, or ``unknown`` if the answers were not captured or cannot be assigned. ``alone``: only the lost packet
    was resent, which is selective repeat and not go-back-N (IBA vol. 1 sections 9.7.5.1.2 and 9.7.6).
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
    """Packets lost between the links of a capture, and the retransmission that followed.

    * ``count`` PSNs from ``psn`` on were last seen at ``after`` and never at ``before``. Either is None if the
      capture has no link on that side. Without ``before``, the answer may have been lost instead.
    * ``answer``: the NAK that reported the loss, or ``timeout``, or ``unknown``.
    * ``response``: a READ response was lost, and ``psn`` is that of the READ.
    * ``time``: when the requester began to retransmit, in seconds since the first packet of the file.
    * ``waited``: seconds from the first sign of the loss to ``time``. The sign is the next packet at ``before``,
      elsewhere the packet before the retransmission.
    * ``resent``: packets that were retransmitted.
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
    """The counters of a loss at one ``side`` (requester or responder), with names in mlx5 and rxe; empty for none."""

    side: str
    mlx5: str
    rxe: str


@dataclass(frozen=True, slots=True)
class LossCause:
    """Losses of one kind at one place, described in a sentence; ``longest`` is the longest wait in seconds."""

    what: str
    after: str | None
    before: str | None
    answer: str
    losses: int
    flows: int
    resent: int
    longest: float
    counters: tuple[LossCounter, ...]
