"""The ``--json`` answers of ``rocelab capture`` and ``rocelab craft``."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from lab.cli.answers.base import Answer, Models
from lab.wire import trigger
from lab.wire.explain import explanation

if TYPE_CHECKING:  # a model has the attributes of the dataclass that it is made of
    from lab.wire.explain.explanation import ExplainedHeader
    from lab.wire.trigger import TriggerEvent
else:
    _MODELS = Models()
    TriggerEvent, ExplainedHeader = _MODELS.of(trigger.TriggerEvent), _MODELS.of(explanation.ExplainedHeader)


class CapturedLink(Answer):
    """A link of ``rocelab capture``."""

    link: str
    packets: int
    bytes: int
    """Bytes on the wire."""
    dropped: int
    """Packets that were lost because they arrived faster than they could be written."""


class CaptureAnswer(Answer):
    """``rocelab capture``."""

    file: str | None
    """null if the event of --on-event did not occur."""
    links: list[CapturedLink]
    event: TriggerEvent | None = None
    """The event that ended the wait of --on-event."""


class HeaderAnswer(ExplainedHeader):
    """A header of a packet, or its payload."""


class CraftedPacket(Answer):
    """A packet of ``rocelab craft``."""

    kind: str
    count: int
    """Number of packets of this kind, with consecutive PSNs."""
    length: int
    """Bytes, without FCS."""
    octets: str
    """All octets of the first packet, in hexadecimal."""
    wrong_by_intent: str
    """The intended errors; empty if there are none."""
    headers: list[HeaderAnswer]
    fault: str
    """Where decoding fails; empty for a valid packet."""


class SentAnswer(Answer):
    """Result of ``rocelab craft --send``."""

    interface: str
    wanted: int
    """Packets that were to be sent."""
    packets: int
    """Packets that the kernel accepted."""
    bytes: int
    refused: int
    """Packets that the kernel rejected because its queue was full."""
    seconds: float
    packets_per_second: float
    bits_per_second: float


class CraftSent(Answer):
    """``rocelab craft --send``."""

    packets: list[CraftedPacket]
    sent: SentAnswer


Craft: TypeAlias = list[CraftedPacket] | CraftSent
