"""Sentences and table cells of a comparison, for the terminal, Markdown and the page alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.report.compare.changes import difference_text, figure_text, percent_text
from lab.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.report.compare.changes import ComparedValue
    from lab.report.compare.comparison import ComparedCause, ComparedSection, RunComparison
    from lab.report.compare.run_window import ComparedRun

_NAMED: Final = 8
"""Maximum number of names in a line."""
CHECK_COLUMNS: Final = ("check", "A", "B", "evidence in A", "evidence in B")
CAUSE_COLUMNS: Final = ("cause", "where", "A", "B", "change")


def runs_of(comparison: RunComparison) -> tuple[tuple[str, ComparedRun], tuple[str, ComparedRun]]:
    """Return each run with its letter."""
    return ("A", comparison.a), ("B", comparison.b)


def run_text(run: ComparedRun) -> str:
    """Return a line on a recording: its name, fabric, compared window, and scenario."""
    recording = run.recording
    length = f"{run.counters.seconds:.1f} s"
    if run.window.name:
        length = f"phase {run.window.name}, {length}"
    elif run.counters.seconds < recording.seconds - 1 / recording.hz:
        length = f"{length} from {run.start:.1f} s"
    outcome = f" ({run.told.outcome})" if run.told.outcome else ""
    made = f", scenario {run.scenario}{outcome}" if run.scenario else ""
    return f"{run.label}: fabric {recording.fabric}, {length}, {recording.hz:g} samples a second{made}"


def verdict_text(comparison: RunComparison) -> str:
    """Return a line on the verdicts of both runs; empty if neither has a scenario."""
    if not comparison.checks:
        return ""
    outcomes = [outcome or "not judged" for outcome in comparison.outcomes]
    changed = sum(each.changed for each in comparison.checks)
    same = len(comparison.checks) - changed
    return f"verdict: {_from_to(*outcomes)}; {counted(changed, 'check')} changed, {same} unchanged"


def diagnosis_text(comparison: RunComparison) -> str:
    """Return a line on the diagnoses of both runs."""
    changed = sum(each.changed for each in comparison.causes)
    same = len(comparison.causes) - changed
    return f"diagnosis: {_from_to(*comparison.diagnoses)}; {counted(changed, 'cause')} changed, {same} unchanged"


def _from_to(one: str, other: str) -> str:
    return f"{one} in both" if one == other else f"A {one}, B {other}"


def check_rows(comparison: RunComparison, *, every: bool) -> Iterator[tuple[str, ...]]:
    """Yield the checks whose outcome changed, or every check, in the columns of ``CHECK_COLUMNS``."""
    for check in comparison.checks:
        if every or check.changed:
            yield check.name, check.a or "none", check.b or "none", check.evidence_a, check.evidence_b


def cause_rows(comparison: RunComparison, *, every: bool) -> Iterator[tuple[str, ...]]:
    """Yield the causes diagnosed in one run only, or every cause, in the columns of ``CAUSE_COLUMNS``."""
    for cause in comparison.causes:
        if every or cause.changed:
            which = "" if cause.priority is None else f", priority {cause.priority}"
            sure = ("" if each is None else f"{each:.0%}" for each in (cause.a, cause.b))
            yield cause.cause, f"{', '.join(cause.places)}{which}", *sure, _cause_change(cause)


def _cause_change(cause: ComparedCause) -> str:
    if not cause.changed:
        return "in both"
    return "new" if cause.a is None else "gone"


def section_text(section: ComparedSection) -> str:
    """Return a line with the numbers of changed and unchanged objects."""
    changed = len(section.names.both) - section.unchanged
    return f"{section.title}: {counted(changed, section.noun)} changed, {section.unchanged} unchanged"


def only_texts(section: ComparedSection) -> Iterator[str]:
    """Yield a line for each run with the objects that exist in this run only."""
    for letter, names in (("A", section.names.only_a), ("B", section.names.only_b)):
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            yield f"{section.title} only in {letter}: {', '.join(names[:_NAMED])}{more}"


def section_columns(section: ComparedSection) -> tuple[str, ...]:
    """Return the column titles of a section."""
    return (
        section.noun,
        *(["priority"] if _has_priorities(section) else []),
        "measure",
        "A",
        "B",
        "change",
        "percent",
    )


def section_rows(section: ComparedSection, values: Sequence[ComparedValue]) -> Iterator[tuple[str, ...]]:
    """Yield the values of a section, in the columns of ``section_columns``."""
    for value in values:
        priority = ["" if value.priority is None else str(value.priority)] if _has_priorities(section) else []
        figures = (figure_text(value.measure, figure) for figure in (value.a, value.b))
        yield value.of, *priority, value.measure.title, *figures, difference_text(value), percent_text(value)


def _has_priorities(section: ComparedSection) -> bool:
    return any(value.priority is not None for value in section.values)
