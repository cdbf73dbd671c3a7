"""Figures as they stand in a table: short, with their unit, and nothing where there is nothing."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lab.telemetry.read.dashboard import Snapshot
    from lab.telemetry.read.measures import Measure

NOTHING: Final = "·"
"""What stands for 0: a table of an idle fabric is quiet, and what moves is seen."""


def cell(measure: Measure, value: float) -> str:
    """A figure as text; "" where there is none."""
    if math.isnan(value):
        return ""
    if not value:
        return NOTHING
    return measure.format(value)


def rows(look: Snapshot, column: int, *, descending: bool) -> list[tuple[str, ...]]:
    """A line for each name, by a column (0 is the name); who has no figure there comes last."""
    lines = [(name, *values) for name, values in zip(look.names, look.values.tolist(), strict=True)]
    lines.sort(key=lambda line: natural(line[0]))
    if column:
        have = [line for line in lines if not math.isnan(line[column])]
        have.sort(key=lambda line: line[column], reverse=descending)
        lines = have + [line for line in lines if math.isnan(line[column])]
    elif descending:
        lines.reverse()
    return [
        (name, *(cell(measure, value) for measure, value in zip(look.measures, values, strict=True)))
        for name, *values in lines
    ]


def natural(name: str) -> list[tuple[str, int]]:
    """For sorting: leaf2 before leaf10."""
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", name)]
