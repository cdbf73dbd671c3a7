"""What every command answers with ``--json``: one model for each, from which its JSON Schema is made.

Names stay; what is deeper than these models (``Any``) may still change.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from lab.cli import analysis_schemas


class _Answer(BaseModel):
    """A mapping whose keys are all told."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class Error(_Answer):
    """Why there is no answer."""

    kind: str
    """Class of the error, as UsageError."""
    message: str
    remedy: str
    exit_code: int
    source: str | None = None
    """Of a file with problems: its name."""
    problems: list[dict[str, Any]] | None = None
    """Of such a file: path, message, remedy and line of each."""


class ErrorAnswer(_Answer):
    """Any command's that failed before it answered."""

    error: Error


class ListedFabric(_Answer):
    """A fabric of ``rocelab ls``."""

    fabric: str
    state: str
    """up, changing, or in pieces."""
    nodes: int
    place: str
    """here, or VM."""


class Up(_Answer):
    """``rocelab up``."""

    fabric: str
    nodes: int
    seconds: dict[str, float]
    """How long each stage took."""
    restored: bool
    """The VM continued from a checkpoint of it."""


class Status(_Answer):
    """``rocelab status``."""

    fabric: str
    healthy: bool
    nodes: list[dict[str, Any]]


class InspectedInterface(_Answer):
    """An interface of ``rocelab inspect``."""

    name: str
    mac: str
    address: str | None
    peer: str
    """node:interface at the other end."""


class InspectedNode(_Answer):
    """A node of ``rocelab inspect``."""

    name: str
    role: str
    asn: int | None = Field(alias="as")
    loopbacks: list[str]
    namespace: str
    get_in: str
    interfaces: list[InspectedInterface]


class Inspect(_Answer):
    """``rocelab inspect``."""

    fabric: str
    nodes: list[InspectedNode]


class Paths(_Answer):
    """``rocelab path``."""

    src: str
    dst: str
    sport: int | None
    paths: list[list[str]]
    """Of each path, the interfaces by which packets leave."""


class Bandwidth(_Answer):
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


class TotalBandwidth(_Answer):
    """All pairs of ``rocelab rdma bw``, over one window."""

    goodput_bps: int
    messages: int
    window_s: float


class Balance(_Answer):
    """Where the packets of the window are."""

    sent: int
    received: int
    dropped: int | None
    """None where no port counts drops."""
    under_way: int


class _Measured(_Answer):
    time: str
    """Whose time the machine lives in: host or virtual."""
    counters: dict[str, dict[str, int]]
    """By host: by how much its device's counters grew."""
    counters_window_s: float
    balance: Balance


class RdmaBw(_Measured):
    """``rocelab rdma bw``."""

    pairs: list[Bandwidth]
    all: TotalBandwidth


class Latency(_Answer):
    """A pair of ``rocelab rdma lat``; seconds."""

    src: str
    dst: str
    verb: str
    size: int
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


class RdmaShow(_Answer):
    """``rocelab rdma show``."""

    fabric: str
    devices: list[dict[str, Any]]


class NodeCounters(_Answer):
    """A node of ``rocelab counters``."""

    seconds: float
    """When they were read, of the machine's monotonic clock."""
    pool: dict[str, int]
    interfaces: dict[str, dict[str, int]]
    """By interface: counters by name, those that are 0 left out unless --all is given."""


class Counters(_Answer):
    """``rocelab counters``; with --watch a line for each interval, with --names see ``counters --names``."""

    fabric: str
    emulated: bool
    nodes: dict[str, NodeCounters]
    unbalanced: list[dict[str, Any]]
    """Queues whose sums do not come out."""


class CongestionRoot(_Answer):
    """A tree of ``rocelab congestion``."""

    priority: int
    end: str | None
    """The queue that is too full; None where nobody's is."""
    depth: int
    pauses: list[dict[str, Any]]


class QosShow(_Answer):
    """``rocelab qos show``."""

    fabric: str
    emulated: bool
    nodes: dict[str, Any]


class Expectation(_Answer):
    """An expectation of ``rocelab expect``."""

    expected: str
    verdict: str
    """pass, fail or unknown."""
    value: float | None
    seen: str


class Expect(_Answer):
    """``rocelab expect``."""

    expectations: list[Expectation]
    verdict: str


class CapturedLink(_Answer):
    """A link of ``rocelab capture``."""

    link: str
    packets: int
    bytes: int
    dropped: int


class Capture(_Answer):
    """``rocelab capture``."""

    file: str
    links: list[CapturedLink]


class Doctor(_Answer):
    """``rocelab doctor``."""

    host: dict[str, Any]
    capabilities: list[dict[str, Any]]
    features: list[dict[str, Any]]


_Deep: TypeAlias = dict[str, Any]

ANSWERS: Final[dict[str, Any]] = {
    "error": ErrorAnswer,
    "doctor": Doctor,
    "topology show": _Deep,
    "up": Up,
    "ls": list[ListedFabric],
    "status": Status,
    "inspect": Inspect,
    "path": Paths,
    "rdma bw": RdmaBw,
    "rdma lat": RdmaLat,
    "rdma show": RdmaShow,
    "counters": Counters,
    "congestion": list[CongestionRoot],
    "qos show": QosShow,
    "qos events": list[_Deep],
    "expect": Expect,
    "capture": Capture,
    "dissect": analysis_schemas.Dissect,
    "analyze": analysis_schemas.Analyze,
    "follow": analysis_schemas.Follow,
    "craft": list[_Deep] | _Deep,
    "vm status": _Deep,
    "vm ls": list[_Deep],
    "vm checkpoint ls": list[_Deep],
}
"""What each command answers, and ``error``, which any may."""


def adapter(command: str) -> TypeAdapter[Any]:
    """What checks, and describes, the answers of a command; KeyError when it has none."""
    return TypeAdapter(ANSWERS[command])
