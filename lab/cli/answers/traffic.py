"""What is answered about RDMA and what is expected of it: ``rocelab rdma`` and ``rocelab expect``."""

from __future__ import annotations

from typing import Literal

from lab.cli.answers.base import Answer


class Bandwidth(Answer):
    """A pair of ``rocelab rdma bw``."""

    src: str
    dst: str
    verb: str
    goodput_bps: int
    """Payload only, bit/s, over all QPs."""
    messages: int
    duration_s: float
    began_s: float
    """Seconds after the first pair."""
    size: int
    """Bytes of a message."""
    qps: int
    mtu: int
    tclass: int


class TotalBandwidth(Answer):
    """All pairs of ``rocelab rdma bw``, over one window."""

    goodput_bps: int
    messages: int
    window_s: float


class Balance(Answer):
    """Where the packets of the window are."""

    sent: int
    received: int
    dropped: int | None
    """None where no port counts drops."""
    under_way: int


class _Measured(Answer):
    time: Literal["host", "virtual"]
    """Whose time the machine lives in."""
    counters: dict[str, dict[str, int]]
    """By host: by how much its device's counters grew."""
    counters_window_s: float
    balance: Balance


class Arrived(Answer):
    """What a receiver of ``rocelab rdma bw`` counted in the window, beside the messages that were counted in it."""

    host: str
    received: int
    """Packets."""
    messages: int
    of_messages: int
    """Packets that these messages take; what was received besides came again, out of order, or of others."""


class RdmaBw(_Measured):
    """``rocelab rdma bw``."""

    pairs: list[Bandwidth]
    all: TotalBandwidth
    arrivals: list[Arrived]


class Latency(Answer):
    """A pair of ``rocelab rdma lat``; seconds."""

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


class RdmaLat(_Measured):
    """``rocelab rdma lat``."""

    pairs: list[Latency]


class Gid(Answer):
    """An entry of a device's GID table (IBA vol. 1 section 4.1.1)."""

    index: int
    gid: str
    """An IPv4 address where it is one mapped into IPv6."""
    type: str
    """As the kernel calls it: RoCE v2."""


class RdmaDevice(Answer):
    """A device of ``rocelab rdma show``."""

    host: str
    interface: str
    device: str
    state: str
    """ACTIVE, or MISSING."""
    address: str
    gids: list[Gid]


class RdmaShow(Answer):
    """``rocelab rdma show``."""

    fabric: str
    devices: list[RdmaDevice]


class Expectation(Answer):
    """An expectation of ``rocelab expect``."""

    expected: str
    verdict: Literal["pass", "fail", "unknown"]
    value: float | None
    """What was seen, in bytes, bit/s or seconds; None where it was not measured."""
    seen: str


class Expect(Answer):
    """``rocelab expect``."""

    expectations: list[Expectation]
    verdict: Literal["pass", "fail", "unknown"]
    """The worst of them."""
