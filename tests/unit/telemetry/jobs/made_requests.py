"""A transfer in a recording: h1 and h2 write to h5 and h6 in turn, with times that the test chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lab.telemetry.store import recording_folder as files
from tests.unit.diagnose.recorded import begun
from tests.unit.telemetry.made import START, STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.unit.telemetry.made import Made

MS: Final = 10**6
FIRST: Final = 100
"""Milliseconds until the first request."""
SIZE: Final = 2**18
HOSTS: Final = ("h1", "h2")
TARGETS: Final = ("h5", "h6")


def requests(times: Sequence[int], verb: str = "write", start: int = 0, size: int = SIZE) -> list[dict[str, Any]]:
    """The rows of a transfer: requests of each host take so many ms, one after the other; h2's take 5 ms more."""
    began = START + (start + FIRST) * MS
    rows = []
    for host, node in enumerate(HOSTS):
        begin = began
        for number, time in enumerate(times):
            end = begin + (time + 5 * host) * MS
            rows.append({
                "ns": end, "began": began, "node": node, "interface": "eth1", "request": number + 1,
                "target": TARGETS[(host + number) % 2], "target_interface": "eth1", "verb": verb, "size": size,
                "begin": begin,
            })  # fmt: skip
            begin = end
    return rows


def request_run(path: Path, *transfers: list[dict[str, Any]], moves: Callable[[Made], None] = lambda _: None) -> Made:
    """A recording of the fabric incast with some transfers, and samples until a second after them; not yet ended."""
    made = begun(path)
    made.sample()
    rows = [row for transfer in transfers for row in transfer]
    files.append_lines(made.folder.appended_rows("job_requests"), rows)
    while made.ns < max(row["ns"] for row in rows) + 20 * STEP:
        moves(made)
        made.sample()
    return made
