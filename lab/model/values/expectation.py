"""Expectations of measured figures, like ``drops == 0 and goodput(h1, h4) >= 90Mbit``: parse and judge them.

A comparison has a figure with optional arguments, and a number with an optional unit; ``and`` joins comparisons.
Nothing else is evaluated.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from lab.errors import UsageError
from lab.units import format_rate, format_size, format_time, parse_rate, parse_size, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_COMPARISON: Final = re.compile(
    r"\s*([A-Za-z]\w*)\s*(?:\(([^()]*)\))?\s*(==|!=|<=|>=|<|>)\s*([\w./+-]+)\s*", re.ASCII
)
_ARGUMENT: Final = re.compile(r"[\w.:-]+\Z", re.ASCII)
_AND: Final = re.compile(r"\s+and\s+")
_OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_LONGEST: Final = 10_000


class ExpectationUnit(StrEnum):
    """The unit of a figure."""

    NUMBER = "number"
    BYTES = "size"
    RATE = "rate"
    SECONDS = "time"


_READERS: Final[Mapping[ExpectationUnit, Callable[[str], float]]] = {
    ExpectationUnit.NUMBER: float,
    ExpectationUnit.BYTES: parse_size,
    ExpectationUnit.RATE: parse_rate,
    ExpectationUnit.SECONDS: parse_time,
}
_WRITERS: Final[Mapping[ExpectationUnit, Callable[[float], str]]] = {
    ExpectationUnit.NUMBER: lambda value: f"{value:g}" if value % 1 else str(int(value)),
    ExpectationUnit.BYTES: format_size,
    ExpectationUnit.RATE: format_rate,
    ExpectationUnit.SECONDS: format_time,
}


class ExpectationVerdict(StrEnum):
    """Whether an expectation holds."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison of an expectation; ``arguments`` select the object of its ``figure``."""

    text: str
    figure: str
    arguments: tuple[str, ...]
    operator: str
    bound: str


@dataclass(frozen=True, slots=True)
class FigureValue:
    """The value of a figure, or None and the reason ``why`` it was not measured."""

    value: float | None
    unit: ExpectationUnit = ExpectationUnit.NUMBER
    why: str = ""


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """A comparison, the measured value, and the verdict."""

    expected: str
    verdict: ExpectationVerdict
    value: float | None
    """The measured value in bytes, bit/s or seconds; null if it was not measured."""
    seen: str


def parse(text: str) -> list[Comparison]:
    """Return the comparisons of an expectation; raise UsageError for invalid text."""
    found = []
    for part in _AND.split(text[:_LONGEST]):
        match = _COMPARISON.fullmatch(part)
        arguments = [each.strip() for each in (match[2] or "").split(",")] if match else []
        arguments = [] if arguments == [""] else arguments
        if match is None or not all(map(_ARGUMENT.match, arguments)):
            raise UsageError(
                f"{part.strip()!r} is no expectation", "write it like drops == 0 or goodput(h1,h4) >= 90Mbit"
            )
        found.append(
            Comparison(
                text=" ".join(part.split()),
                figure=match[1],
                arguments=tuple(arguments),
                operator=match[3],
                bound=match[4],
            )
        )
    return found


def judge(comparison: Comparison, seen: FigureValue) -> ExpectationResult:
    """Judge a comparison; raise UsageError if the unit of its number does not suit the figure."""
    try:
        bound = _READERS[seen.unit](comparison.bound)
    except ValueError as error:
        what, remedy = f"a {seen.unit}", str(error)
        if seen.unit is ExpectationUnit.NUMBER:
            what, remedy = "a plain number", f"write a number in place of {comparison.bound}"
        raise UsageError(f"{comparison.text}: {comparison.figure} is {what}", remedy) from error
    if seen.value is None:
        return ExpectationResult(
            expected=comparison.text, verdict=ExpectationVerdict.UNKNOWN, value=None, seen=seen.why
        )
    holds = _OPERATORS[comparison.operator](seen.value, bound)
    verdict = ExpectationVerdict.PASS if holds else ExpectationVerdict.FAIL
    return ExpectationResult(
        expected=comparison.text, verdict=verdict, value=seen.value, seen=_WRITERS[seen.unit](seen.value)
    )
