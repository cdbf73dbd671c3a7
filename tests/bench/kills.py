"""``up``, ``down`` and ``qos set`` of lossless ports and RDMA, killed at each of their calls: what is left then.

    ./scripts/kills [--command up|down|set]... [--call CALL]... [--json]

The fabric has a leaf and two hosts. Each command is killed before and after each call that it makes itself
(tests/fabric/injected.py). Whatever ``down`` leaves then, or the next command leaves wrong in ports, is reported.
The exit code is 1 in that case.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.cli.kit.output import stderr, stdout, table
from tests.fabric.command import hosts, rocelab
from tests.fabric.injected import SORTS
from tests.fabric.kill_matrix import OUTCOMES, every, walk, walk_drain, warm_up

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

COMMANDS: Final = ("up", "down", "set")
_NAME: Final = "doomed"


def killed(command: str, file: Path, calls: list[str]) -> tuple[dict[str, Counter[str]], list[str]]:
    """The matrix of one command, and what was left."""

    def chosen(numbers: Mapping[str, int]) -> list[str]:
        traps = every({call: number for call, number in numbers.items() if call in calls})
        stderr.print(f"{command}: {len(traps)} kills", highlight=False)
        return traps

    if command == "set":
        rocelab("up", file)
        try:
            return walk_drain(_NAME, "h1", chosen)
        finally:
            rocelab("down", "--fabric", _NAME)
    words: tuple[str | Path, ...] = ("up", file) if command == "up" else ("down", "--fabric", _NAME)
    return walk(words, lambda: command == "down" and rocelab("up", file), chosen)


def main() -> int:
    """Kill, print, and end with 1 when something is left."""
    parser = argparse.ArgumentParser(prog="kills")
    parser.add_argument("--command", action="append", choices=COMMANDS)
    parser.add_argument("--call", action="append", choices=SORTS)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    began, matrices, left = time.monotonic(), {}, list[str]()
    with tempfile.TemporaryDirectory() as folder:
        file = hosts(Path(folder), _NAME, "h1", "h2", rdma=True)
        warm_up(file)
        for command in wanted.command or COMMANDS:
            matrices[command], found = killed(command, file, wanted.call or list(SORTS))
            left += [f"{command}, {line}" for line in found]
            if not wanted.json:  # at once: the next may take hours
                rows = [
                    (call, *(told[each] for each in OUTCOMES)) for call, told in matrices[command].items() if told
                ]
                stdout.print(table(f"{command}, killed at each call", ("call", *OUTCOMES), rows))
    if wanted.json:
        print(json.dumps({"outcomes": matrices, "left": left}))
        return 1 if left else 0
    stdout.print(f"in {time.monotonic() - began:.0f} s", highlight=False)
    print("\n".join(left) or "nothing is left")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
