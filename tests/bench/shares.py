"""A count of runs split up among VMs that stand side by side: each plays its share, and all answers come together."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from lab.cli.kit.output import stderr

ROOT: Final = Path(__file__).parents[2]


def rocelab(*words: str) -> subprocess.CompletedProcess[str]:
    """Run rocelab."""
    return subprocess.run(
        [sys.executable, "-m", "lab", *words], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        errors="replace", check=False,
    )  # fmt: skip


def shares_of(count: int, seed: int, vms: int) -> list[tuple[int, int]]:
    """How many runs each VM plays, and the seed of its first: every run of all has a seed of its own."""
    sizes = [count // vms + (number < count % vms) for number in range(vms)]
    return [(size, seed + sum(sizes[:number])) for number, size in enumerate(sizes) if size]


def played(module: str, option: str, shares: list[tuple[int, int]], *more: str) -> list[dict[str, Any]] | None:
    """The answers of ``python3 -m MODULE OPTION N --seed S --json`` in all VMs together; None if one gave none."""

    def play(number: int) -> list[dict[str, Any]] | None:
        name, (count, seed) = f"play{number}", shares[number]
        try:
            up = rocelab("vm", "up", "--name", name, "--time", "virtual")
            words = ("python3", "-m", module, option, str(count), "--seed", str(seed), "--json", *more)
            done = up if up.returncode else rocelab("vm", "run", "--name", name, "--", *words)
        finally:
            rocelab("vm", "down", "--name", name)
        stderr.print(done.stderr.strip(), markup=False, highlight=False)
        try:
            answer: list[dict[str, Any]] = json.loads(done.stdout)
        except ValueError:
            return None
        return answer

    with ThreadPoolExecutor(len(shares)) as pool:
        answers = list(pool.map(play, range(len(shares))))
    known = [answer for answer in answers if answer is not None]
    return None if len(known) < len(answers) else [run for answer in known for run in answer]
