"""The comparison of two recordings as tables, and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lab.cli.kit.output import stdout, table
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

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lab.report.compare.changes import ComparedValue
    from lab.report.compare.comparison import ComparedSection, RunComparison
    from lab.report.compare.run_window import ComparedRun

_MOST: Final = 40
"""Rows of a section without ``--all``."""


def show_comparison(found: RunComparison, *, every: bool) -> None:
    """Print changed values; ``every`` also prints unchanged ones."""
    for letter, run in runs_of(found):
        _say(f"{letter}  {run_text(run)}")
    for note in found.notes:
        _say(f"note: {note}")
    if not found.changed:
        _say("nothing changed")
    _show_rows(verdict_text(found), CHECK_COLUMNS, list(check_rows(found, every=every)))
    _show_rows(diagnosis_text(found), CAUSE_COLUMNS, list(cause_rows(found, every=every)))
    for section in found.sections:
        _show_section(section, every=every)


def _show_section(section: ComparedSection, *, every: bool) -> None:
    values = section.values if every else section.changes[:_MOST]
    _show_rows(section_text(section), section_columns(section), list(section_rows(section, values)))
    if len(values) < len(section.changes):
        _say(f"{len(section.changes) - len(values)} smaller changes are left out: --all shows them")
    for line in only_texts(section):
        _say(line)


def _show_rows(title: str, columns: Sequence[str], rows: list[tuple[str, ...]]) -> None:
    if rows:
        stdout.print()
        stdout.print(table(title, columns, rows))
    elif title:
        _say(title)


def _say(line: str) -> None:
    stdout.print(line, markup=False, highlight=False, soft_wrap=True)


def comparison_data(found: RunComparison, threshold: float, files: Sequence[Path], *, every: bool) -> dict[str, Any]:
    """Return the comparison for JSON; ``every`` adds unchanged values."""
    return {
        "changed": found.changed,
        "threshold": threshold,
        "a": _run_data(found.a),
        "b": _run_data(found.b),
        "notes": found.notes,
        "checks": [
            {
                "name": each.name, "a": each.a, "b": each.b, "evidence_a": each.evidence_a,
                "evidence_b": each.evidence_b, "changed": each.changed,
            }
            for each in found.checks
        ],
        "causes": [
            {
                "cause": each.cause, "title": each.title, "places": each.places, "priority": each.priority,
                "a": each.a, "b": each.b, "changed": each.changed,
            }
            for each in found.causes
        ],
        "sections": [_section_data(each, every=every) for each in found.sections],
        "files": list(map(str, files)),
    }  # fmt: skip


def _run_data(run: ComparedRun) -> dict[str, Any]:
    recording = run.recording
    return {
        "name": run.label,
        "folder": str(recording.folder.path.resolve()),
        "fabric": recording.fabric,
        "scenario": run.scenario,
        "outcome": run.told.outcome or None,
        "diagnosis": run.diagnosis.outcome.value,
        "complete": not recording.incomplete,
        "hz": recording.hz,
        "phase": run.window.name,
        "start": run.start,
        "seconds": run.counters.seconds,
    }


def _section_data(section: ComparedSection, *, every: bool) -> dict[str, Any]:
    return {
        "name": section.name,
        "changed": len(section.names.both) - section.unchanged,
        "unchanged": section.unchanged,
        "only_a": section.names.only_a,
        "only_b": section.names.only_b,
        "values": [_value_data(each) for each in (section.values if every else section.changes)],
    }


def _value_data(value: ComparedValue) -> dict[str, Any]:
    return {
        "of": value.of,
        "priority": value.priority,
        "measure": value.measure.name,
        "title": value.measure.title,
        "unit": value.measure.unit.value,
        "a": value.a.value,
        "b": value.b.value,
        "total_a": value.a.total,
        "total_b": value.b.total,
        "difference": value.difference,
        "percent": value.percent,
        "changed": value.changed,
    }
