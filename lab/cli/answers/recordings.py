"""What is answered about recordings: ``rocelab record``."""

from __future__ import annotations

from typing import Literal

from lab.cli.answers.base import Answer


class Started(Answer):
    """``rocelab record start``."""

    name: str
    fabric: str
    folder: str
    hz: float


class RecordingSummaryAnswer(Answer):
    """A recording of ``rocelab record ls``."""

    name: str
    fabric: str
    state: Literal["recording", "complete", "interrupted", "incomplete", "damaged"]
    """interrupted: it ended early, because of an error, a signal or `down`. incomplete: its recorder was killed."""
    seconds: float | None
    """None of one that is not complete."""
    folder: str
    why: str
    """Why it was interrupted, or what is damaged; empty otherwise."""


class PhaseAnswer(Answer):
    """A part of a run that has a name."""

    name: str
    start: float
    """Seconds into the recording."""
    seconds: float


class BusyAnswer(Answer):
    """A port, and what it carried on average; bit/s of frames."""

    port: str
    rx_bps: float
    tx_bps: float


class TransferAnswer(Answer):
    """What a pair of hosts moved, from its first message posted to its last one completed."""

    pair: str
    verb: Literal["write", "read", "send"]
    start: float
    """Seconds into the recording."""
    seconds: float
    """By perftest's clock."""
    bytes: int
    """Payload."""
    messages: int
    goodput_bps: float
    message_median: float | None
    """Seconds; None where messages were not timed one by one."""
    message_max: float | None


class RecordingAnswer(Answer):
    """``rocelab record show``, and of the one that it ended ``stop``."""

    name: str
    fabric: str
    folder: str
    complete: bool
    why: str
    """Why it ended otherwise than by its recorder's wish; empty when it did not."""
    began: str
    """By the clock on the wall, as ISO 8601 has it."""
    seconds: float
    hz: float
    samples: int
    skipped: int | None
    """Samples that were due and not taken; None where nobody counted them."""
    late_mean: float
    """Seconds."""
    late_max: float
    phases: list[PhaseAnswer]
    busiest: list[BusyAnswer]
    """The busiest ports first."""
    events: dict[str, int]
    """How many, by source and kind."""
    transfers: list[TransferAnswer]
    """In the order in which they ended."""
    commands: int
    captures: list[str]
    terminals: list[str]
    """Files below the recording's folder."""


class PortFigures(Answer):
    """A port's line of ``rocelab top``, over the last second; None for what a plain link has not got."""

    tx_bps: float | None
    """Bit/s of frames, without FCS."""
    rx_bps: float | None
    queue_bytes: float | None
    """Bytes that wait now."""
    paused: float | None
    """Share of the time in which the priority that suffers most might not send."""
    rx_pauses: float | None
    """PFC frames in a second that pause it."""
    tx_pauses: float | None
    """PFC frames in a second by which it pauses its peer."""
    marked: float | None
    """Packets marked CE in a second."""
    dropped: float | None
    """Packets dropped in a second, for any reason."""


class DeviceFigures(Answer):
    """An RDMA device's line of ``rocelab top``; None for what it does not count."""

    tx_bps: float | None
    """Bit/s of RoCE packets."""
    rx_bps: float | None
    tx_packets: float | None
    rx_packets: float | None
    gaps: float | None
    """Requests in a second whose PSN was beyond the expected one."""
    naks: float | None
    """NAKs in a second for a sequence error, received."""
    again: float | None
    """Requests in a second that were received again."""
    retries: float | None
    """Times in a second that an answer was waited for in vain."""


class SessionAnswer(Answer):
    """How a session of a router is, as far as it told."""

    node: str
    interface: str
    protocol: str
    state: str
    since_ns: int
    """Since when, ns of CLOCK_MONOTONIC: as the daemon knows it, or when that was seen first."""
    changes: int


class QueuePairAnswer(Answer):
    """A queue pair of an RDMA device, as the kernel told of it."""

    node: str
    interface: str
    qpn: int
    type: str
    """RC, UC or UD."""
    remote_qpn: int | None
    """At the far end; None of a datagram's."""
    state: str
    """RESET, INIT, RTR, RTS, SQD, SQE or ERR (IBA vol. 1, 10.3.1)."""
    program: str
    """Whose it is; empty where that is not known."""
    since_ns: int
    """When that was seen first, ns of CLOCK_MONOTONIC."""


class DashboardAnswer(Answer):
    """``rocelab top --json``, and a moment of a recording: ``rocelab replay RUN --at S --json``."""

    name: str
    """Of the fabric, or of the recording."""
    time: str
    """In which all seconds and rates count: "virtual" in the VM's virtual time, "host" elsewhere, "" if unknown."""
    ns: int
    """When the sample was taken, ns of CLOCK_MONOTONIC."""
    seconds: float
    """Over how long rates were taken."""
    ports: dict[str, PortFigures]
    devices: dict[str, DeviceFigures]
    sessions: list[SessionAnswer]
    queue_pairs: list[QueuePairAnswer]
    """Those that there are; none in a recording of before they were told of."""
