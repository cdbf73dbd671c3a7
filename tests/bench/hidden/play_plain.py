"""Hidden faults without RDMA: on plain links, natively, found by the probes of ``diagnose --probe`` alone.

    python -m tests.private_machine python -m tests.bench.hidden.play_plain --runs N [--seed S] [--output DIR]

A run costs ten seconds where one in the VM costs minutes. It draws the grammar's rules whose actions need neither
RDMA nor emulated ports. Each run has a healthy window, and one with the fault. Pings that the diagnosis
does not see show which pairs can talk.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab.backends.lifecycle import open_fabric
from lab.cli.kit.output import stderr
from lab.cli.tables.verdict_table import fresh
from lab.errors import LabError
from lab.scenario.probes.nic_rings import nic_pairs
from lab.scenario.probes.probe_traffic import probing
from lab.scenario.stage import Stage
from lab.telemetry.record.recorder import Recorder
from tests.bench.hidden import play, score
from tests.bench.hidden.device_draws import another_address, carrier, mac, mtu, shared_address
from tests.bench.hidden.grammar import ground_of
from tests.bench.hidden.route_draws import ROUTE_DRAWS, UNDERLAY_DRAWS
from tests.bench.seed_results import SeedResults
from tests.fabric.command import TOPOLOGIES, rocelab

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.backends.backend import Fabric
    from tests.bench.hidden.hidden_fault import HiddenFault

FABRICS: Final = ("clos-2x4", "rails", "four-spines")
"""Two leaf-spine fabrics and a rail-optimised one: overlays need VRFs, or bridges that know VLANs."""
_DEVICES: Final = (mtu, mac, another_address, shared_address, carrier)
_WINDOW: Final = 0.5
"""Seconds after the probes."""
_AT_ONCE: Final = 8


def drawn_plain(seed: int) -> HiddenFault:
    """Return the fault of a seed: the same at every call."""
    chance, ground = random.Random(f"plain-{seed}"), ground_of(fabric_of(seed))
    more = UNDERLAY_DRAWS if ground.uplinks else ()
    return chance.choice((*ROUTE_DRAWS, *_DEVICES, *more))(ground, chance)


def fabric_of(seed: int) -> str:
    """Return the fabric of a seed: they take turns."""
    return FABRICS[seed % len(FABRICS)]


def main() -> int:
    """Play, and print the score; 1 when a run was not right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=len(FABRICS))
    parser.add_argument("--seed", type=int, default=1, help="of the first run; each has the next")
    parser.add_argument("--fabric", choices=FABRICS, help="only the seeds of this fabric")
    parser.add_argument("--output", type=Path, help="where recordings are kept")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rocelab-") as scratch:
        output = asked.output or Path(scratch)
        seeds = range(asked.seed, asked.seed + asked.runs)
        runs = play_plain([seed for seed in seeds if asked.fabric in {None, fabric_of(seed)}], output)
        found = score.scored(output, runs)
    score.show(found)
    return 0 if all(map(score.good, found)) else 1


def play_plain(seeds: Sequence[int], output: Path) -> list[dict[str, Any]]:
    """Play the seeds that have no result yet, one fabric after the other; return the results of all."""
    results = SeedResults(output, score.PLAIN)
    (output / "results").mkdir(parents=True, exist_ok=True)
    for fabric in FABRICS:
        mine = results.missing(seed for seed in seeds if fabric_of(seed) == fabric)
        if mine:
            with ExitStack() as built:
                _build(fabric)
                built.callback(rocelab, "down", "--fabric", fabric)
                results.play(mine, nullcontext, lambda seed: _played(output, seed))
    return results.of(seeds)


def _build(fabric: str) -> None:
    text = "\n".join(
        line for line in (TOPOLOGIES / f"{fabric}.yaml").read_text(encoding="utf-8").splitlines()
        if not line.startswith("qos:")
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="rocelab-") as folder:
        file = Path(folder) / f"{fabric}.yaml"
        file.write_text(text, encoding="utf-8")
        rocelab("up", file, "--no-rdma")


def _played(output: Path, seed: int) -> dict[str, Any]:
    """Play a run: a healthy window and one with the fault, each with probes of its own."""
    fault, name = drawn_plain(seed), fabric_of(seed)
    folder = fresh(output, f"plain-{seed:04}")
    stderr.print(f"seed {seed}, {name}: {fault}", markup=False, highlight=False, soft_wrap=True)
    told = {"seed": seed, "fabric": name, **fault.truth()}
    refused, silent = "", []
    with Recorder.begin(folder, open_fabric(name), parameters={"hidden": told}, audited=True) as recorder:
        stage = Stage(recorder.fabric, recorder, seed, lambda _: None)
        try:
            _probe(stage, "baseline")
            with ExitStack() as undone:
                for action in fault.actions:
                    undone.enter_context(play.done(stage, action))
                play.keep_settings(stage)
                _probe(stage, "observe")
                silent = silent_pairs(stage.fabric)
        except LabError as error:
            refused = str(error)
            stderr.print(f"  refused: {refused}", markup=False, highlight=False, soft_wrap=True)
        finally:
            stage.restore()
    if fault.needs_rebuild or not play.is_back(open_fabric(name), fault):
        rocelab("down", "--fabric", name)
        _build(name)
    return {**told, "recording": folder.name, "refused": refused, "silent": silent}


def _probe(stage: Stage, phase: str) -> None:
    with stage.phase(phase), probing(stage):
        stage.hold(_WINDOW)


def silent_pairs(fabric: Fabric) -> list[str]:
    """Return the directed pairs of NICs that should talk, and whose ping is not answered."""
    pairs = [each for pair in nic_pairs(fabric.topology) for each in permutations(pair)]
    with ThreadPoolExecutor(_AT_ONCE) as pinging:
        answered = list(pinging.map(lambda pair: play.answers(fabric, *pair), pairs))
    return ["->".join(pair) for pair, good in zip(pairs, answered, strict=True) if not good]


if __name__ == "__main__":
    sys.exit(main())
