"""The training jobs of a report: a row for each step and each rank, as facts and in Markdown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Final

from lab.report.markdown_text import code, plain, table
from lab.telemetry.read.recorded_jobs import recorded_jobs
from lab.units import counted, format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lab.telemetry.read.recorded_jobs import RecordedJob, RecordedStep
    from lab.telemetry.read.recording import Recording

_NS: Final = 10**9
_ROWS: Final = 20
"""Steps of a job in the table, the slowest ones."""


@dataclass(frozen=True, slots=True)
class ReportedRankStep:
    """A step of a rank; times are seconds of the recording, and durations in seconds."""

    rank: int
    begin: float
    compute: float
    waiting: float
    """From the begin of its communication until the last rank began it."""
    communication: float
    """With the waiting."""
    late: float
    """The begin of its communication after that of the median rank; negative if it was earlier."""


@dataclass(frozen=True, slots=True)
class ReportedStep:
    """A step of all ranks."""

    step: int
    begin: float
    """Seconds of the recording."""
    seconds: float
    """From the first rank that begins it to the last that ends it."""
    share: float
    """The mean share of communication, 0 to 1."""
    straggler: int
    """The rank that began its communication last."""
    lateness: float
    """Seconds from the begin of the median rank's communication to that of the straggler."""
    ranks: tuple[ReportedRankStep, ...]


@dataclass(frozen=True, slots=True)
class ReportedJob:
    """A training job of the run."""

    name: str
    nics: tuple[str, ...]
    """The NIC of each rank, rank 0 first."""
    steps: tuple[ReportedStep, ...]
    roofline: float
    """Seconds of a step by arithmetic; 0 if it is not known."""


def reported_jobs(recording: Recording) -> tuple[ReportedJob, ...]:
    """Return the training jobs of a recording; InvalidInput if they are damaged."""
    return tuple(_reported(recording, job) for job in recorded_jobs(recording))


def _reported(recording: Recording, job: RecordedJob) -> ReportedJob:
    return ReportedJob(
        name=job.name,
        nics=tuple(f"{each.node}:{each.interface}" for each in job.ranks),
        steps=tuple(_step(recording.clock.start, step) for step in job.steps),
        roofline=job.about.roofline if job.about else 0.0,
    )


def _step(start: int, step: RecordedStep) -> ReportedStep:
    return ReportedStep(
        step=step.number,
        begin=(step.begin - start) / _NS,
        seconds=step.seconds,
        share=step.share,
        straggler=step.straggler.rank,
        lateness=step.lateness,
        ranks=tuple(
            ReportedRankStep(
                rank=each.rank,
                begin=(each.begin - start) / _NS,
                compute=each.compute / _NS,
                waiting=each.waiting / _NS,
                communication=each.communication / _NS,
                late=each.late / _NS,
            )
            for each in step.ranks
        ),
    )


def training_steps(jobs: Iterable[ReportedJob]) -> Iterator[str]:
    """Yield a chapter as lines of Markdown: a table of steps and one of ranks for each job; nothing without a job."""
    for job in jobs:
        yield f"### Training job {plain(job.name)}"
        yield ""
        yield f"{_summary(job)} `rocelab job explain RUN` has the paths of its QPs (`rows/job_steps.parquet`)."
        yield ""
        slowest = sorted(job.steps, key=lambda each: -each.seconds)[:_ROWS]
        yield from table(
            ("step", "second", "time", "communication", "straggler", "late"),
            (
                (str(each.step), f"{each.begin:.3f}", format_time(each.seconds), f"{each.share:.0%}",
                 code(_rank(job, each.straggler)), format_time(max(0.0, each.lateness)))
                for each in sorted(slowest, key=lambda each: each.step)
            ),
        )  # fmt: skip
        if len(job.steps) > _ROWS:
            yield f"The {_ROWS} slowest steps; `rocelab report RUN --json` has all."
            yield ""
        yield from table(("rank", "step", "compute", "waiting", "transfer", "late", "straggler in"), _rank_rows(job))


def _summary(job: ReportedJob) -> str:
    mean = fmean(each.seconds for each in job.steps)
    ratio = f", {mean / job.roofline:.2f} times the arithmetic" if job.roofline else ""
    ranks = counted(len(job.nics), "rank")
    return f"{counted(len(job.steps), 'step')} on {ranks}; a step took {format_time(mean)} on average{ratio}."


def _rank_rows(job: ReportedJob) -> Iterator[tuple[str, ...]]:
    stragglers = Counter(each.straggler for each in job.steps)
    by_rank: dict[int, list[ReportedRankStep]] = {}
    for step in job.steps:
        for each in step.ranks:
            by_rank.setdefault(each.rank, []).append(each)
    for rank, mine in sorted(by_rank.items()):
        late = fmean(each.late for each in mine)
        yield (
            code(_rank(job, rank)),
            format_time(fmean(each.compute + each.communication for each in mine)),
            format_time(fmean(each.compute for each in mine)),
            format_time(fmean(each.waiting for each in mine)),
            format_time(fmean(max(0.0, each.communication - each.waiting) for each in mine)),
            f"{'-' if late < 0 else ''}{format_time(abs(late))}",
            counted(stragglers[rank], "step"),
        )


def _rank(job: ReportedJob, rank: int) -> str:
    return f"{rank} {job.nics[rank]}" if rank < len(job.nics) else str(rank)
