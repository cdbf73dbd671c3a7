"""The tables of ``rocelab job train``: the mean step of each rank, and what the steps of all ranks took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lab.cli.kit.output import table
from lab.kernel.process import time_source
from lab.units import counted, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.jobs.training_job import RankFigures, TrainingResult

_COLUMNS: Final = ("rank", "NIC", "step", "compute", "communication", "share", "waiting", "late")


def training_table(result: TrainingResult, where: str = "") -> Any:
    """Return the table of a job's ranks; ``where`` is where they run, for the title."""
    title = (
        f"{result.name}: {counted(len(result.steps), 'step')} on {len(result.ranks)} ranks{where} ({result.groups}), "
        f"gradients of {format_size(result.size)}, algorithm {result.algorithm}, {time_source.lives_in()} time"
    )
    return table(title, _COLUMNS, [_row(rank) for rank in result.ranks])


def phase_table(result: TrainingResult) -> Any:
    """Return the table of what all ranks did in a mean step."""
    rows = [
        (each.phase, f"{each.operations:g}", format_time(each.time_s), format_size(round(each.received)))
        for each in result.phases
    ]
    return table("a step of all ranks, by phase", ("phase", "operations", "time", "received"), rows)


def _row(rank: RankFigures) -> tuple[object, ...]:
    late = f"{'-' if rank.late_s < 0 else ''}{format_time(abs(rank.late_s))}"
    return (
        *(rank.rank, f"{rank.host}:{rank.interface}", format_time(rank.step_s), format_time(rank.compute_s)),
        *(format_time(rank.communication_s), f"{rank.communication_share:.0%}", format_time(rank.waiting_s), late),
    )


def training_notes(result: TrainingResult) -> Iterator[str]:
    """Yield lines about all ranks together."""
    yield (
        f"a step took {format_time(result.time_s)}, {result.jct_ratio:.2f} times the arithmetic "
        f"({format_time(result.roofline_s)})"
    )
    straggler = result.ranks[result.straggler]
    steps = sum(step.straggler == result.straggler for step in result.steps)
    yield (
        f"straggler: rank {straggler.rank} at {straggler.host} in {steps} of {counted(len(result.steps), 'step')}; "
        f"the last rank was {format_time(result.lateness_s)} late on average"
    )
    if result.storage is not None:
        yield f"storage: {result.storage.host}:{result.storage.interface}"
    verdict = f"{result.wrong} wrong elements" if result.wrong else "every rank has the right data"
    yield f"{verdict}; the job started in {format_time(result.start_s)}"
