"""The training jobs for the player: when each rank computed, waited and transferred in each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.report.job.step_tables import ReportedJob, ReportedStep

_US: Final = 1_000_000
_STEPS: Final = 2000
"""Steps of all ranks on the page, the slowest ones."""


def played_jobs(jobs: Iterable[ReportedJob]) -> list[dict[str, Any]]:
    """Return the jobs; a step of a rank is [begin, computed, waited, end] in microseconds of the recording."""
    return [
        {
            "name": job.name,
            "nics": job.nics,
            "steps": [_step(each) for each in _shown(job)],
            "left": len(job.steps) - len(_shown(job)),
        }
        for job in jobs
    ]


def _shown(job: ReportedJob) -> list[ReportedStep]:
    most = max(1, _STEPS // max(1, len(job.nics)))
    slowest = sorted(job.steps, key=lambda each: -each.seconds)[:most]
    return sorted(slowest, key=lambda each: each.begin)


def _step(step: ReportedStep) -> dict[str, Any]:
    return {
        "step": step.step,
        "seconds": round(step.seconds, 6),
        "straggler": step.straggler,
        "late": round(step.lateness, 6),
        "ranks": {
            str(each.rank): [
                round(at * _US)
                for at in (
                    each.begin,
                    each.begin + each.compute,
                    each.begin + each.compute + each.waiting,
                    each.begin + each.compute + each.communication,
                )
            ]
            for each in step.ranks
        },
    }
