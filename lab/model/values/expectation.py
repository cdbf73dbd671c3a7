"""What somebody expects of figures, as ``drops == 0 and goodput(h1, h4) >= 90Mbit``: parsed, and judged.

A figure, perhaps of some place, is compared with a number, which may have a unit; ``and`` joins comparisons. There is
nothing else: nothing is computed, called or looked up but the figures.
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
    """What a figure is counted in."""

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
    """One comparison of an expectation; ``arguments`` say of what its ``figure`` is."""

    text: str
    figure: str
    arguments: tuple[str, ...]
    operator: str
    bound: str


@dataclass(frozen=True, slots=True)
class FigureValue:
    """The value of a figure, None where it was not measured, and ``why`` then."""

    value: float | None
    unit: ExpectationUnit = ExpectationUnit.NUMBER
    why: str = ""


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """A comparison, what was seen, and whether it holds."""

    expected: str
    verdict: ExpectationVerdict
    value: float | None
    seen: str


def parse(text: str) -> list[Comparison]:
    """The comparisons of an expectation; UsageError when it is none."""
    found = []
    for part in _AND.split(text[:_LONGEST]):
        match = _COMPARISON.fullmatch(part)
        arguments = [each.strip() for each in (match[2] or "").split(",")] if match else []
        arguments = [] if arguments == [""] else arguments
        if match is None or not all(map(_ARGUMENT.match, arguments)):
            raise UsageError(
                f"{part.strip()!r} is no expectation", "write it like drops == 0 or goodput(h1,h4) >= 90Mbit"
            )
        found.append(Comparison(part.strip(), match[1], tuple(arguments), match[3], match[4]))
    return found


def judge(comparison: Comparison, seen: FigureValue) -> ExpectationResult:
    """Whether it holds of what was seen; UsageError when its number has a unit that the figure has not."""
    try:
        bound = _READERS[seen.unit](comparison.bound)
    except ValueError as error:
        what = f"a {seen.unit}" if seen.unit is not ExpectationUnit.NUMBER else "a plain number"
        raise UsageError(f"{comparison.text}: {comparison.figure} is {what}", str(error)) from error
    if seen.value is None:
        return ExpectationResult(comparison.text, ExpectationVerdict.UNKNOWN, None, seen.why)
    holds = _OPERATORS[comparison.operator](seen.value, bound)
    verdict = ExpectationVerdict.PASS if holds else ExpectationVerdict.FAIL
    return ExpectationResult(comparison.text, verdict, seen.value, _WRITERS[seen.unit](seen.value))
