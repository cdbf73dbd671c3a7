"""Faults outside the catalogue, made on running fabrics and recorded: a run for each seed, which resumes.

    ./scripts/catalogue --hidden N [--vms N] [--seed S]    as many as that, on VMs side by side, with their score
    python3 -m tests.bench.hidden.play --runs N            the same in one VM: with RDMA, in virtual time

The recording's parameters hold the ground truth, which ``tests.bench.hidden.score`` reads, and ``diagnose`` does not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab.audit.baseline import load_baseline
from lab.audit.difference import compare
from lab.audit.reader import audit
from lab.backends.lifecycle import open_fabric
from lab.cli.kit.output import stderr
from lab.cli.tables.verdict_table import fresh
from lab.errors import LabError, OperationFailed
from lab.model.hosts import address_of, parse_pair
from lab.scenario.stage import Stage
from lab.scenario.traffic.workload import RESENT
from lab.telemetry.record.audit_record import audit_record
from lab.telemetry.record.recorder import Recorder
from lab.telemetry.store.recording_folder import RecordKind
from tests.bench.hidden import score
from tests.bench.hidden.grammar import FABRICS, drawn, fabric_of, topology_text
from tests.bench.hidden.hidden_fault import Command, CraftedFrames, Harm, Injected
from tests.bench.hidden.struck import struck_packets
from tests.bench.seed_results import SeedResults
from tests.fabric.command import argv, rocelab

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lab.backends.backend import Fabric
    from lab.faults.ledger import Entry
    from tests.bench.hidden.hidden_fault import Action, HiddenFault

_BACK: Final = 20.0
"""Seconds after the undo until the fabric is as planned and every pair answers; else it is built again."""
_AGAIN: Final = 1.0
"""Seconds between two readings of all settings."""
_SHOWN: Final = 5
"""The maximum number of settings that are printed if an undo left them different."""


def main() -> int:
    """Play, and print what the diagnosis makes of it; 1 when a run was not right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=len(FABRICS))
    parser.add_argument("--seed", type=int, default=1, help="of the first run; each has the next")
    parser.add_argument("--fabric", choices=FABRICS, help="only the seeds of this fabric")
    parser.add_argument("--output", type=Path, help="where recordings are kept")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rocelab-") as scratch:
        output = asked.output or Path(scratch)
        seeds = range(asked.seed, asked.seed + asked.runs)
        runs = play([seed for seed in seeds if asked.fabric in {None, fabric_of(seed)}], output)
        told = [score.as_data(each) for each in score.scored(output, runs)]
    if asked.json:
        print(json.dumps(told))
    else:
        show(told)
    return 0 if all(map(good, told)) else 1


def good(told: Mapping[str, Any]) -> bool:
    """Whether the diagnosis of a run is right: see ``score.good``."""
    return score.good(score.from_data(told))


def show(told: Sequence[Mapping[str, Any]]) -> None:
    """Print the runs and their score."""
    score.show([score.from_data(each) for each in told])


def play(seeds: Sequence[int], output: Path) -> list[dict[str, Any]]:
    """Play the seeds that have no recording yet, one fabric after the other; return where all of them are."""
    results = SeedResults(output, score.KIND)
    for fabric in FABRICS:
        mine = [seed for seed in seeds if fabric_of(seed) == fabric]
        results.play(mine, partial(_built, fabric), partial(_played, output))
    return results.of(seeds)


@contextlib.contextmanager
def _built(fabric: str) -> Iterator[None]:
    _build(fabric)
    try:
        yield
    finally:
        rocelab("down", "--fabric", fabric)


def _build(fabric: str) -> None:
    with tempfile.TemporaryDirectory(prefix="rocelab-") as folder:
        file = Path(folder) / f"{fabric}.yaml"
        file.write_text(topology_text(fabric), encoding="utf-8")
        rocelab("up", file)


def _played(output: Path, seed: int) -> dict[str, Any]:
    """Play a run. Its result has the recording, or why the fault was refused."""
    fault, name = drawn(seed), fabric_of(seed)
    folder = fresh(output, f"hidden-{seed:04}")
    stderr.print(f"seed {seed}, {name}: {fault}", markup=False, highlight=False, soft_wrap=True)
    told = {"seed": seed, "fabric": name, **fault.truth()}
    refused, struck = "", None
    with Recorder.begin(folder, open_fabric(name), parameters={"hidden": told}) as recorder:
        stage = Stage(recorder.fabric, recorder, seed, lambda _: None)
        try:
            struck = _drive(stage, fault, random.Random(-seed))
        except LabError as error:
            refused = str(error)
            stderr.print(f"  refused: {refused}", markup=False, highlight=False, soft_wrap=True)
        finally:
            stage.restore()
    if fault.needs_rebuild or not is_back(open_fabric(name), fault):
        rocelab("down", "--fabric", name)
        _build(name)
    if struck == 0:
        told["harm"] = Harm.NOTHING.value
    return {**told, "recording": folder.name, "refused": refused, "struck": struck}


def _drive(stage: Stage, fault: HiddenFault, chance: random.Random) -> int | None:
    """Transfer, break, transfer; how long each takes is drawn, too.

    Return the packets that disturbances met; None if the fault is none, or not only that.
    """
    keep_settings(stage)
    with contextlib.ExitStack() as undone, stage.writing(*fault.pairs, qps=fault.qps):
        with stage.phase("baseline"):
            stage.hold(chance.uniform(1.5, 2.5))
        with stage.phase("inject"):
            entries = [undone.enter_context(done(stage, action)) for action in fault.actions]
            stage.hold(RESENT)
            keep_settings(stage)
        with stage.phase("observe"):
            stage.hold(chance.uniform(2.5, 4))
        counts = [struck_packets(stage.fabric, entry) if entry else None for entry in entries]
        undone.close()
    known = [each for each in counts if each is not None]
    return sum(known) if len(known) == len(counts) else None


def keep_settings(stage: Stage) -> None:
    """Record the settings of all nodes, as ``rocelab diagnose --settings`` reads them."""
    stage.recorder.record(RecordKind.AUDIT, **audit_record(stage.fabric)[1])


@contextlib.contextmanager
def done(stage: Stage, action: Action) -> Iterator[Entry | None]:
    """Apply an action for a block, and yield the fault if it is one of rocelab's.

    Commands are not recorded: a diagnosis would read them.
    """
    if isinstance(action, Injected):
        entry = stage.inject(action.kind, action.place, **action.parameters)
        yield entry
        stage.heal(entry)
    elif isinstance(action, CraftedFrames):
        words = argv("craft", *action.words, "--fabric", stage.fabric.name)
        silent = subprocess.DEVNULL
        with subprocess.Popen(words, stdin=silent, stdout=silent, stderr=silent) as sender:
            try:
                yield None
                if sender.poll() is not None:
                    raise OperationFailed(f"{action} ended with exit code {sender.returncode}", "run it by hand")
            finally:
                sender.terminate()
    else:
        yield from _run(stage.fabric, action)


def _run(fabric: Fabric, command: Command) -> Iterator[Entry | None]:
    namespace = fabric.namespace(command.node)
    namespace.run(command.argv, timeout=30)
    try:
        yield None
    finally:
        if command.undo:
            namespace.run(command.undo, timeout=30)


def is_back(fabric: Fabric, fault: HiddenFault) -> bool:
    """Return whether the pairs of a run answer pings, and all settings are as planned, soon.

    The next run would otherwise be judged by a fault that is not its own.
    """
    deadline = time.monotonic() + _BACK
    waiting = [parse_pair(pair) for pair in fault.pairs]
    while waiting and time.monotonic() < deadline:
        waiting = [pair for pair in waiting if not answers(fabric, *pair)]
    if waiting:
        return False
    plan = load_baseline(fabric)
    while left := compare(audit(fabric), plan):
        if time.monotonic() >= deadline:
            for each in left[:_SHOWN]:
                line = f"  left behind: {each.node} {each.object} {each.field}: {each.value} and not {each.expected}"
                stderr.print(line, markup=False, highlight=False, soft_wrap=True)
            return False
        time.sleep(_AGAIN)
    return True


def answers(fabric: Fabric, src: str, dst: str) -> bool:
    source, target = (str(address_of(fabric.plan, end)) for end in (src, dst))
    words = ("ping", "-n", "-q", "-c", "1", "-W", "1", "-I", source, target)
    return fabric.namespace(src.partition(":")[0]).run(words, timeout=10, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
