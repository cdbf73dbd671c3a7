"""What is answered about packets that are captured, made and sent: ``rocelab capture`` and ``rocelab craft``."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from lab.cli.answers.base import Answer, Models
from lab.wire import trigger

if TYPE_CHECKING:  # a model has the attributes of the dataclass that it is made of
    from lab.wire.trigger import TriggerEvent
else:
    TriggerEvent = Models().of(trigger.TriggerEvent)


class CapturedLink(Answer):
    """A link of ``rocelab capture``."""

    link: str
    packets: int
    bytes: int
    """On the wire."""
    dropped: int
    """Packets that came faster than they could be written."""


class CaptureAnswer(Answer):
    """``rocelab capture``."""

    file: str | None
    """None where nothing happened that --on-event waited for."""
    links: list[CapturedLink]
    event: TriggerEvent | None = None
    """What --on-event had waited for."""


class FieldAnswer(Answer):
    """A field of a header."""

    name: str
    """As the specification has it."""
    value: str
    meaning: str
    """Empty where the value says it all."""
    bits: int
    """On the wire; 0 where that is not fixed."""


class HeaderAnswer(Answer):
    """A header of a packet, or its data."""

    name: str
    size: int
    """Bytes on the wire."""
    fields: list[FieldAnswer]
    """In the order of the wire."""
    why: str
    """Why it matters, where there is something to say."""


class CraftedPacket(Answer):
    """A packet of ``rocelab craft``."""

    kind: str
    count: int
    """How many like it are made; PSNs count on."""
    length: int
    """Bytes, without FCS."""
    octets: str
    """All of the first, in hexadecimal."""
    wrong_by_intent: str
    """Empty where nothing is."""
    headers: list[HeaderAnswer]
    fault: str
    """Where its bytes stop making sense; empty for a good one."""


class SentAnswer(Answer):
    """How packets left, of ``rocelab craft --send``."""

    interface: str
    wanted: int
    """Packets that were to be sent."""
    packets: int
    """Packets that the kernel took."""
    bytes: int
    refused: int
    """Packets for which its queue had no room."""
    seconds: float
    packets_per_second: float
    bits_per_second: float


class CraftSent(Answer):
    """``rocelab craft --send``."""

    packets: list[CraftedPacket]
    sent: SentAnswer


Craft: TypeAlias = list[CraftedPacket] | CraftSent
