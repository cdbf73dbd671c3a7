"""How good the alert rules are: recorded scenarios and healthy runs, and the alerts that fire in each.

    ./scripts/catalogue --alerts [--output DIR] [--into lab/docs/alerts.md]

``rocelab alerts`` evaluates all recordings below the folder. A scenario's row sums up its recordings.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from lab.cli.kit.output import stdout, table
from tests.bench.catalogue_parts.page_table import with_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

HEADING: Final = "## Proof by scenario"
COLUMNS: Final = ("scenario", "cause", "runs", "root alerts", "detected", "delay", "false alarms", "root right")
_AT_ONCE: Final = 20
"""Recordings of one call of ``rocelab alerts``."""


def report(folder: Path, into: Path | None = None, *, as_json: bool = False) -> None:
    """Print the table of all recordings below a folder, and write it into a page."""
    found = list(_evaluated(folder))
    rows = list(tabulate(found))
    if as_json:
        print(json.dumps(found))
    else:
        stdout.print(table("alerts by scenario; delay in scrapes", COLUMNS, rows))
        stdout.print(summary(found), highlight=False)
    if into is not None:
        page = into.read_text(encoding="utf-8")
        into.write_text(with_table(page, HEADING, COLUMNS, rows, summary(found)), encoding="utf-8")


def _evaluated(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield what ``rocelab alerts --json`` says of each recording that is complete."""
    runs = sorted(
        file.parent
        for file in folder.glob("**/recording.json")
        if json.loads(file.read_text(encoding="utf-8"))["complete"]
    )
    for start in range(0, len(runs), _AT_ONCE):
        some = [str(run) for run in runs[start : start + _AT_ONCE]]
        done = subprocess.run(
            [sys.executable, "-m", "lab", "alerts", "--json", *some], capture_output=True, text=True, check=False
        )
        if not done.stdout:
            sys.exit(done.stderr)
        yield from json.loads(done.stdout)


def tabulate(found: Sequence[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each scenario, by name, and one for all runs without one."""
    named: dict[str, list[dict[str, Any]]] = {}
    for each in found:
        named.setdefault(each["scenario"] or "healthy runs", []).append(each)
    for name, runs in sorted(named.items()):
        cause = runs[0]["cause"]
        delays = [run["delay"] for run in runs if run["delay"] is not None]
        roots = Counter(alert for run in runs for alert in {each["name"] for each in run["alerts"] if each["root"]})
        yield (
            name,
            "" if cause in {"", name} else cause,
            len(runs),
            ", ".join(f"`{alert}`" for alert, _ in roots.most_common()),
            _share([run["detected"] for run in runs]) if cause else "",
            f"{median(delays):g}" if delays else "",
            sum(run["false_alarms"] for run in runs),
            _share([run["root_right"] for run in runs]) if cause else "",
        )


def _share(verdicts: Sequence[bool | None]) -> str:
    """Return yes or no if all runs agree, else how many of them."""
    count = sum(map(bool, verdicts))
    return {0: "no", len(verdicts): "yes"}.get(count, f"{count} of {len(verdicts)}")


def summary(found: Sequence[dict[str, Any]]) -> str:
    """Return the figures over all recordings."""
    faulty = [each for each in found if each["cause"]]
    quiet = [each for each in found if not each["cause"]]
    detected = [each for each in faulty if each["detected"]]
    right = sum(bool(each["root_right"]) for each in faulty)
    false = sum(bool(each["false_alarms"]) for each in quiet)
    delays = [each["delay"] for each in detected]
    return (
        f"{len(detected)} of {len(faulty)} faults are detected, after {median(delays or [0]):g} scrapes (median). "
        f"In {right} of {len(faulty)} runs all root alerts mean the cause. "
        f"{false} of {len(quiet)} runs without a fault have a false alarm."
    )
