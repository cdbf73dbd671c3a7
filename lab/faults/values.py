"""Parameter values parsed from text. Error messages contain the bounds or an example."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lab.model.values.fields import ranged
from lab.model.values.suggest import suggest
from lab.model.values.yamltext import show
from lab.units import format_time, parse_time
from lab.wire.filter.words import OPCODES

if TYPE_CHECKING:
    from pydantic import BeforeValidator

_LONGEST: Final = 86_400.0
_LAST_OPCODE: Final = 0xFF


def parse_share(text: str) -> float:
    """Parse a share: ``"0.1%"`` or ``"0.001"``. Raises ValueError for other text."""
    try:
        number = float(text.strip().removesuffix("%"))
    except ValueError:
        raise ValueError(f"{text!r} is no share; write it like 0.1% or 0.001") from None
    return number / 100 if text.strip().endswith("%") else number


def format_share(share: float) -> str:
    """Format a share as a percentage with four significant digits: ``"0.1%"``."""
    return f"{share * 100:.4g}%"


def time_of(low: float, high: float = _LONGEST) -> BeforeValidator:
    """Return a validator of a time in seconds, within inclusive bounds."""
    return ranged(parse_time, format_time, (low, high), "time", "500ms or 2s")


def share_of(low: float, high: float = 1.0) -> BeforeValidator:
    """Return a validator of a share, within inclusive bounds."""
    return ranged(parse_share, format_share, (low, high), "share", "0.1% or 0.001")


def priorities(value: Any) -> Any:
    """Split one priority, or several separated by commas. Each is validated later."""
    words = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else [value]
    if not words:
        raise ValueError("names no priority; write it like 3 or 3,4")
    return tuple(words)


def opcodes(value: Any) -> frozenset[int]:
    """Parse BTH opcodes: a number, or the name of an opcode or a family as in filters."""
    text = str(value).strip().lower()
    if text in OPCODES:
        return frozenset(OPCODES[text])
    try:
        number = int(text, 0)
    except ValueError:
        number = -1
    if not 0 <= number <= _LAST_OPCODE:
        remedy = suggest(text, OPCODES, "write it like cnp, ack, write, rc_acknowledge or 0x81")
        raise ValueError(f"{show(value)} is no opcode; {remedy}")
    return frozenset({number})
