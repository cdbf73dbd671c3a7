"""Render a comparison as Markdown; text from recordings is escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.report.compare.changes import NOISE
from lab.report.compare.comparison_text import (
    CAUSE_COLUMNS,
    CHECK_COLUMNS,
    cause_rows,
    check_rows,
    diagnosis_text,
    only_texts,
    run_text,
    runs_of,
    section_columns,
    section_rows,
    section_text,
    verdict_text,
)
from lab.report.markdown_text import plain, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.report.compare.comparison import ComparedSection, RunComparison


def write_comparison(comparison: RunComparison, threshold: float, *, every: bool) -> str:
    """Return the document; ``every`` includes unchanged values."""
    return "\n".join(_lines(comparison, threshold, every=every)) + "\n"


def _lines(comparison: RunComparison, threshold: float, *, every: bool) -> Iterator[str]:
    yield f"# {plain(comparison_title(comparison))}"
    yield ""
    for letter, run in runs_of(comparison):
        yield f"- **{letter}** {plain(run_text(run))}"
    yield from (f"- {plain(note)}." for note in comparison.notes)
    yield ""
    yield (
        f"A value changed if it is 0 in one run only, or if it differs by more than {threshold * 100:g}% of the"
        f" larger value. A rate of traffic and a peak also have to differ by {NOISE:.0%} of the highest one."
    )
    yield ""
    yield from _verdicts(comparison, every=every)
    for section in comparison.sections:
        yield from _section(section, every=every)


def comparison_title(comparison: RunComparison) -> str:
    """Return the title of the document."""
    return f"{comparison.a.label} and {comparison.b.label} compared"


def _verdicts(comparison: RunComparison, *, every: bool) -> Iterator[str]:
    yield "## Verdict and diagnosis"
    yield ""
    for line, columns, rows in (
        (verdict_text(comparison), CHECK_COLUMNS, list(check_rows(comparison, every=every))),
        (diagnosis_text(comparison), CAUSE_COLUMNS, list(cause_rows(comparison, every=every))),
    ):
        if line:
            yield f"{plain(line[:1].upper() + line[1:])}."
            yield ""
        if rows:
            yield from table(columns, ([plain(cell) for cell in row] for row in rows))


def _section(section: ComparedSection, *, every: bool) -> Iterator[str]:
    yield f"## {section.title.capitalize()}"
    yield ""
    yield f"{plain(section_text(section).partition(': ')[2])}."
    yield ""
    for line in only_texts(section):
        yield f"{plain(line[:1].upper() + line[1:])}."
        yield ""
    rows = list(section_rows(section, section.values if every else section.changes))
    if rows:
        yield from table(section_columns(section), ([plain(cell) for cell in row] for row in rows))
