"""Runs of scenarios in which a process is killed: how many left a healed fabric and a recording that can be read.

./scripts/catalogue --kills N [--seed S] [--vms N]       as many as that, on VMs side by side
python3 -m tests.bench.catalogue_parts.run_kills --kills N [--seed S]  the same in one VM: with RDMA, in virtual time
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.cli.kit.output import stderr, stdout, table
from tests.random_kills import SCENARIOS, Killer, Outcome, drawn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def main() -> int:
    """Kill and print; 1 when anything was not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rocelab-") as folder:
        told = [_as_data(each) for each in killed(Path(folder), asked.seed, asked.kills)]
    if asked.json:
        print(json.dumps(told))
    else:
        show(told)
    return 0 if all(map(good, told)) else 1


def good(told: Mapping[str, Any]) -> bool:
    """Whether all was as it should be after a kill."""
    return not told["wrong"]


def killed(folder: Path, seed: int, count: int) -> Iterator[Outcome]:
    """So many kills, one after the other, on a fabric that is taken down behind the last one."""
    killer = Killer(folder)
    lines = {scenario: killer.lines_of(scenario) for scenario in SCENARIOS}
    last = None
    for kill in drawn(seed, count, lines):
        if last is not None:
            yield last
        last = killer.run(kill)
        stderr.print(f"seed {seed}, {kill}: {last.killed or 'it had ended'}, {last.code}", highlight=False)
    if last is not None:
        killer.warm()
        last.wrong += killer.down()
        yield last


def _as_data(outcome: Outcome) -> dict[str, Any]:
    kill = outcome.kill
    return {
        "number": kill.number, "scenario": kill.scenario, "moment": f"{kill.line}+{kill.later}",
        "killed": outcome.killed, "code": outcome.code, "said": outcome.said, "verdict": outcome.verdict,
        "wrong": outcome.wrong,
    }  # fmt: skip


def show(told: Sequence[Mapping[str, Any]]) -> None:
    """A table, and what went wrong below it."""
    names = ("number", "scenario", "moment", "killed", "code", "verdict", "said")
    stdout.print(table("kills", names, [tuple(str(each[name]) for name in names) for each in told]))
    for each in told:
        for line in each["wrong"]:
            stdout.print(f"kill {each['number']}: {line}", markup=False, highlight=False)
    stdout.print(
        f"{sum(map(good, told))} of {len(told)} left a fabric as it was and a recording to read", highlight=False
    )


if __name__ == "__main__":
    sys.exit(main())
