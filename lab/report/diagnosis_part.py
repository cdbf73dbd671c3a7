"""The diagnosis chapter of a report, for recordings that were not made by a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.report.markdown_text import code, plain, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.diagnose.conservation.locations import Location
    from lab.diagnose.diagnosis import Found
    from lab.diagnose.symptom import Evidence
    from lab.report.run_facts import ReportFacts

_PLACES: Final = 8
"""The maximum number of places that are listed."""
_SAYS: Final = {
    "fault": "Something is broken. The most likely root cause comes first.",
    "capacity": "No fault was found: a link is used to its capacity.",
    "healthy": "No fault is visible, and everything was checked.",
    "unchecked": "No fault was seen, but not everything was checked.",
    "unknown": "A fault is present but unidentified, or the evidence is insufficient.",
}
"""The meaning of each outcome of a diagnosis."""


def diagnosed(facts: ReportFacts) -> Iterator[str]:
    """Yield the chapter as lines of Markdown; nothing if there is no diagnosis."""
    found = facts.diagnosis
    if found is None:
        return
    yield "## Diagnosis"
    yield ""
    yield f"{_SAYS[found.outcome.value]} It does not use the record of injected faults (`rocelab diagnose RUN`)."
    yield ""
    if found.outcome.value in {"capacity", "unchecked"} and found.unchecked:
        yield f"Not checked: {plain('; '.join(found.unchecked))}."
        yield ""
    for cause in found.causes:
        yield from _cause(cause)
    if found.unexplained:
        yield "Unexplained by any cause:"
        yield ""
        yield from _evidence(found.unexplained)
    if found.located:
        yield "Where packets are not conserved:"
        yield ""
        yield from _locations(found.located)


def _cause(cause: Found) -> Iterator[str]:
    sure = f" ({cause.confidence:.0%} sure)" if cause.fault else ""
    where = ", ".join(map(code, cause.places)) or "the whole fabric"
    which = "" if cause.priority is None else f", priority {cause.priority}"
    yield f"**{plain(cause.cause)}**{sure} at {where}{which}: {plain(cause.title)}. {plain(cause.words)}"
    yield ""
    yield from _evidence(cause.evidence)
    if cause.rival:
        yield f"Not {plain(cause.rival)}? {plain(cause.tell)}"
        yield ""
    if cause.fault:
        yield f"Fix: {plain(cause.fix)}"
        yield ""


def _locations(located: Sequence[Location]) -> Iterator[str]:
    yield from table(
        ("at", "effect", "packets", "share", "what"),
        (
            (code(each.place), each.effect.value, str(each.packets), f"{each.share:.2%}", plain(each.evidence.says))
            for each in located[:_PLACES]
        ),
    )


def _evidence(lines: Sequence[Evidence]) -> Iterator[str]:
    yield from table(
        ("second", "at", "figure", "what", "counter or source"),
        ((f"{max(0.0, each.at):.1f}", plain(each.of), each.figure, plain(each.says), code(each.source))
         for each in lines),
    )  # fmt: skip
