"""A training job in a recording: four ranks in a ring across two leaves, with times that the test chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lab.telemetry.store import recording_folder as files
from tests.unit.diagnose.recorded import begun
from tests.unit.telemetry.made import START, STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tests.unit.telemetry.made import Made

MS: Final = 10**6
HOSTS: Final = ("h1", "h2", "h5", "h6")
PERIOD: Final = 300
"""Milliseconds from one step to the next."""
COMPUTE: Final = 100
"""Milliseconds."""
_WAYS: Final = {
    (0, 1): ("h1:eth1", "leaf1:swp4"),
    (1, 2): ("h2:eth1", "leaf1:swp1", "spine1:swp2", "leaf2:swp3"),
    (2, 3): ("h5:eth1", "leaf2:swp4"),
    (3, 0): ("h6:eth1", "leaf2:swp2", "spine2:swp1", "leaf1:swp3"),
}


def steps(
    transfers: Sequence[int], excess: Mapping[int, int] | None = None, job: str = "small", start: int = 0
) -> list[dict[str, Any]]:
    """The rows of a job whose steps transfer for so many ms; ``excess`` is more computation of ranks, in ms."""
    rows = []
    began = START + (start + 100) * MS
    late = excess or {}
    slowest = max(late.values(), default=0)
    for number, transfer in enumerate(transfers):
        begin = began + number * PERIOD * MS
        for rank, host in enumerate(HOSTS):
            compute = COMPUTE + late.get(rank, 0)
            waiting = COMPUTE + slowest - compute
            rows.append({
                "ns": begin + (compute + waiting + transfer) * MS + rank, "job": job, "began": began,
                "rank": rank, "node": host, "interface": "eth1", "step": number + 1, "begin": begin,
                "compute": compute * MS,
                "communication": (waiting + transfer) * MS + rank, "waiting": waiting * MS,
                "late": late.get(rank, 0) * MS,
            })  # fmt: skip
    return rows


def description(rows: Sequence[dict[str, Any]], roofline: int = 150) -> dict[str, Any]:
    """The line of the job of ``rows`` in ``jobs.jsonl``: a step takes ``roofline`` ms by arithmetic."""
    qps = [
        {
            "rank": rank, "qpn": 17 + rank, "peer_rank": peer, "peer_qpn": 30 + peer,
            "source_port": 65472, "path": path,
        }
        for (rank, peer), path in _WAYS.items()
    ]  # fmt: skip
    said = {"ns": max(row["ns"] for row in rows) + 1, "job": rows[0]["job"], "began": rows[0]["began"]}
    return {**said, "size": 2**20, "roofline": roofline * MS, "tclass": 106, "qps": qps}


def with_job(
    made: Made,
    rows: Sequence[dict[str, Any]],
    happens: Callable[[Made], None] = lambda _: None,
    *,
    described: bool = True,
) -> None:
    """Add a job, and samples until a second after its end; ``happens`` is called before each of them."""
    files.append_lines(made.folder.job_steps, rows)
    end = max(row["ns"] for row in rows)
    if described:
        files.append_line(made.folder.jobs, description(rows))
    while made.ns < end + 20 * STEP:
        happens(made)
        made.sample()


def job_run(path: Path, rows: Sequence[dict[str, Any]], *, described: bool = True) -> Made:
    """A recording of the fabric incast with one job, not yet ended."""
    made = begun(path)
    made.sample()
    with_job(made, rows, described=described)
    return made
