"""Values as text for table cells: short, with their unit, empty if there is no value."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from lab.units import format_time

if TYPE_CHECKING:
    from lab.telemetry.read.dashboard import RankState, RequesterState, Snapshot
    from lab.telemetry.read.window_measure import Measure

NOTHING: Final = "·"
"""Shown instead of 0, so that active ports stand out in the table of an idle fabric."""


JOB_RANKS: Final = ("rank", "NIC", "step", "step time", "communication", "waiting", "late", "straggler")
"""The columns of training jobs."""


def job_rank(rank: RankState) -> tuple[str, ...]:
    """Return a line of the table of training jobs."""
    late = f"{'-' if rank.late < 0 else ''}{format_time(abs(rank.late))}"
    return (
        *(f"{rank.job} {rank.rank}", f"{rank.node}:{rank.interface}", str(rank.step), format_time(rank.step_time)),
        *(f"{rank.share:.0%}", format_time(rank.waiting), late, "straggler" if rank.straggler else ""),
    )


REQUESTERS: Final = ("transfer", "NIC", "to or from", "complete", "under way", "last took", "mean")
"""The columns of the requests of transfers."""


def requester(host: RequesterState) -> tuple[str, ...]:
    """Return a line of the table of requests of transfers."""
    times = (format_time(each) if host.complete else "" for each in (host.last, host.mean))
    nic = f"{host.node}:{host.interface}"
    return f"{host.transfer} {host.node}", nic, host.target, str(host.complete), str(host.under_way), *times


def cell(measure: Measure, value: float) -> str:
    """Return a value as text; "" for NaN."""
    if math.isnan(value):
        return ""
    if not value:
        return NOTHING
    return measure.format(value)


def rows(look: Snapshot, column: int, *, descending: bool) -> list[tuple[str, ...]]:
    """Return a line for each name, sorted by a column (0 is the name); lines without a value in it come last."""
    lines = [(name, *values) for name, values in zip(look.names, look.values.tolist(), strict=True)]
    lines.sort(key=lambda line: natural(line[0]))
    if column:
        have = [line for line in lines if not math.isnan(line[column])]
        have.sort(key=lambda line: line[column], reverse=descending)
        lines = have + [line for line in lines if math.isnan(line[column])]
    elif descending:
        lines.reverse()
    return [
        (name, *(cell(measure, value) for measure, value in zip(look.measures, values, strict=True)))
        for name, *values in lines
    ]


def natural(name: str) -> list[tuple[str, int]]:
    """Return a sort key that puts leaf2 before leaf10."""
    return [(text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", name)]
