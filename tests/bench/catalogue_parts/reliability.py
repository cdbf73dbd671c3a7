"""How often answers of a confidence are right: a reliability table over recorded runs whose fault is known.

    ./scripts/catalogue --reliability [--output DIR] [--into lab/docs/diagnose.md]
    python -m tests.bench.catalogue_parts.reliability DIR... [--into lab/docs/diagnose.md]

All recordings of scenarios, ``--hidden``, ``--random`` and ``--healthy`` runs below the folders are diagnosed again,
with the current rules. A cause that is named is an answer. It is right if it has the kind of the fault: its name in
scenarios and random runs, its family in hidden ones. In a healthy run or phase, each cause that is a fault is wrong.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab.cli.kit.output import stdout, table
from lab.diagnose.run import diagnose_run
from lab.errors import LabError
from lab.telemetry.read.recording import Recording
from tests.bench.catalogue_parts.confusion import CAUSE, QUIET, SHOWN
from tests.bench.catalogue_parts.page_table import with_table
from tests.bench.hidden.families import FAMILY_OF

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lab.diagnose.diagnosis import Diagnosis

HEADING: Final = "## Reliability of confidences"
EDGES: Final = (0.0, 0.5, 0.7, 0.8, 0.9, 1.01)
"""The bounds of the rows: from each to below the next."""
COLUMNS: Final = ("confidence", "answers", "right", "frequency", "mean confidence", "95% interval")
_Z: Final = 1.96
"""The quantile of the normal distribution for 95%."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A cause that a diagnosis named first, and whether it is right."""

    confidence: float
    right: bool
    cause: str
    recording: str


def main() -> None:
    """Print the table, or put it into a page."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folders", nargs="+", type=Path)
    options.add_argument("--into", type=Path)
    asked = options.parse_args()
    report(asked.folders, asked.into)


def report(folders: Sequence[Path], into: Path | None = None, *, as_json: bool = False) -> None:
    """Print the reliability table of all recordings below folders, and write it into a page."""
    found = list(answers(folders))
    rows = list(tabulate(found))
    if as_json:
        print(json.dumps([dict(zip(COLUMNS, row, strict=True)) for row in rows]))
    else:
        stdout.print(table("reliability of confidences", COLUMNS, rows))
        for each in found:
            if not each.right:
                stdout.print(f"wrong: {each.cause} ({each.confidence:.2f}), {each.recording}", highlight=False)
    if into is not None:
        page = with_table(into.read_text(encoding="utf-8"), HEADING, COLUMNS, rows)
        into.write_text(page, encoding="utf-8")


def answers(folders: Iterable[Path]) -> Iterator[Answer]:
    """Yield the first fault that is named for each phase of each recording whose fault is known."""
    for path in sorted({file.parent.resolve() for folder in folders for file in folder.glob("**/recording.json")}):
        try:
            yield from _of_recording(Recording.open(path))
        except LabError as error:
            stdout.print(f"left out: {path.name}: {error}", markup=False, highlight=False)


def _of_recording(recording: Recording) -> Iterator[Answer]:
    truth = recording.parameters
    quiet = [phase.name for phase in recording.phases if phase.name in QUIET]
    for phase in quiet:
        yield from _answer(recording, diagnose_run(recording, phase, plan=False), frozenset())
    if hidden := truth.get("hidden"):
        families = frozenset(hidden["families"])
        right = frozenset(cause for cause, family in FAMILY_OF.items() if family in families)
        yield from _answer(recording, diagnose_run(recording, "observe", plan=False), right)
    elif cause := truth.get("random"):
        yield from _answer(recording, diagnose_run(recording, "observe"), frozenset({str(cause)}))
    elif truth.get("healthy"):
        yield from _answer(recording, diagnose_run(recording), frozenset())
    elif scenario := str(truth.get("scenario", "")):
        shown = diagnose_run(recording, SHOWN.get(scenario, "observe"))
        yield from _answer(recording, shown, frozenset({CAUSE.get(scenario, scenario)}))


def _answer(recording: Recording, found: Diagnosis, right: frozenset[str]) -> Iterator[Answer]:
    first = next((each for each in found.causes if each.fault), None)
    if first is not None:
        yield Answer(first.confidence, first.cause in right, first.cause, recording.folder.path.name)


def tabulate(found: Iterable[Answer]) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each range of confidences that has answers, and one for all."""
    every = list(found)
    for low, high in pairwise(EDGES):
        mine = [each for each in every if low <= each.confidence < high]
        if mine:
            yield _row(f"{low:.1f} to {min(high, 1.0):.1f}", mine)
    if every:
        yield _row("all", every)


def _row(name: str, answers: Sequence[Answer]) -> tuple[Any, ...]:
    count, right = len(answers), sum(each.right for each in answers)
    low, high = interval(right, count)
    mean = sum(each.confidence for each in answers) / count
    return name, count, right, f"{right / count:.2f}", f"{mean:.2f}", f"{low:.2f} to {high:.2f}"


def interval(right: int, count: int) -> tuple[float, float]:
    """Return the 95% confidence interval of a frequency (Wilson, JASA 22 (1927), p. 209)."""
    share, z2 = right / count, _Z**2 / count
    middle = (share + z2 / 2) / (1 + z2)
    half = _Z * ((share * (1 - share) + z2 / 4) / count) ** 0.5 / (1 + z2)
    return max(0.0, middle - half), min(1.0, middle + half)


if __name__ == "__main__":
    main()
