"""Training jobs as traffic: ``train`` runs one to its end, and ``job_in`` returns the figures of a phase's job.

::

    JOB = "{hosts: [h1, h2, h3], compute: 100ms, allreduce: 1536000, algorithm: ring}"

    three_acts(stage, 0, fault(...), look=lambda _: train(stage, JOB), again=lambda: train(stage, JOB))

    job_in(rec, "observe").step_s

``train_together`` runs several jobs at once; ``job_in(rec, "observe", "first")`` is the one of this name.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from statistics import fmean
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final

from lab.dataplane import qp_pairs
from lab.errors import OperationFailed, UsageError
from lab.faults.slow_ranks import slowed
from lab.jobs.bus_bandwidth import bus_factor
from lab.jobs.job_qps import JobQps
from lab.jobs.job_spec import Collective
from lab.jobs.rank_placement import nic_links
from lab.jobs.training_job import recorded_job, run_training
from lab.jobs.training_spec import load_training
from lab.rdma import sysfs
from lab.rdma.nic_choice import find_nic
from lab.routing.paths.underlay_path import Walker
from lab.telemetry.sample.child_process import ChildProcess, failure
from lab.telemetry.store.job_steps import SCHEMA
from lab.telemetry.store.recording_folder import RecordKind
from lab.units import WIRE_OVERHEAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lab.jobs.training_spec import TrainingSpec
    from lab.scenario.stage import Stage
    from lab.telemetry.read.recording import Recording
    from lab.telemetry.read.series import RecordingPhase
    from lab.telemetry.sample.child_process import Control

_MTU: Final = 4096
"""Payload bytes of a full RDMA packet."""
_HEADERS: Final = 14 + 20 + 8 + 12 + 4
"""Bytes of a packet besides its payload: Ethernet, IPv4, UDP, BTH, and the ICRC (IBA A17.3)."""
PER_BYTE: Final = (_MTU + _HEADERS + WIRE_OVERHEAD) / _MTU
"""Bytes of a link for each byte of a message, with FCS, preamble and gap."""
_NS: Final = 10**9
FAILED: Final = "job failed"
"""The note of a job that ended with an error."""
_STARTED: Final = 50
"""Packets: more than those of a start."""
_PATIENCE: Final = 300.0
"""Seconds for which a job may last longer than the first one."""


def train(
    stage: Stage,
    job: str,
    during: Callable[[], None] | None = None,
    *,
    paths: bool = False,
    link_rate: float | None = None,
) -> None:
    """Run the training job of the YAML text ``job``, with ``hosts``, to its end, and record its steps.

    ``during`` is called once, while the ranks work. With ``paths``, the QPs of the job and their paths are recorded,
    as ``rocelab job train`` does; ``link_rate`` is then that of the slowest NIC in bit/s, if it is not that of the
    topology. Raises the errors of ``run_training``, and OperationFailed if a sum is wrong.
    """
    _run(stage, _noted(stage, job), during, paths=paths, link_rate=link_rate)


def train_together(stage: Stage, *jobs: str, during: Callable[[], None] | None = None) -> None:
    """Run several jobs at once, each to its end as ``train`` does; ``during`` is called while the first one works.

    Every job but the first has a process of its own. It ends if another job fails, or if this process ends.
    """
    first, *others = [_noted(stage, job) for job in jobs]
    children: list[ChildProcess] = []
    try:
        children.extend(ChildProcess("a job of the scenario", partial(_run_in_child, stage, spec)) for spec in others)
        _run(stage, first, during)
        for child in children:
            said = child.ask({"do": "end"}, _PATIENCE)
            if "error" in said:
                raise failure(said)
    finally:
        for child in children:
            child.end()


def _noted(stage: Stage, job: str) -> TrainingSpec:
    """Return a job with what faults add to its computations, and note it in the recording."""
    written = load_training(job, "the scenario's job")
    spec = slowed(stage.fabric, written, [find_nic(stage.fabric, host).host for host in written.hosts or ()])
    told = {"hosts": spec.hosts, "steps": spec.steps, "allreduce": spec.allreduce, "mtu": spec.mtu}
    stage.recorder.note("job", name=spec.name, **told)
    return spec


def _run(
    stage: Stage,
    spec: TrainingSpec,
    during: Callable[[], None] | None = None,
    *,
    paths: bool = False,
    link_rate: float | None = None,
) -> None:
    """Run a job to its end. It only adds rows to the recording, which several processes may do at once."""
    storage = [spec.storage.host] if spec.storage is not None else []
    nics = [find_nic(stage.fabric, host) for host in (*(spec.hosts or ()), *storage)]
    links = chain.from_iterable(nic_links(stage.fabric.topology, stage.fabric.plan, nic) for nic in nics)
    started: list[str] = []

    def report(what: str, _done: int, _of: int) -> None:
        if what == "ranks done" and not started:
            started.append(what)
            if during is not None:
                during()

    def stepped(rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            stage.recorder.record(RecordKind.JOB_STEP, **row)

    slowest = min(link.rate for link in links) if link_rate is None else round(link_rate)
    walker = Walker(stage.fabric.topology, stage.fabric.namespace)
    watch = JobQps(nics, lambda: qp_pairs.connected(stage.fabric.name), walker, report) if paths else None
    progress = watch.report if watch else report
    result = run_training(nics, spec, link_rate=slowest, report=progress, stepped=stepped)
    if watch:
        stage.recorder.record(RecordKind.JOB, **recorded_job(result, watch.found))
    if result.wrong:
        raise OperationFailed(f"job {spec.name} has {result.wrong} wrong sums", "run the scenario again")


def await_computation(stage: Stage, host: str) -> None:
    """Wait until the rank of a host has sent gradients, and then sends nothing: it computes again."""
    device = find_nic(stage.fabric, host).device
    sent = [sysfs.packets(device, "sent")]
    stage.until(lambda: sysfs.packets(device, "sent") > sent[0] + _STARTED, f"{host} to sum its gradients")

    def is_quiet() -> bool:
        sent.append(sysfs.packets(device, "sent"))
        return sent[-1] == sent[-2]

    stage.until(is_quiet, f"{host} to compute")


def attempt(stage: Stage, job: str) -> None:
    """Run the training job of the YAML text ``job`` like ``train``; if it fails, record its error."""
    try:
        train(stage, job)
    except OperationFailed as error:
        spec = load_training(job, "the scenario's job")
        nics = [find_nic(stage.fabric, host) for host in spec.hosts or ()]
        names = [f"{nic.host}:{nic.interface}" for nic in nics]
        stage.recorder.note(FAILED, job=spec.name, nics=names, mtu=spec.mtu, said=error.message)


def failures(rec: Recording, phase: str) -> list[str]:
    """Return the errors of the jobs that failed in a phase."""
    notes = rec.events(source="caller", kind="note", during=phase)
    return [str(note.data["said"]) for note in notes if note.data.get("text") == FAILED]


def _run_in_child(stage: Stage, spec: TrainingSpec, control: Control) -> None:
    asked = Event()

    def watch() -> None:
        while control.heard() is not None:
            asked.set()
        os._exit(1)  # the parent is gone, or does not wait for the job any more: its ranks end with this process

    Thread(target=watch, daemon=True).start()
    _run(stage, spec)
    asked.wait()
    control.say({"done": True})


@dataclass(frozen=True, slots=True)
class JobInPhase:
    """The steps of a job that ended in a phase: for each step, the rows of all ranks, times in ns."""

    steps: tuple[tuple[Mapping[str, Any], ...], ...]

    @property
    def times_s(self) -> tuple[float, ...]:
        """Seconds of each step, from the first rank that begins it to the last that ends it."""
        return tuple((max(map(_end, ranks)) - min(_column(ranks, "begin"))) / _NS for ranks in self.steps)

    @property
    def spans_s(self) -> tuple[float, ...]:
        """Seconds from each step's begin to the next one's, with the barrier between; of the last, to its end."""
        begins = [min(_column(ranks, "begin")) for ranks in self.steps]
        return tuple((end - begin) / _NS for begin, end in pairwise([*begins, max(map(_end, self.steps[-1]))]))

    @property
    def span(self) -> tuple[int, int]:
        """When the first of the steps began, and when the last one ended, in ns of CLOCK_MONOTONIC."""
        return min(_column(self.steps[0], "begin")), max(map(_end, self.steps[-1]))

    @property
    def step_s(self) -> float:
        """The mean of ``times_s``."""
        return fmean(self.times_s)

    @property
    def transfer_s(self) -> float:
        """Mean seconds of the collective, from the last rank that begins it to the last rank that ends it."""
        return fmean(max(map(_end, ranks)) - max(map(_ready, ranks)) for ranks in self.steps) / _NS

    @property
    def stragglers(self) -> tuple[str, ...]:
        """The host of each step that began the collective last."""
        return tuple(max(ranks, key=_ready)["node"] for ranks in self.steps)

    def mean_s(self, column: str, host: str) -> float:
        """Return the mean of a duration (compute, communication, waiting or late) of a host's rank, in seconds."""
        return fmean(row[column] for ranks in self.steps for row in ranks if row["node"] == host) / _NS


def end_of_jobs(rec: Recording, within: RecordingPhase) -> int:
    """Return when the last step of any job in a time ended, in ns of CLOCK_MONOTONIC; its end without steps."""
    ends = rec.table(SCHEMA.table).rows.ns.tolist() if SCHEMA.table in rec.grown else []
    return max((ns for ns in ends if within.start <= ns <= within.end), default=within.end)


def job_in(rec: Recording, phase: str | RecordingPhase, name: str | None = None) -> JobInPhase:
    """Return the job whose steps ended in a phase, the one called ``name`` if several ran.

    UsageError if there was none, or a rank lacks a step.
    """
    within = rec.phase(phase) if isinstance(phase, str) else phase
    if SCHEMA.table not in rec.grown:
        raise UsageError(f"{rec.name}: no job was run", "see rocelab record show")
    rows = rec.table(SCHEMA.table).rows
    steps: dict[int, list[Mapping[str, Any]]] = {}
    for ns, row in zip(rows.ns.tolist(), rows.dicts(), strict=True):
        if within.start <= ns <= within.end and name in {None, row["job"]}:
            steps.setdefault(row["step"], []).append(row)
    if not steps or len({len(ranks) for ranks in steps.values()}) > 1:
        raise UsageError(f"{rec.name}: no whole job ended in phase {within.name}", "see rocelab record show")
    return JobInPhase(tuple(tuple(steps[number]) for number in sorted(steps)))


def allreduce_seconds(size: int, ranks: int, rate: float) -> float:
    """Return the seconds in which a link of ``rate`` bit/s carries a rank's part of an AllReduce of ``size`` bytes.

    Each rank of a ring sends 2(n-1)/n of the size, in packets of 4096 bytes (Patarasu and Yuan, 2009).
    """
    return float(bus_factor(Collective.ALLREDUCE, ranks)) * size * PER_BYTE * 8 / rate


def per_byte(mtu: int) -> float:
    """Return ``PER_BYTE`` for packets with ``mtu`` bytes of payload."""
    return (mtu + _HEADERS + WIRE_OVERHEAD) / mtu


def milliseconds(seconds: Iterable[float], phases: Sequence[str]) -> str:
    """Return durations as text for evidence: ``272.1 ms in baseline, 741.9 ms in observe``."""
    return ", ".join(f"{1000 * each:.1f} ms in {phase}" for each, phase in zip(seconds, phases, strict=True))


def _column(ranks: Iterable[Mapping[str, Any]], name: str) -> list[int]:
    return [row[name] for row in ranks]


def _ready(row: Mapping[str, Any]) -> int:
    """Return when a rank began the collective."""
    return int(row["begin"] + row["compute"])


def _end(row: Mapping[str, Any]) -> int:
    return int(row["begin"] + row["compute"] + row["communication"])
