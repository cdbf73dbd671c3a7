"""The diagnosis of recorded scenarios: a table of injected causes and diagnosed causes.

python -m tests.bench.catalogue_parts.confusion DIR... [--into lab/docs/diagnose.md]

Every recording of a scenario below the folders is diagnosed, by phases. Only this module reads which fault was
injected. Three kinds of spans count: the phase that shows the fault, the whole run, and every phase before the fault.
The last must be healthy, or capacity. A page keeps its rows of other scenarios than those of the recordings.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lab.diagnose.diagnosis import DiagnosisOutcome
from lab.diagnose.run import diagnose_run
from lab.diagnose.symptom import matches
from lab.errors import LabError
from lab.telemetry.read.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lab.diagnose.diagnosis import Diagnosis

HEADING = "## Confusion table"
COUNTS = {
    "runs": "runs", "first": "named first", "placed": "and its place", "among_three": "among three",
    "whole": "of the whole run", "quiet": "quiet phases", "healthy": "healthy",
}  # fmt: skip
"""The columns that count runs, and what the table calls them."""
SHOWN = {"malformed-pfc": "address", "incast": "incast"}
"""The phase that shows it, where that is not called observe."""
CAUSE = {
    "slow-rail": "slow-receiver", "vlan-stp-blocked": "link-down", "one-slow-link-slows-all": "link-rate",
    "link-loss-mid-step": "gray-loss", "checkpoint-hits-training": "incast",
    "ecmp-collision-of-rings": "elephant-collision", "kv-cache-beside-allreduce": "incast",
    "pfc-storm-stalls-every-job": "pfc-storm",
    "ecn-off-by-3kb-256": "ecn-off-by-3kb", "ring-against-tree": "incast",
}  # fmt: skip
"""The cause of scenarios that have not its name."""
PLACES = {
    "victim-flow": ["h6:eth1"], "parking-lot": ["leaf1"], "incast": ["leaf1:swp6"],
    "ack-starved-by-pfc": ["h4:eth1"], "wrong-traffic-class": ["h1", "h2", "h3"],
    "pfc-deadlock": ["leaf1:swp1", "spine1:swp2", "leaf2:swp2", "spine2:swp1"],
}  # fmt: skip
"""Where it is, of scenarios that do not inject it there: PFC does it by itself, or what is injected leads to it."""
QUIET = {"baseline", "before", "alone"}
"""Phases before the fault."""


@dataclass
class Row:
    """The results of a scenario's runs."""

    runs: int = 0
    first: int = 0
    placed: int = 0
    among_three: int = 0
    whole: int = 0
    quiet: int = 0
    healthy: int = 0
    named: Counter[str] = field(default_factory=Counter)
    alarms: Counter[str] = field(default_factory=Counter)


def main() -> None:
    """Print the table, or put it into a page."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folders", nargs="+", type=Path)
    options.add_argument("--into", type=Path)
    asked = options.parse_args()
    rows, unread = tabulate(asked.folders)
    page = asked.into.read_text(encoding="utf-8") if asked.into is not None else ""
    text = "\n".join(drawn(dict(sorted({**told(page), **rows}.items()))))
    print(text)
    for line in unread:
        print(f"left out: {line}")
    if asked.into is not None:
        asked.into.write_text(f"{page.partition(HEADING)[0]}{HEADING}\n\n{text}\n", encoding="utf-8")


def tabulate(folders: Iterable[Path]) -> tuple[dict[str, Row], list[str]]:
    """A row for each scenario, and recordings that cannot be read."""
    rows: dict[str, Row] = defaultdict(Row)
    unread = []
    found = {file.parent.resolve() for folder in folders for file in folder.glob("**/recording.json")}
    for path in sorted(found):
        try:
            recording = Recording.open(path)
            scenario = str(recording.parameters.get("scenario", ""))
            if scenario and not recording.incomplete:
                count(rows[scenario], scenario, recording)
        except LabError as error:
            unread.append(f"{path.name}: {error}")
    return {scenario: row for scenario, row in rows.items() if row.runs}, unread


def told(page: str) -> dict[str, Row]:
    """The rows of the table that a page has."""
    rows = {}
    for line in page.partition(HEADING)[2].splitlines():
        scenario, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        if cells and cells[0].isdecimal() and scenario != "all":
            *counts, taken_for = cells
            row = rows[scenario] = Row()
            for name, count in zip(COUNTS, counts, strict=True):
                setattr(row, name, int(count))
            for alarm, name, count in re.findall(r"(alarm: )?([\w-]+) \((\d+)\)", taken_for):
                (row.alarms if alarm else row.named)[name] += int(count)
    return rows


def count(row: Row, scenario: str, recording: Recording) -> None:
    """Diagnose a run and count what comes of it."""
    shown, cause = diagnose_run(recording, SHOWN.get(scenario, "observe")), CAUSE.get(scenario, scenario)
    names = [each.cause for each in shown.causes]
    row.runs += 1
    row.named[names[0] if names else shown.outcome.value] += 1
    row.first += names[:1] == [cause]
    row.among_three += cause in names[:3]
    row.placed += names[:1] == [cause] and _is_there(scenario, recording, shown)
    row.whole += [each.cause for each in diagnose_run(recording).causes][:1] == [cause]
    for phase in _quiet(recording):
        before = diagnose_run(recording, phase)
        faults = [each.cause for each in before.causes if each.fault]
        row.quiet += 1
        row.healthy += not faults and before.outcome is not DiagnosisOutcome.UNKNOWN
        row.alarms.update(
            faults[:1] or ([before.outcome.value] if before.outcome is DiagnosisOutcome.UNKNOWN else [])
        )


def _is_there(scenario: str, recording: Recording, shown: Diagnosis) -> bool:
    places = [part for line in recording.truth() for part in str(line.get("place", "")).split(",")]
    true = PLACES.get(scenario, places)
    return all(any(matches(place, each) for each in true) for place in shown.causes[0].places)


def _quiet(recording: Recording) -> Iterator[str]:
    """Phases in which nothing has been injected yet."""
    injected = min((int(line["ns"]) for line in recording.truth()), default=None)
    for phase in recording.phases:
        if phase.name in QUIET and (injected is None or phase.end <= injected):
            yield phase.name


def drawn(rows: dict[str, Row]) -> Iterator[str]:
    """The table, in Markdown."""
    yield f"| injected | {' | '.join(COUNTS.values())} | taken for |"
    yield "|---" * (len(COUNTS) + 2) + "|"
    for scenario, row in rows.items():
        wrong = [f"{name} ({count})" for name, count in row.named.items() if name != CAUSE.get(scenario, scenario)]
        wrong += [f"alarm: {name} ({count})" for name, count in row.alarms.items()]
        yield f"| {scenario} | {_counts([row])} | {', '.join(wrong)} |"
    yield f"| all | {_counts(rows.values())} | |"


def _counts(rows: Iterable[Row]) -> str:
    """The sums of what rows count."""
    every = list(rows)
    return " | ".join(str(sum(getattr(row, name) for row in every)) for name in COUNTS)


if __name__ == "__main__":
    main()
