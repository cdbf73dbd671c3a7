"""The score of a diagnosis on faults outside the catalogue, as tables for the documentation.

    python -m tests.bench.hidden.score FOLDER... [--into lab/docs/diagnose.md]

A folder is the output of ``./scripts/catalogue --hidden``, or of ``play_plain``. Its recordings are diagnosed again,
with the current rules. Ground truth is read here and nowhere else.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab.cli.kit.output import stdout, table
from lab.diagnose.causes.setting_kinds import kind_of
from lab.diagnose.diagnosis import DiagnosisOutcome
from lab.diagnose.run import diagnose_run
from lab.telemetry.read.recording import Recording
from tests.bench.hidden.families import FAMILY_OF
from tests.bench.hidden.hidden_fault import Harm
from tests.bench.seed_results import SeedResults

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lab.diagnose.diagnosis import Diagnosis

KIND: Final = "hidden"
PLAIN: Final = "plain"
"""The results of ``play_plain``."""
HEADING: Final = "## Faults outside the catalogue: score"
_SURE: Final = 0.8
"""A wrong answer must not have a higher confidence."""
_RESENT: Final = ("out_of_seq_request", "completer_retry_err", "rcvd_seq_err", "retry_exceeded_err")
"""Counters of an RDMA device that grow when packets are lost, reordered or late."""
_FINE: Final = frozenset(
    each.value for each in (DiagnosisOutcome.HEALTHY, DiagnosisOutcome.CAPACITY, DiagnosisOutcome.UNCHECKED)
)
COLUMNS: Final = {
    "runs": "runs", "exact": "place exact", "family": "cause or family first", "unknown": "unknown",
    "false_healthy": "false healthy", "sure": "wrong above 0.8", "alarm": "alarm before",
}  # fmt: skip


@dataclass(frozen=True)
class HiddenScore:
    """The diagnosis of a run, compared with its fault."""

    seed: int
    fabric: str
    production: str
    harm: str
    did: str
    answer: str
    """The first cause, or the outcome."""
    places: list[str]
    confidence: float
    exact: bool
    """Whether the answer names the place of the fault, and no other place."""
    family: bool
    """Whether the first cause is of the fault's family, or a setting of it is listed with "no effect seen".

    For a fault that harms nothing, no cause is right as well.
    """
    unknown: bool
    false_healthy: bool
    """Whether no fault is seen (or capacity) although packets were sent again, a transfer failed or a ping."""
    sure: bool
    """Whether the first cause is wrong, with a confidence above 0.8."""
    alarm: bool
    """Whether anything was said to be wrong before the fault."""


def as_data(score: HiddenScore) -> dict[str, Any]:
    """Return a score as plain data."""
    return asdict(score)


def from_data(told: Mapping[str, Any]) -> HiddenScore:
    """Return the score that ``as_data`` made plain."""
    return HiddenScore(**told)


def good(score: HiddenScore) -> bool:
    """Whether place and family are right, and nothing was said to be wrong before."""
    return score.exact and score.family and not score.alarm


def scored(output: Path, runs: Iterable[Mapping[str, Any]]) -> list[HiddenScore]:
    """Return the scores of runs, without those whose fault was refused."""
    return [judged(Recording.open(output / run["recording"]), run) for run in runs if not run["refused"]]


def judged(recording: Recording, truth: Mapping[str, Any]) -> HiddenScore:
    """Return how right the diagnosis of a recording is."""
    shown, before = (diagnose_run(recording, phase, plan=False) for phase in ("observe", "baseline"))
    first = shown.causes[0] if shown.causes else None
    harmless = truth["harm"] == Harm.NOTHING
    fine = shown.outcome.value in _FINE
    listed = [kind for each in shown.differing if (kind := kind_of(each))] if first is None else []
    named = [first.cause] if first else [each.cause for each in listed]
    family = any(FAMILY_OF.get(each) in truth["families"] for each in named)
    places = answered_places(shown)
    exact = bool(places) and all(is_exact(place, truth["places"]) for place in places)
    return HiddenScore(
        seed=truth["seed"], fabric=truth["fabric"], production=truth["production"], harm=truth["harm"],
        did=truth["did"], answer=" ".join([*([] if first else [shown.outcome.value]), *dict.fromkeys(named)]),
        places=list(places),
        confidence=first.confidence if first else 0.0, exact=exact or (harmless and fine),
        family=family or (harmless and fine), unknown=shown.outcome is DiagnosisOutcome.UNKNOWN,
        false_healthy=fine and (lost_packets(recording, "observe") or bool(truth.get("silent"))),
        sure=first is not None and first.fault and not family and first.confidence > _SURE,
        alarm=any(each.fault for each in before.causes) or before.outcome is DiagnosisOutcome.UNKNOWN,
    )  # fmt: skip


def answered_places(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Return the places of the first fault, or else the place with the most affected packets.

    Without a fault, they are those of the settings that differ, with "no effect seen". Empty without any.
    """
    faults = [each for each in diagnosis.causes if each.fault]
    if faults:
        return faults[0].places
    if diagnosis.outcome is DiagnosisOutcome.UNKNOWN and diagnosis.located:
        return tuple(each.place for each in diagnosis.located[:1])
    return tuple(dict.fromkeys(
        f"{each.node}:{each.interface}" if each.interface else each.node for each in diagnosis.differing
    ))  # fmt: skip


def is_exact(place: str, truth: Iterable[str]) -> bool:
    """Whether an answered place is one of the right ones.

    The two ends of a link name it in either order, and each end names it alone. A node stands for a port of it, and
    the other way round.
    """
    return any(_same(place, each) for each in truth)


def _same(place: str, other: str) -> bool:
    ends, others = set(place.split("--")), set(other.split("--"))
    if len(ends) == len(others) == 1:
        (one,), (another,) = ends, others
        return one == another or one.partition(":")[0] == another or another.partition(":")[0] == one
    if len(ends) == len(others):
        return ends == others or {each.partition(":")[0] for each in ends} == others
    return ends < others


def lost_packets(recording: Recording, phase: str) -> bool:
    """Whether RDMA devices sent packets again in a phase, or a transfer failed: read apart from the diagnosis.

    The transfers last as long as the recording, and failures are noted when they end.
    """
    during = recording.phase(phase)
    notes = recording.events(source="caller", kind="note")
    if any(note.ns >= during.start and note.data.get("text") == "gave up" for note in notes):
        return True
    known = [recording.rdma(device) for device in recording.devices]
    return any(
        each.counter(name).during(during).delta() for each in known for name in _RESENT if name in each.counters
    )


def show(scores: Sequence[HiddenScore]) -> None:
    """Print each run, and the sums."""
    rows = [
        (
            each.seed,
            each.fabric,
            each.did,
            each.answer,
            ", ".join(each.places),
            round(each.confidence, 2),
            _marks(each),
        )
        for each in scores
    ]
    names = ("seed", "fabric", "what was done", "answer", "at", "sure", "judged")
    stdout.print(table("faults outside the catalogue", names, rows))
    for line in drawn(scores):
        stdout.print(line, markup=False, highlight=False, soft_wrap=True)


def _marks(score: HiddenScore) -> str:
    marks = ("exact", "family", "false_healthy", "sure", "alarm")
    return ", ".join(COLUMNS[name] for name in marks if getattr(score, name))


def drawn(scores: Sequence[HiddenScore]) -> Iterator[str]:
    """Yield the table in Markdown: a row for each rule of the grammar, for each fabric, and for all."""
    groups: dict[str, list[HiddenScore]] = defaultdict(list)
    for each in sorted(scores, key=lambda each: each.production):
        groups[each.production].append(each)
    for each in sorted(scores, key=lambda each: each.fabric):
        groups[f"all on {each.fabric}"].append(each)
    groups["all"] = list(scores)
    yield f"| fault | {' | '.join(COLUMNS.values())} |"
    yield "|---" * (len(COLUMNS) + 1) + "|"
    for name, group in groups.items():
        counts = [len(group), *(sum(getattr(each, column) for each in group) for column in list(COLUMNS)[1:])]
        yield f"| {name} | {' | '.join(map(str, counts))} |"


def written(page: str, scores: Sequence[HiddenScore]) -> str:
    """Return a page with the table in place of the one below its heading."""
    before, _, after = page.partition(HEADING)
    rest = after.partition("\n## ")[2]
    text = "\n".join(drawn(scores))
    return f"{before}{HEADING}\n\n{text}\n" + (f"\n## {rest}" if rest else "")


def write_score(folder: Path, page: Path) -> None:
    """Diagnose all recordings of a folder, and write their score into a page."""
    write_page(page, scored(folder, SeedResults(folder, KIND).all()))


def write_page(page: Path, scores: Sequence[HiddenScore]) -> None:
    """Write a score into a page."""
    page.write_text(written(page.read_text(encoding="utf-8"), scores), encoding="utf-8")


def main() -> None:
    """Diagnose the recordings again and print the score, or put it into a page as well."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folders", nargs="+", type=Path)
    options.add_argument("--into", type=Path)
    asked = options.parse_args()
    scores = [
        each
        for folder in asked.folders
        for kind in (KIND, PLAIN)
        for each in scored(folder, SeedResults(folder, kind).all())
    ]
    show(scores)
    if asked.into is not None:
        write_page(asked.into, scores)


if __name__ == "__main__":
    main()
