"""Option values that are sizes, rates and times; parse errors include the expected format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from lab.errors import UsageError
from lab.units import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_LONGEST: Final = 1e9
"""Seconds, at most: as ns, they fit into 64 bits."""


def read_value(option: str, text: str, parse: Callable[[str], T]) -> T:
    """Return ``text`` parsed by ``parse`` of ``lab.units``; UsageError with its remedy for invalid text."""
    try:
        return parse(text)
    except ValueError as error:
        what, _, remedy = str(error).partition("; ")
        raise UsageError(f"{option}: {what}", remedy) from error


def read_seconds(option: str, text: str) -> float:
    """Return the seconds of a time like ``1.5``, ``1.5s`` or ``1500ms``; UsageError for any other text."""
    seconds = read_value(option, text, parse_time)
    if seconds > _LONGEST:
        raise UsageError(f"{option} {text} is out of range", "choose a shorter time")
    return seconds


def read_optional_seconds(option: str, text: str | None) -> float | None:
    """Return the seconds of a time as ``read_seconds`` does; None if it is not given."""
    return None if text is None else read_seconds(option, text)
