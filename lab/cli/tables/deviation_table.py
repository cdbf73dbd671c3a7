"""Deviations from a baseline as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.cli.kit.output import print_note, stdout, table
from lab.telemetry.read.measure_unit import MeasureUnit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.report.baseline.learned_baseline import BaselineDeviation

SPREADS: Final = 6.0
"""The deviation from which on a value is listed by default."""
MOST_ROWS: Final = 40
"""Rows of a table."""
_HEADINGS: Final = ("of", "priority", "measure", "normal", "value", "deviations", "since", "windows")


def show_deviations(title: str, deviations: Sequence[BaselineDeviation]) -> None:
    """Print the largest deviations, and how many others there are."""
    rows = [
        (each.of, each.priority, each.measure, with_unit(each.normal, each.unit), with_unit(each.value, each.unit),
         f"{each.deviations:+.1f}", f"{each.since:.1f} s", each.windows)
        for each in deviations[:MOST_ROWS]
    ]  # fmt: skip
    stdout.print(table(title, _HEADINGS, rows))
    note_rest(len(deviations))


def note_rest(count: int) -> None:
    """Print how many of ``count`` rows a table leaves out, if any."""
    if count > MOST_ROWS:
        print_note(f"{count - MOST_ROWS} more: --json lists all")


def with_unit(value: float, unit: str) -> str:
    """Return a value with its unit; files of other versions may have other units."""
    try:
        return MeasureUnit(unit).write(value)
    except ValueError:
        return f"{value:g} {unit}"
