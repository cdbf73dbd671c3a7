"""Parameters and results of measurements between two hosts: plain data, validated on creation.

Units: bytes, bits per second, seconds. A *pair* goes from the side that starts the transfer to the other one. Data
flows in the same direction, except for a read, which fetches it from the destination.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed, UsageError
from lab.model.qos.congestion.cc_registers import QP_TIMEOUT
from lab.model.qos.headroom import PATH_MTUS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.kernel.process.netns import Namespace
    from lab.model.addressing import Address

DEFAULT_TCLASS: Final = 106
"""DSCP 26 (AF31), the usual lossless class, with ECT(0), so that switches may mark packets (RFC 3168)."""
DEFAULT_TIMEOUT: Final = QP_TIMEOUT
"""4.096 us * 2^18 = 1.07 s without an ACK before a QP retransmits (IBA vol. 1, 9.7.6.1.3), NCCL's long-time default.

perftest's own default of 14, 67 ms, is too short: QPs wait longer for each other on a link of 20 Mb/s, or for PFC
pauses. They would retransmit all packets in flight.
"""
MAX_SIZE: Final = 8 * 2**20
"""Size in bytes of the largest message that rxe accepts."""
MAX_QPS: Final = 1024
MARGIN: Final = 1
"""Seconds before and after the measured time, since several pairs start and end at slightly different times."""
_MIN_ITERATIONS: Final = 5


class ClockUnsteady(OperationFailed):
    """perftest could not measure with the CPU's cycle counter; a retry may succeed."""


class Verb(StrEnum):
    """The RDMA operation (IBA vol. 1, 9.4)."""

    WRITE = "write"
    READ = "read"
    SEND = "send"


@dataclass(frozen=True, slots=True)
class Nic:
    """One RDMA-capable interface of a host; its text is the host, or ``h1:eth2`` if the host has several."""

    host: str
    interface: str
    namespace: Namespace
    device: str
    address: Address
    only: bool = True
    rails: tuple[Nic, ...] = ()
    """Further NICs of the host that a job uses beside this one."""

    def __str__(self) -> str:
        return self.host if self.only else f"{self.host}:{self.interface}"


@dataclass(frozen=True, slots=True)
class Pair:
    """The source and destination of a transfer; UsageError for the same host, or for different IP versions."""

    src: Nic
    dst: Nic

    def __post_init__(self) -> None:
        if self.src.namespace == self.dst.namespace:
            raise UsageError(f"{self.src} and {self.dst} are the same host", "name two hosts")
        if self.src.address.version != self.dst.address.version:
            raise UsageError(f"{self} mixes {self.src.address} and {self.dst.address}", "use one IP version")

    def __str__(self) -> str:
        return f"{self.src} -> {self.dst}"


def receiver(pair: Pair, verb: Verb) -> Nic:
    """Return the receiver of a pair's data: for a read the source, which fetches it."""
    return pair.src if verb is Verb.READ else pair.dst


def check_tclass(tclass: int) -> None:
    """Raise UsageError unless an IP traffic class is one octet."""
    if not 0 <= tclass <= 255:
        raise UsageError(f"traffic class {tclass} is out of range", "use 0 to 255: DSCP * 4 + ECN")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Common:
    verb: Verb = Verb.WRITE
    tclass: int = DEFAULT_TCLASS
    mtu: int | None = None
    timeout: int = DEFAULT_TIMEOUT

    def _check(self, size: int) -> None:
        if not 1 <= size <= MAX_SIZE:
            raise UsageError(f"message size {size} is out of range", f"use 1 to {MAX_SIZE} bytes")
        check_tclass(self.tclass)
        if not 1 <= self.timeout <= 31:
            raise UsageError(f"QP timeout {self.timeout} is out of range", "use 1 to 31: 4.096 us * 2^timeout")
        if self.mtu is not None and self.mtu not in PATH_MTUS:
            raise UsageError(f"path MTU {self.mtu} does not exist", f"use one of {', '.join(map(str, PATH_MTUS))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthTest(_Common):
    """Parameters of a throughput measurement over ``duration`` whole seconds, or ``iterations`` messages per QP.

    A second before and after ``duration`` is warm-up and drain, and not counted. ``mtu`` None is the largest that the
    interfaces allow. ``pace`` is the number of messages per second that a pair begins, over all QPs; None is
    unlimited. UsageError if a value is out of range.
    """

    size: int = 64 * 1024
    qps: int = 1
    duration: int | None = 5
    iterations: int | None = None
    tx_depth: int = 128
    pace: int | None = None

    @property
    def margin(self) -> int:
        """Seconds of transfer before and after the measured time; 0 for a number of iterations."""
        return 0 if self.duration is None else MARGIN

    def __post_init__(self) -> None:
        self._check(self.size)
        if (self.duration is None) == (self.iterations is None):
            raise UsageError("give either a duration or a number of iterations", "leave one of them out")
        if self.duration is not None and self.duration < 1:
            raise UsageError(f"duration {self.duration} s is too short", "use at least 1s")
        if self.iterations is not None and self.iterations < _MIN_ITERATIONS:
            raise UsageError(f"{self.iterations} iterations are too few", f"use at least {_MIN_ITERATIONS}")
        if not 1 <= self.qps <= MAX_QPS:
            raise UsageError(f"{self.qps} QPs are out of range", f"use 1 to {MAX_QPS}")
        if not 1 <= self.tx_depth <= 8192:
            raise UsageError(f"send queue depth {self.tx_depth} is out of range", "use 1 to 8192")
        if self.pace is not None and self.pace < 1:
            raise UsageError(f"{self.pace} messages a second are too few", "use at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyTest(_Common):
    """Parameters of a latency measurement: ``iterations`` messages, one at a time. UsageError as for bandwidth."""

    size: int = 8
    iterations: int = 1000

    def __post_init__(self) -> None:
        self._check(self.size)
        if not _MIN_ITERATIONS <= self.iterations <= 1_000_000:
            raise UsageError(f"{self.iterations} iterations are out of range", "use 5 to 1000000")


@dataclass(frozen=True, slots=True)
class BandwidthResult:
    """The throughput of one pair over ``duration_s`` seconds."""

    src: str
    dst: str
    verb: str
    goodput_bps: int
    """Payload only, bit/s, over all QPs."""
    messages: int
    duration_s: float
    began_s: float
    """Seconds after the first pair began."""
    size: int
    """Bytes of a message."""
    qps: int
    mtu: int
    tclass: int

    @property
    def packets(self) -> int:
        """The number of packets of its messages, without retransmissions."""
        return self.messages * math.ceil(self.size / self.mtu)


@dataclass(frozen=True, slots=True)
class Total:
    """The throughput of all pairs in one common window of ``window_s`` seconds: payload in bit/s."""

    goodput_bps: int
    messages: int
    window_s: float


def total(results: Sequence[BandwidthResult]) -> Total:
    """Return the throughput of all pairs, over the window from the first pair's start to the last pair's end.

    Rates over different windows cannot be added: their sum may exceed the rate of any link.
    """
    window = max(result.began_s + result.duration_s for result in results)
    payload = sum(result.messages * result.size for result in results)
    return Total(round(payload * 8 / window), sum(result.messages for result in results), window)


@dataclass(frozen=True, slots=True)
class LatencyResult:
    """The latency of one pair in seconds: the round trip of a read, half of it for a write or send.

    Percentiles are observed samples (nearest rank). perftest's *typical* is ``p50_s``.
    """

    src: str
    dst: str
    verb: str
    size: int
    """Bytes of a message."""
    samples: int
    min_s: float
    p50_s: float
    avg_s: float
    p99_s: float
    p999_s: float
    max_s: float
    stdev_s: float
    mtu: int
    tclass: int


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the smallest of the ascending values that at least ``percent`` % of all do not exceed (nearest rank)."""
    # Rounded before ceil: 99.9 / 100 * 1000 is a little more than 999 in floating point.
    rank = math.ceil(round(percent / 100 * len(ordered), 9))
    return ordered[max(rank, 1) - 1]


def summarise(pair: Pair, test: LatencyTest, samples: Sequence[float], mtu: int) -> LatencyResult:
    """Return the statistics of at least one sample, in seconds; OperationFailed if there is none."""
    if not samples:
        raise OperationFailed(f"{pair}: nothing was measured", "use more iterations")
    ordered = sorted(samples)
    mean = math.fsum(ordered) / len(ordered)
    return LatencyResult(
        src=str(pair.src),
        dst=str(pair.dst),
        verb=test.verb.value,
        size=test.size,
        samples=len(ordered),
        min_s=ordered[0],
        p50_s=percentile(ordered, 50),
        avg_s=mean,
        p99_s=percentile(ordered, 99),
        p999_s=percentile(ordered, 99.9),
        max_s=ordered[-1],
        stdev_s=math.sqrt(math.fsum((sample - mean) ** 2 for sample in ordered) / len(ordered)),
        mtu=mtu,
        tclass=test.tclass,
    )
