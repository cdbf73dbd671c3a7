"""One step of a training job, explained: its ranks, the QPs and paths that they used, and the step's critical path.

The critical path begins with the rank that began its communication last, the straggler: all others waited for it. It
ends with the rank that ended last, and with the QP to that rank whose path waited longest. If no such path waited, it
is the QP of the job whose path waited longest: in a ring, every rank passes the delay on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.errors import UsageError
from lab.model.values.suggest import suggest
from lab.report.job.path_waits import PathWaits, QpWait
from lab.telemetry.read.recorded_jobs import recorded_jobs
from lab.telemetry.store.recording_folder import damage_as_invalid
from lab.units import counted, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.report.job.path_waits import PortWait
    from lab.telemetry.read.recorded_jobs import RecordedJob, RecordedRankStep, RecordedStep
    from lab.telemetry.read.recording import Recording

_NS: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedRank:
    """A rank in a step; times are in seconds."""

    rank: int
    node: str
    interface: str
    begin_s: float
    """After the first rank began the step."""
    compute_s: float
    waiting_s: float
    """From the begin of its communication until the last rank began."""
    transfer_s: float
    """The rest of its communication."""
    share: float
    """Communication divided by the step, 0 to 1."""
    late_s: float
    """The begin of its communication after that of the median rank; negative if it was earlier."""
    end_s: float
    """After the first rank began the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSummary:
    """A step of a job in one line."""

    step: int
    begin_s: float
    """In seconds of the recording."""
    time_s: float
    share: float
    """The mean share of communication, 0 to 1."""
    straggler: int
    """The rank that began its communication last."""
    lateness_s: float
    """After the median rank."""
    last: int
    """The rank that ended the step last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepExplanation:
    """A step of a job, with its waits and its critical path."""

    job: str
    step: StepSummary
    steps: tuple[StepSummary, ...]
    """All steps of the job."""
    roofline_s: float
    """The arithmetic of a step: computation, and transfer at the rate of the slowest NIC; 0 if it is not known."""
    ranks: tuple[ExplainedRank, ...]
    qps: tuple[QpWait, ...]
    """The QPs of the ranks, the longest wait first; empty if they were not recorded."""
    critical_qp: int | None
    """The index of the QP on the critical path; null if no QP was recorded."""
    findings: tuple[str, ...]
    """The critical path in sentences, in the order of time."""


def explain_step(recording: Recording, job: str = "", step: int | None = None) -> StepExplanation:
    """Explain a step of a job, by default the slowest step of the last job.

    UsageError for a recording without a job, and for an unknown job or step; InvalidInput if it is damaged.
    """
    with damage_as_invalid(recording.folder.path):
        chosen = _job(recording, job)
        of = _step(chosen, step)
        about = chosen.about
        waits = PathWaits(recording, about.tclass if about else 0)
        nodes = {each.rank: each.node for each in chosen.ranks}
        qps = [waits.of_qp(qp, nodes, of.begin, of.end) for qp in (about.qps if about else ())]
        qps.sort(key=lambda each: -each.seconds)
        critical = _critical(qps, of.last.rank)
        roofline = about.roofline if about else 0.0
        return StepExplanation(
            job=chosen.name,
            step=_summary(recording, of),
            steps=tuple(_summary(recording, each) for each in chosen.steps),
            roofline_s=roofline,
            ranks=tuple(_rank(of, each) for each in of.ranks),
            qps=tuple(qps),
            critical_qp=critical,
            findings=tuple(_findings(of, None if critical is None else qps[critical])),
        )


def _job(recording: Recording, name: str) -> RecordedJob:
    jobs = recorded_jobs(recording)
    if not jobs:
        raise UsageError(
            f"{recording.name} has no training job", "rocelab record start, then rocelab job train FILE, records one"
        )
    found = [each for each in jobs if name in {"", each.name}]
    if not found:
        names = [each.name for each in jobs]
        raise UsageError(f"{recording.name} has no job {name}", suggest(name, names, f"it has {', '.join(names)}"))
    return found[-1]


def _step(job: RecordedJob, number: int | None) -> RecordedStep:
    if number is None:
        return max(job.steps, key=lambda each: each.seconds)
    found = next((each for each in job.steps if each.number == number), None)
    if found is None:
        first, last = job.steps[0].number, job.steps[-1].number
        raise UsageError(f"job {job.name} has no step {number}", f"it has steps {first} to {last}")
    return found


def _summary(recording: Recording, step: RecordedStep) -> StepSummary:
    return StepSummary(
        step=step.number,
        begin_s=(step.begin - recording.clock.start) / _NS,
        time_s=step.seconds,
        share=step.share,
        straggler=step.straggler.rank,
        lateness_s=step.lateness,
        last=step.last.rank,
    )


def _rank(step: RecordedStep, of: RecordedRankStep) -> ExplainedRank:
    return ExplainedRank(
        rank=of.rank,
        node=of.node,
        interface=of.interface,
        begin_s=(of.begin - step.begin) / _NS,
        compute_s=of.compute / _NS,
        waiting_s=of.waiting / _NS,
        transfer_s=of.transfer / _NS,
        share=of.share,
        late_s=of.late / _NS,
        end_s=(of.end - step.begin) / _NS,
    )


def _critical(qps: Sequence[QpWait], last: int) -> int | None:
    """Return the index of the QP on the critical path."""
    to_last = [number for number, each in enumerate(qps) if each.peer_rank == last]
    if to_last and qps[to_last[0]].seconds:  # the longest wait is the first
        return to_last[0]
    if qps and not qps[0].seconds and to_last:
        return to_last[0]
    return 0 if qps else None


def _findings(step: RecordedStep, qp: QpWait | None) -> Iterator[str]:
    straggler, last = step.straggler, step.last
    longest = max(step.ranks, key=lambda each: each.waiting)
    computed = f"{straggler.name} computed {format_time(straggler.compute / _NS)}"
    if step.is_slow(straggler):
        yield f"{computed}, {format_time(step.excess(straggler))} longer than the median rank: its host is slow"
    else:
        yield f"{computed}, as long as the others, and began its communication last"
    waited = sum(each.waiting > 0 for each in step.ranks)
    if waited:
        yield (
            f"{counted(waited, 'rank')} waited for it, {longest.name} longest: {format_time(longest.waiting / _NS)}; "
            f"it was {format_time(max(0, straggler.late) / _NS)} later than the median rank"
        )
    after = last.end - (straggler.begin + straggler.compute)
    yield f"{last.name} ended last, {format_time(max(0, after) / _NS)} after {straggler.name} began to communicate"
    if qp is None:
        return
    worst = qp.worst
    into = "its data came by" if qp.peer_rank == last.rank else "no path to it waited; the longest wait was that of"
    if worst is None:
        yield f"{into} {qp.name}, whose path was not recorded"
    elif not qp.seconds:
        yield f"{into} {qp.name}: no port of its path was paused, and no sample found a queue"
    else:
        yield f"{into} {qp.name}: {worst.port} was {wait_text(worst)}"


def wait_text(wait: PortWait) -> str:
    """Return the pauses and the queue of a port in words."""
    paused = f"paused for {format_time(wait.paused_s)}" if wait.paused_s else "not paused"
    queue = f"its queue held up to {format_size(wait.queue_peak_bytes)}" if wait.queue_peak_bytes else ""
    delay = f" ({format_time(wait.queue_delay_s)} at the rate of the link)" if queue and wait.queue_delay_s else ""
    return f"{paused}{f', and {queue}{delay}' if queue else ''}"
