"""The critical path of a step as text: a bar for each rank, and the path of the QP through the fabric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.units import format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.report.job.job_explanation import ExplainedRank, StepExplanation
    from lab.report.job.path_waits import PortWait, QpWait

WIDTH: Final = 60
"""Columns of the longest bar."""
COMPUTE, WAITING, TRANSFER, IDLE = "#", ".", "=", " "
LEGEND: Final = f"{COMPUTE} computes  {WAITING} waits for the last rank  {TRANSFER} transfers"


def draw_ranks(step: StepExplanation) -> Iterator[str]:
    """Yield a bar for each rank along the time of the step, and a legend."""
    length = step.step.time_s
    names = {each.rank: f"{each.rank} {each.node}" for each in step.ranks}
    width = max(map(len, names.values()), default=0)
    for each in step.ranks:
        marks = [
            text
            for text, rank in (("straggler", step.step.straggler), ("ended last", step.step.last))
            if rank == each.rank
        ]
        yield f"{names[each.rank]:<{width}} |{_bar(each, length)}| {', '.join(marks)}".rstrip()
    yield f"{'':<{width}}  {LEGEND}"


def _bar(rank: ExplainedRank, length: float) -> str:
    """Return the bar of a rank: the part that fills most of a column gives it its character."""
    ends, at = [], rank.begin_s
    for character, seconds in ((COMPUTE, rank.compute_s), (WAITING, rank.waiting_s), (TRANSFER, rank.transfer_s)):
        at += seconds
        ends.append((at, character))
    columns = []
    for column in range(WIDTH):
        middle = (column + 0.5) / WIDTH * length
        within = next((character for end, character in ends if middle < end), IDLE)
        columns.append(IDLE if middle < rank.begin_s else within)
    return "".join(columns)


def draw_path(qp: QpWait) -> Iterator[str]:
    """Yield the path of a QP from node to node: each line is a port by which packets leave, with its waits.

    Nothing if the path was not recorded.
    """
    if not qp.path:
        return
    width = max(len(each.port) for each in qp.path)
    for number, each in enumerate(qp.path):
        mark = "*" if each is qp.worst and each.seconds else " "
        yield f"{mark} {'|> ' if number else 'o> '}{each.port:<{width}}  {wait_of(each)}"
    yield f"  '> {qp.peer_node} rank {qp.peer_rank}"


def wait_of(port: PortWait) -> str:
    """Return the waits of a port in short."""
    paused = f"paused {format_time(port.paused_s)}" if port.paused_s else "not paused"
    peak = format_size(port.queue_peak_bytes)
    queue = f", queue up to {peak}: {format_time(port.queue_delay_s)}" if port.queue_peak_bytes else ", no queue seen"
    return paused + queue
