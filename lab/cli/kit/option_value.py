"""Option values that are sizes, rates and times; parse errors include the expected format."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from lab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def read_value(option: str, text: str, parse: Callable[[str], T]) -> T:
    """Return ``text`` parsed by ``parse`` of ``lab.units``; UsageError with its remedy for invalid text."""
    try:
        return parse(text)
    except ValueError as error:
        what, _, remedy = str(error).partition("; ")
        raise UsageError(f"{option}: {what}", remedy) from error
