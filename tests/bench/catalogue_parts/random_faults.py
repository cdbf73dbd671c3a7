"""Faults at another place, rate, size and time than the scenarios use: what the diagnosis makes of them.

    ./scripts/catalogue --random N [--vms N]               as many as that, on VMs side by side
    python3 -m tests.bench.catalogue_parts.random_faults --runs N   the same in one VM: with RDMA, in virtual time

Causes come in turn, all else is drawn by the seed. Only this module knows the injected fault; the diagnosis reads
the recording.
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
from lab.diagnose.diagnosis import DiagnosisOutcome
from lab.diagnose.run import diagnose_run
from lab.diagnose.symptom import matches
from lab.model.hosts import parse_pair
from lab.scenario.stage import Stage
from lab.scenario.traffic.workload import RESENT, circulating, probe
from lab.telemetry.read.recording import Recording
from lab.telemetry.record.recorder import Recorder
from tests.bench.catalogue_parts.draws import CAUSES, Drawn, drawn
from tests.bench.seed_results import SeedResults
from tests.fabric.command import TOPOLOGIES, rocelab

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FABRIC: Final = "incast"
_SMALL, _LARGE = 1000, 8000
"""Octets of a ping that each link takes, and of one that a narrow link does not."""


@dataclass(frozen=True)
class Judged:
    """The diagnosis of a run."""

    recording: str
    seed: int
    cause: str
    did: str
    named: list[str]
    """The causes that the diagnosis names, the most likely first, or its outcome where it names none."""
    first: bool
    placed: bool
    """Whether the first is right, and its places are, too."""
    among_three: bool
    alarm: str
    """The fault that was reported before there was one; "" without."""


def main() -> int:
    """Play and print; 1 when a cause was not named first, or was named before it was there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=len(CAUSES))
    parser.add_argument("--seed", type=int, default=1, help="of the first run; each has the next")
    parser.add_argument("--output", type=Path, help="where recordings are kept")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rocelab-") as scratch:
        told = play(range(asked.seed, asked.seed + asked.runs), asked.output or Path(scratch))
    if asked.json:
        print(json.dumps(told))
    else:
        show(told)
    return 0 if all(map(good, told)) else 1


def good(told: Mapping[str, Any]) -> bool:
    """Whether the right cause was named first, at its place, and nothing before it was there."""
    return bool(told["placed"]) and not told["alarm"]


def play(seeds: Sequence[int], output: Path) -> list[dict[str, Any]]:
    """A run for each seed that has no result yet, on one fabric; the results of all."""
    return SeedResults(output, "random").play(seeds, _running, lambda seed: asdict(_told(seed, output)))


@contextlib.contextmanager
def _running() -> Iterator[None]:
    rocelab("up", TOPOLOGIES / f"{FABRIC}.yaml")
    try:
        yield
    finally:
        rocelab("down", "--fabric", FABRIC)


def show(told: Sequence[Mapping[str, Any]]) -> None:
    """A table, and the sums below it."""
    rows = [
        (
            run["seed"],
            run["cause"],
            run["did"],
            ", ".join(run["named"][:3]),
            "yes" if run["placed"] else "no",
            run["alarm"],
        )
        for run in told
    ]
    stdout.print(
        table("random faults", ("seed", "cause", "what was done", "named", "right, and there", "alarm"), rows)
    )
    for what, name in (
        ("first", "named first"),
        ("placed", "and its place"),
        ("among_three", "among the first three"),
    ):
        stdout.print(f"{sum(run[what] for run in told)} of {len(told)} {name}", highlight=False)
    stdout.print(f"{sum(not run['alarm'] for run in told)} of {len(told)} without an alarm before", highlight=False)


def _told(seed: int, output: Path) -> Judged:
    fault = drawn(CAUSES[seed % len(CAUSES)], random.Random(seed))
    folder = fresh(output, f"random-{fault.cause}")
    with Recorder.begin(folder, open_fabric(FABRIC), parameters={"random": fault.cause, "seed": seed}) as recorder:
        stage = Stage(recorder.fabric, recorder, seed, lambda _: None)
        try:
            _drive(stage, fault, random.Random(-seed))
        finally:
            stage.restore()
    told = judged(Recording.open(folder), seed, fault)
    stderr.print(f"seed {seed}: {fault.cause}, named {', '.join(told.named)}", markup=False, highlight=False)
    return told


def judged(recording: Recording, seed: int, fault: Drawn) -> Judged:
    """Diagnose a recording, and compare the answer with the fault."""
    shown, before = diagnose_run(recording, "observe"), diagnose_run(recording, "baseline")
    named = [each.cause for each in shown.causes]
    first = named[:1] == [fault.cause]
    there = first and all(any(matches(place, each) for each in fault.where) for place in shown.causes[0].places)
    alarms = [each.cause for each in before.causes if each.fault]
    unknown = [before.outcome.value] if before.outcome is DiagnosisOutcome.UNKNOWN else []
    return Judged(
        str(recording.folder.path), seed, fault.cause, str(fault), named or [shown.outcome.value], first, there,
        fault.cause in named[:3], ", ".join(alarms or unknown),
    )  # fmt: skip


def _drive(stage: Stage, fault: Drawn, chance: random.Random) -> None:
    """Work, break, work; how long each takes is drawn, too."""
    for ports, setting in fault.settings:
        stage.set(ports, setting)
    busy = (
        circulating(stage, *fault.pairs, packets=fault.standing)
        if fault.standing
        else stage.writing(*fault.pairs, qps=fault.qps)
    )
    with busy:
        with stage.phase("baseline"):
            stage.hold(chance.uniform(1.5, 3))
            _probe(stage, fault)
        with stage.phase("inject"):
            entries = [] if fault.flaps else [stage.inject(kind, place, **p) for kind, place, p in fault.faults]
            stage.hold(RESENT)
        with stage.phase("observe"):
            if fault.flaps:
                _flap(stage, fault, chance)
            stage.hold(chance.uniform(2, 4))
            _probe(stage, fault)
        for entry in entries:
            stage.heal(entry)


def _flap(stage: Stage, fault: Drawn, chance: random.Random) -> None:
    for kind, place, parameters in fault.faults:
        for _ in range(chance.choice((1, 2, 3))):
            entry = stage.inject(kind, place, **parameters)
            stage.hold(chance.uniform(1, 2))
            stage.heal(entry)
            stage.hold(RESENT)


def _probe(stage: Stage, fault: Drawn) -> None:
    src, _ = parse_pair(fault.pairs[0])
    for host in fault.probed:
        for size in (_SMALL, _LARGE):
            probe(stage, src, host, size=size)


if __name__ == "__main__":
    sys.exit(main())
