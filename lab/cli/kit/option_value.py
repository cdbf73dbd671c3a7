"""Values of options that are sizes, rates and times; what cannot be read is told with how to write it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from lab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def read_value(option: str, text: str, parse: Callable[[str], T]) -> T:
    """What ``parse``, of ``lab.units``, makes of ``text``; UsageError with its remedy where that is nothing."""
    try:
        return parse(text)
    except ValueError as error:
        what, _, remedy = str(error).partition("; ")
        raise UsageError(f"{option}: {what}", remedy) from error
