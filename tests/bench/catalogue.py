"""Every scenario, several seeds each, on VMs in virtual time side by side; which check failed, and how it stood.

    ./scripts/catalogue [--seeds N] [--vms N] [--output DIR] [--json] [SCENARIO]...
    ./scripts/catalogue --healthy N [--seed S]    in place of that: runs that nobody breaks, judged by all checks
    ./scripts/catalogue --kills N [--seed S]      in place of that: runs of which a process is killed
    ./scripts/catalogue --random N [--seed S]     in place of that: causes at random places, diagnosed
    ./scripts/catalogue --hidden N [--seed S]     in place of that: faults outside the catalogue, diagnosed
    ./scripts/catalogue --reliability             plays nothing: how often answers of a confidence are right
    ./scripts/catalogue --alerts                  plays nothing: how good the alert rules are

--healthy, --kills, --random and --hidden combine: each that is given is played, one after the other. A VM takes all
scenarios of one topology, so that its fabric stays warm. The recordings stay below the output folder, with the result
of each seed: an interrupted series of runs resumes there.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab.cli.kit.output import stderr, stdout, table
from lab.scenario import library
from tests.bench import shares
from tests.bench.catalogue_parts import alert_proof, healthy, random_faults, reliability, run_kills
from tests.bench.hidden import play as hidden
from tests.bench.hidden.score import write_score
from tests.bench.shares import ROOT, rocelab

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import ModuleType

_INTERRUPTED: Final = 130
_SHOWN: Final = 5
"""Lines of what a run said that came to no verdict."""
_OTHERS: Final[dict[str, ModuleType]] = {
    "healthy": healthy, "kills": run_kills, "random": random_faults, "hidden": hidden,
}  # fmt: skip
"""The module of each kind of run other than scenarios, by the name of its option."""


@dataclass(frozen=True)
class Played:
    """The results of a scenario's runs."""

    scenario: str
    asked: int
    """Runs."""
    runs: Sequence[dict[str, Any]]
    """The runs that were judged, as ``rocelab scenario run --json`` prints them."""
    said: str = ""
    """The last words where there are fewer."""

    @property
    def passed(self) -> int:
        """How many passed."""
        return sum(run["outcome"] == "pass" for run in self.runs)

    @property
    def good(self) -> bool:
        """Whether all did."""
        return self.passed == self.asked > 0

    def checks(self) -> Iterable[tuple[str, int, list[str]]]:
        """Yield each check's name, the number of passes and the evidence, beginning with that of failures."""
        found = defaultdict(list)
        for run in self.runs:
            for check in run["checks"]:
                found[check["name"]].append((check["outcome"] == "pass", check["evidence"]))
        for name, verdicts in found.items():
            yield (
                name,
                sum(good for good, _ in verdicts),
                [told for _, told in sorted(verdicts, key=lambda each: each[0])],
            )


class Player(threading.Thread):
    """One VM, and the topologies whose scenarios it plays."""

    def __init__(
        self, number: int, asked: argparse.Namespace, work: queue.SimpleQueue[list[str]],
        played: queue.SimpleQueue[Played],
    ) -> None:  # fmt: skip
        super().__init__(name=f"play{number}", daemon=True)
        self._asked, self._work, self._played = asked, work, played
        self._ending = threading.Event()

    def run(self) -> None:
        """Play until there is nothing to play."""
        up = self._rocelab("vm", "up", "--name", self.name, "--time", "virtual")
        with suppress(queue.Empty):
            while not self._ending.is_set():
                for name in self._work.get_nowait():
                    self._played.put(self._play(name) if not up.returncode else Played(name, 1, (), up.stderr))
                self._in_vm("down", "--all")

    def end(self) -> None:
        """Take the VM down, which ends what is played in it; nothing is begun after that, and no VM for it."""
        self._ending.set()
        rocelab("vm", "down", "--name", self.name)

    def _play(self, name: str) -> Played:
        seeds, folder = self._asked.seeds, self._asked.output / name
        done = self._in_vm(
            "scenario", "run", name, "--keep", "--repeat", str(seeds), "--json", "--output", str(folder)
        )
        return answered(name, seeds, done)

    def _in_vm(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self._rocelab("vm", "run", "--name", self.name, "--", "rocelab", *words)

    def _rocelab(self, *words: str) -> subprocess.CompletedProcess[str]:
        if self._ending.is_set():
            return subprocess.CompletedProcess(words, _INTERRUPTED, "", "interrupted")
        return rocelab(*words)


def answered(name: str, asked: int, done: subprocess.CompletedProcess[str]) -> Played:
    """The answer of ``rocelab scenario run --json``: its runs, or why one of them has no verdict."""
    try:
        runs = json.loads(done.stdout)
    except ValueError:
        runs = None
    if isinstance(runs, list):
        return Played(name, asked, runs)
    return Played(name, asked, (), "\n".join(done.stderr.splitlines()[-_SHOWN:]))


def by_topology(names: Iterable[str]) -> list[list[str]]:
    """The scenarios that share a fabric together, the most first."""
    found = defaultdict(list)
    for name in names:
        found[library.topology_of(library.find(name))].append(name)
    return sorted(found.values(), key=len, reverse=True)


def halved(groups: list[list[str]], vms: int) -> list[list[str]]:
    """No group with more than its share of the scenarios: a second fabric costs less than a VM that stands idle."""
    share = -(-sum(map(len, groups)) // vms)
    return [group[start : start + share] for group in groups for start in range(0, len(group), share)]


def play(asked: argparse.Namespace) -> list[Played]:
    """Play all requested scenarios, and report each as it ends."""
    work: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
    played: queue.SimpleQueue[Played] = queue.SimpleQueue()
    for group in halved(by_topology(asked.names), asked.vms):
        work.put(group)
    players = [Player(number, asked, work, played) for number in range(asked.vms)]
    try:
        for player in players:
            player.start()
        return [told(played.get()) for _ in asked.names]
    finally:
        for player in players:
            player.end()


def told(played: Played) -> Played:
    """Say how a scenario went."""
    stderr.print(f"{played.scenario}: {played.passed} of {played.asked} passed", highlight=False)
    for name, passed, evidence in played.checks():
        if passed < len(played.runs):
            stderr.print(f"  {name}: {evidence[0]}", markup=False, highlight=False)
    if played.said:
        stderr.print(played.said, markup=False, highlight=False)
    return played


def show(results: Sequence[Played]) -> None:
    """Every check, how often it passed, and what it saw: of a run that it failed, else of the first."""
    rows = [
        (each.scenario, name, f"{passed} of {each.asked}", evidence[0])
        for each in results
        for name, passed, evidence in each.checks()
    ]
    stdout.print(table("catalogue", ("scenario", "check", "passed", "evidence"), rows))
    stdout.print(f"{sum(each.good for each in results)} of {len(results)} scenarios passed every time")


def others(asked: argparse.Namespace) -> int:
    """Play each requested kind of run; return the exit code as ``main`` does."""
    told: dict[str, list[dict[str, Any]]] = {}
    fine = True
    for kind, module in _OTHERS.items():
        count = getattr(asked, kind)
        runs = _shared_out(asked, module, count) if count else []
        fine = fine and runs is not None and all(map(module.good, runs))
        if runs:
            told[kind] = runs
            if not asked.json:
                module.show(runs)
    if asked.json:
        print(json.dumps(told))
    if asked.into is not None and asked.hidden:
        write_score(asked.output.resolve(), asked.into)
    return 0 if fine else 1


def _shared_out(asked: argparse.Namespace, module: ModuleType, count: int) -> list[dict[str, Any]] | None:
    parts = shares.shares_of(count, asked.seed, asked.vms)
    kept = () if module is run_kills else ("--output", str(asked.output.resolve()))
    return shares.played(module.__name__, "--kills" if module is run_kills else "--runs", parts, *kept)


def main() -> int:
    """Exit code 0 when every run of every scenario passes, else 1."""
    parser = argparse.ArgumentParser(
        prog="./scripts/catalogue", description="Play every scenario with several seeds."
    )
    parser.add_argument("names", nargs="*", metavar="SCENARIO", help="one of rocelab scenario ls; all of them")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="runs of each scenario (5)")
    parser.add_argument("--vms", type=int, default=os.cpu_count() or 1, metavar="N", help="side by side (one a CPU)")
    parser.add_argument("--output", type=Path, default=ROOT / "recordings/catalogue", metavar="DIR")
    parser.add_argument("--json", action="store_true", help="every run's verdicts")
    parser.add_argument(
        "--healthy", type=int, metavar="N", help="play N healthy runs, and have all checks judge them"
    )
    parser.add_argument("--kills", type=int, metavar="N", help="play N runs of which a random process is killed")
    parser.add_argument("--random", type=int, metavar="N", help="play N runs with a random fault, and diagnose them")
    parser.add_argument(
        "--hidden", type=int, metavar="N", help="play N runs with a fault outside the catalogue, and diagnose them"
    )
    parser.add_argument(
        "--reliability", action="store_true", help="play nothing: how often answers of a confidence are right"
    )
    parser.add_argument("--alerts", action="store_true", help="play nothing: how good the alert rules are")
    parser.add_argument(
        "--into",
        type=Path,
        metavar="PAGE",
        help="write the score of all hidden runs, the reliability, or the alerts, into a page",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the first of these (1)")
    asked = parser.parse_args()
    if asked.into is not None and not (asked.hidden or asked.reliability or asked.alerts):
        parser.error("--into writes the score of hidden runs: give --hidden N as well, or --reliability or --alerts")
    if asked.reliability or asked.alerts:
        if asked.names or any(getattr(asked, kind) for kind in _OTHERS) or (asked.reliability and asked.alerts):
            parser.error("--reliability and --alerts play nothing: give one alone, after the runs")
        if asked.alerts:
            alert_proof.report(asked.output.resolve(), asked.into, as_json=asked.json)
        else:
            reliability.report([asked.output.resolve()], asked.into, as_json=asked.json)
        return 0
    if any(getattr(asked, kind) for kind in _OTHERS):
        if asked.names:
            parser.error(
                "scenarios are played without --healthy, --kills, --random and --hidden: leave out the names"
            )
        return others(asked)
    asked.output = asked.output.resolve()
    asked.names = [library.find(name).name for name in asked.names or library.names()]
    results = play(asked)
    if asked.json:
        print(json.dumps([run for each in results for run in each.runs]))
    else:
        show(results)
    return 0 if all(each.good for each in results) else 1


if __name__ == "__main__":
    sys.exit(main())
