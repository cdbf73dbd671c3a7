"""Runs in which nothing is broken: no check of any scenario fails on one, and no diagnosis names a fault.

    ./scripts/catalogue --healthy N [--vms N]          as many as that, on VMs side by side
    python3 -m tests.bench.catalogue_parts.healthy --runs N   the same in one VM: where there is RDMA, in virtual time

The seven sorts of ``tests.bench.catalogue_parts.sorts`` come in turn, an incast within design among them. The seed
draws what each does. They have the phase of a scenario before its fault, or the phases of the scenario incast. They
have no phase with a fault: a check that needs one must give the verdict unknown.

With ``--record-only``, runs are not judged: they are for the alert rules, which must stay silent. There are four more
sorts, ``--fabric`` names another topology than ``incast``, and ``--plain`` leaves out RDMA.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab.backends.lifecycle import open_fabric
from lab.cli.kit.output import stderr, stdout, table
from lab.cli.tables.verdict_table import fresh
from lab.diagnose.diagnosis import DiagnosisOutcome as Found
from lab.diagnose.run import diagnose_run
from lab.scenario import library
from lab.scenario.judge import verdicts
from lab.scenario.stage import Stage
from lab.scenario.verdict import VerdictOutcome
from lab.telemetry.read.recording import Recording
from lab.telemetry.record.recorder import Recorder
from tests.bench.catalogue_parts.sorts import MORE_SORTS, SORTS, WITHOUT_RDMA
from tests.bench.seed_results import SeedResults
from tests.fabric.command import TOPOLOGIES, rocelab

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FABRIC: Final = "incast"
_NAMES: Final = tuple(SORTS)


@dataclass(frozen=True)
class Healthy:
    """The verdicts on a run."""

    recording: str
    kind: str
    seed: int
    did: str
    checks: dict[str, int]
    """How many checks said pass, fail and unknown."""
    failed: list[str]
    """Those that fail, with their evidence."""
    diagnosis: str
    """Its outcome, and the causes that it names."""
    faults: list[str]
    """Causes that are faults."""


def main() -> int:
    """Play and print; 1 when anything was said to be wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=len(SORTS))
    parser.add_argument("--seed", type=int, default=1, help="of the first run; each has the next")
    parser.add_argument("--record-only", action="store_true", help="do not judge the runs")
    parser.add_argument("--fabric", default=FABRIC, help="the topology, by its name in topologies/")
    parser.add_argument("--plain", action="store_true", help="only sorts without RDMA")
    parser.add_argument("--output", type=Path, help="where recordings are kept")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    seeds = range(asked.seed, asked.seed + asked.runs)
    if asked.record_only:
        if asked.output is None:
            parser.error("--record-only needs --output")
        record(seeds, asked.output, asked.fabric, plain=asked.plain)
        return 0
    if asked.plain or asked.fabric != FABRIC:
        parser.error("--plain and --fabric need --record-only")
    with tempfile.TemporaryDirectory(prefix="rocelab-") as scratch:
        told = play(seeds, asked.output or Path(scratch))
    if asked.json:
        print(json.dumps(told))
    else:
        show(told)
    return 0 if all(map(good, told)) else 1


def good(told: Mapping[str, Any]) -> bool:
    """Whether nothing is said to be wrong with a run."""
    return not told["failed"] and not told["faults"]


def play(seeds: Sequence[int], output: Path) -> list[dict[str, Any]]:
    """A run for each seed that has no result yet, on one fabric; the results of all."""
    return SeedResults(output, "healthy").play(seeds, _running, lambda seed: asdict(_told(seed, output)))


def record(seeds: Sequence[int], output: Path, fabric: str, *, plain: bool) -> None:
    """Record a run for each seed on a fabric."""
    sorts = WITHOUT_RDMA if plain else tuple(MORE_SORTS)
    with _running(fabric, *(["--no-rdma"] if plain else [])):
        for seed in seeds:
            _recorded(seed, output, fabric, sorts[seed % len(sorts)])


@contextlib.contextmanager
def _running(fabric: str = FABRIC, *options: str) -> Iterator[None]:
    rocelab("up", TOPOLOGIES / f"{fabric}.yaml", *options)
    try:
        yield
    finally:
        rocelab("down", "--fabric", fabric)


def show(told: Sequence[Mapping[str, Any]]) -> None:
    """A table, and what went wrong below it."""
    rows = [
        (
            run["seed"],
            run["kind"],
            run["did"],
            *(run["checks"][outcome.value] for outcome in VerdictOutcome),
            run["diagnosis"],
        )
        for run in told
    ]
    stdout.print(
        table("healthy runs", ("seed", "kind", "what was done", "pass", "fail", "unknown", "diagnosed"), rows)
    )
    for run in told:
        for line in (*run["failed"], *run["faults"]):
            stdout.print(f"{run['recording']}: {line}", markup=False, highlight=False)
    stdout.print(
        f"{sum(map(good, told))} of {len(told)} healthy runs fail no check and have no fault", highlight=False
    )


def _told(seed: int, output: Path) -> Healthy:
    kind = _NAMES[seed % len(_NAMES)]
    folder, did = _recorded(seed, output, FABRIC, kind)
    return judged(Recording.open(folder), kind, seed, did)


def _recorded(seed: int, output: Path, fabric: str, kind: str) -> tuple[Path, str]:
    """Return the recording of a run, and what it did."""
    folder = fresh(output, f"healthy-{kind}")
    with Recorder.begin(folder, open_fabric(fabric), parameters={"healthy": kind, "seed": seed}) as recorder:
        did = MORE_SORTS[kind](Stage(recorder.fabric, recorder, seed, lambda _: None), random.Random(seed))
    stderr.print(f"{kind}, seed {seed}: {did}", markup=False, highlight=False)
    return folder, did


def judged(recording: Recording, kind: str, seed: int, did: str) -> Healthy:
    """Return the verdicts of all checks and of the diagnosis on a recording."""
    counts, failed = dict.fromkeys((outcome.value for outcome in VerdictOutcome), 0), []
    for name in library.names():
        scenario = library.find(name)
        for check, verdict in verdicts(scenario, recording, scenario.parameters()).items():
            counts[verdict.outcome.value] += 1
            if verdict.outcome is VerdictOutcome.FAIL:
                failed.append(f"{name}, {check}: {verdict.evidence}")
    diagnosis = diagnose_run(recording)
    named = [each.cause for each in diagnosis.causes]
    faults = [each.cause for each in diagnosis.causes if each.fault]
    if diagnosis.outcome in {Found.FAULT, Found.UNKNOWN}:
        faults = faults or [diagnosis.outcome.value]
    return Healthy(
        str(recording.folder.path),
        kind,
        seed,
        did,
        counts,
        failed,
        ": ".join([diagnosis.outcome.value, *named[:1]]),
        faults,
    )


if __name__ == "__main__":
    sys.exit(main())
