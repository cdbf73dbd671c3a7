"""The ``--json`` answers of ``rocelab rdma``, ``rocelab job`` and ``rocelab expect``."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Literal

from lab.cli.answers.base import Answer, Models
from lab.dataplane import limited_qps
from lab.jobs import bus_bandwidth, collective_job, training_job
from lab.jobs.transfers import transfer_job
from lab.model.values import expectation
from lab.rdma import measure, receive_cap, window_counters

if TYPE_CHECKING:  # a model has the attributes of the dataclass that it is made of
    from lab.dataplane.limited_qps import LimitedQp
    from lab.jobs.bus_bandwidth import JobRow
    from lab.jobs.collective_job import RankPlace
    from lab.jobs.training_job import PhaseFigures, RankFigures, RankStep, StepFigures
    from lab.jobs.transfers.transfer_job import TransferResult
    from lab.model.values.expectation import ExpectationResult
    from lab.rdma.measure import BandwidthResult, LatencyResult, Total
    from lab.rdma.receive_cap import Arrived
    from lab.rdma.window_counters import Balance
else:
    _MODELS = Models(
        names=(ipaddress, collective_job),
        besides={
            window_counters.Balance: {"under_way": int},
            training_job.RankStep: {"communication_ns": int},
            limited_qps.LimitedQp: {"address": str, "peer": str},
        },
    )
    Arrived, Balance = _MODELS.of(receive_cap.Arrived), _MODELS.of(window_counters.Balance)
    BandwidthResult, LatencyResult = _MODELS.of(measure.BandwidthResult), _MODELS.of(measure.LatencyResult)
    LimitedQp = _MODELS.of(limited_qps.LimitedQp)
    ExpectationResult = _MODELS.of(expectation.ExpectationResult)
    JobRow, RankPlace = _MODELS.of(bus_bandwidth.JobRow), _MODELS.of(collective_job.RankPlace)
    PhaseFigures = _MODELS.of(training_job.PhaseFigures)
    RankFigures, RankStep = _MODELS.of(training_job.RankFigures), _MODELS.of(training_job.RankStep)
    StepFigures = _MODELS.of(training_job.StepFigures)
    Total = _MODELS.of(measure.Total)
    TransferResult = _MODELS.of(transfer_job.TransferResult)


class _Measured(Answer):
    time: Literal["host", "virtual"]
    """Clock of the machine: real time (host), or the VM's virtual time."""
    counters: dict[str, dict[str, int]]
    """Growth of each host's RDMA counters."""
    counters_window_s: float
    balance: Balance


class RdmaBw(_Measured):
    """``rocelab rdma bw``."""

    pairs: list[BandwidthResult]
    all: Total
    arrivals: list[Arrived]
    margin_s: float = 0
    """Seconds of traffic before and after the measurement, which port counters include."""


class RdmaLat(_Measured):
    """``rocelab rdma lat``."""

    pairs: list[LatencyResult]
    warnings: tuple[str, ...] = ()
    """Reasons why the figures are not those of the network."""


class GidAnswer(Answer):
    """An entry of a device's GID table (IBA vol. 1 section 4.1.1)."""

    index: int
    gid: str
    """An IPv4 address if the GID is an IPv4-mapped IPv6 address."""
    type: str
    """The kernel's name of the type: RoCE v2."""


class RdmaDevice(Answer):
    """A device of ``rocelab rdma show``."""

    host: str
    interface: str
    device: str
    state: str
    """ACTIVE or MISSING."""
    address: str
    gids: list[GidAnswer]


class LimitedQpAnswer(LimitedQp):
    """A QP of ``rocelab rdma show`` that congestion control holds below the line rate of a NIC."""


class RdmaShow(Answer):
    """``rocelab rdma show``."""

    fabric: str
    devices: list[RdmaDevice]
    limited: list[LimitedQpAnswer]
    """QPs below the line rate; empty without congestion control."""


class ExpectationAnswer(ExpectationResult):
    """An expectation of ``rocelab expect``."""


class Expect(Answer):
    """``rocelab expect``."""

    expectations: list[ExpectationAnswer]
    verdict: Literal["pass", "fail", "unknown"]
    """The worst verdict of the expectations."""


class JobRun(Answer):
    """``rocelab job allreduce``, and the other collectives."""

    collective: Literal["allreduce", "allgather", "reduce-scatter", "alltoall", "broadcast", "sendrecv"]
    algorithm: str
    """The requested algorithm; with auto, MPICH chooses."""
    ranks: list[RankPlace]
    rows: list[JobRow]
    """One for each size, in the order of measurement."""
    start_s: float
    """Seconds until every rank knew all others."""
    iterations: int
    """Measured steps of each size."""
    tclass: int
    ranks_per_host: int
    """Ranks of a host that share its memory; 1 unless the algorithm is hierarchical."""
    wrong: int
    """Wrong elements of all sizes; above 0 the command exits with 1."""
    time: Literal["host", "virtual"]
    """Clock of the machine: real time (host), or the VM's virtual time."""
    pod: Literal["macvlan", "ipvlan"] | None
    """The kind of the pods' interfaces; null if ranks run in hosts."""
    warnings: list[str]
    """Reasons why the figures may not be those of the network."""


class JobExport(Answer):
    """``rocelab job export``."""

    format: Literal["chakra", "goal"]
    files: list[str]
    """The files that were written."""
    ranks: int
    steps: int
    """Steps of each rank."""


class JobTrain(Answer):
    """``rocelab job train``."""

    name: str
    ranks: list[RankFigures]
    """Ranks that train: without the one on the storage host."""
    storage: RankPlace | None
    """The rank on the storage host."""
    groups: str
    """The groups of ranks, for example "tensor 2, data 4"."""
    phases: list[PhaseFigures]
    """The phases of a mean step of all ranks."""
    steps: list[StepFigures]
    rank_steps: list[RankStep]
    """Every measured step of every rank, ordered by step."""
    size: int
    """Bytes of the gradients of a rank; 0 without."""
    algorithm: str
    """The requested algorithm of AllReduce; with auto, MPICH chooses."""
    tclass: int
    time_s: float
    """Mean time of a step, from the first rank that begins it to the last that ends it."""
    roofline_s: float
    """Mean time of a step if only computations and the rate of the slowest NIC cost time."""
    jct_ratio: float
    """``time_s`` divided by ``roofline_s``."""
    straggler: int
    """The rank whose computations ended last in most steps."""
    lateness_s: float
    """Mean time by which the last rank ended its computations after the median rank."""
    transfer_bps: float
    """Payload that all ranks together receive at least, while anything is transferred."""
    wrong: int
    """Wrong elements of all ranks and all steps; above 0 the command exits with 1."""
    start_s: float
    """Seconds until every rank knew all others."""
    time: Literal["host", "virtual"]
    """Clock of the machine: real time (host), or the VM's virtual time."""
    pod: Literal["macvlan", "ipvlan"] | None
    """The kind of the pods' interfaces; null if ranks run in hosts."""
    warnings: list[str]
    """Reasons why the figures may not be those of the network."""


class JobTransferAnswer(TransferResult):
    """``rocelab job transfer``."""

    verb: Literal["write", "read"]
    time: Literal["host", "virtual"]
    """Clock of the machine: real time (host), or the VM's virtual time."""
    warnings: list[str]
    """Reasons why the figures may not be those of the network."""
