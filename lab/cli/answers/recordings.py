"""The ``--json`` answers about recordings: ``rocelab record``, ``top`` and ``replay``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lab.cli.answers.base import Answer, Models
from lab.telemetry.read import recording_summary

if TYPE_CHECKING:  # a model has the attributes of the dataclass that it is made of
    from lab.telemetry.read.recording_summary import BusyPort
else:
    BusyPort = Models().of(recording_summary.BusyPort)


class Started(Answer):
    """``rocelab record start``."""

    name: str
    fabric: str
    folder: str
    hz: float


class LiveAnswer(Answer):
    """``rocelab live``: a line when it serves, and one each time that the URL was used, with the next URL."""

    fabric: str
    url: str


class RecordingSummaryAnswer(Answer):
    """A recording of ``rocelab record ls``."""

    name: str
    fabric: str
    state: Literal["recording", "complete", "interrupted", "incomplete", "damaged"]
    """interrupted: it ended early, because of an error, a signal or `down`. incomplete: its recorder was killed."""
    seconds: float | None
    """null if the recording is not complete."""
    folder: str
    why: str
    """The reason of an interruption, or the damage; empty otherwise."""


class PhaseAnswer(Answer):
    """A named phase of a run."""

    name: str
    start: float
    """Seconds since the start of the recording."""
    seconds: float


class BusyAnswer(BusyPort):
    """A port and its average load; bit/s of frames."""


class TransferAnswer(Answer):
    """The transfer of a pair of hosts, from the first posted message to the last completed one."""

    pair: str
    verb: Literal["write", "read", "send"]
    start: float
    """Seconds since the start of the recording."""
    seconds: float
    """Duration measured by perftest."""
    bytes: int
    """Payload bytes."""
    messages: int
    goodput_bps: float
    message_median: float | None
    """Seconds; null if messages were not timed individually."""
    message_max: float | None


class RecordingAnswer(Answer):
    """``rocelab record show``, and ``rocelab record stop`` for the recording that it ended."""

    name: str
    fabric: str
    folder: str
    complete: bool
    why: str
    """The reason if the recorder did not end normally; empty otherwise."""
    began: str
    """Wall-clock time in ISO 8601 format."""
    seconds: float
    hz: float
    samples: int
    skipped: int | None
    """Samples that were missed; null if they were not counted."""
    late_mean: float
    """Mean delay of a sample in seconds."""
    late_max: float
    phases: list[PhaseAnswer]
    busiest: list[BusyAnswer]
    """Ports with the highest load, in descending order."""
    events: dict[str, int]
    """Number of events by source and kind."""
    transfers: list[TransferAnswer]
    """Transfers in the order in which they ended."""
    commands: int
    captures: list[str]
    terminals: list[str]
    """Files in the recording's folder."""


class PortFigures(Answer):
    """A port's line of ``rocelab top``, over the last second; null for values that a plain link lacks."""

    tx_bps: float | None
    """Bit/s of frames, without FCS."""
    rx_bps: float | None
    queue_bytes: float | None
    """Bytes in the queue now."""
    paused: float | None
    """Share of the time in which the most paused priority could not send."""
    rx_pauses: float | None
    """Received PFC frames per second that pause the port."""
    tx_pauses: float | None
    """Sent PFC frames per second that pause the peer."""
    marked: float | None
    """Packets per second that were marked CE."""
    dropped: float | None
    """Packets per second that were dropped, for any reason."""


class DeviceFigures(Answer):
    """An RDMA device's line of ``rocelab top``; null for values that it does not count."""

    tx_bps: float | None
    """Bit/s of RoCE packets."""
    rx_bps: float | None
    tx_packets: float | None
    rx_packets: float | None
    gaps: float | None
    """Requests per second with a PSN beyond the expected one."""
    naks: float | None
    """Received NAKs per second for a PSN sequence error."""
    again: float | None
    """Duplicate requests per second."""
    retries: float | None
    """Response timeouts per second."""


class SessionAnswer(Answer):
    """The state of a routing session, as far as the daemon reports it."""

    node: str
    interface: str
    protocol: str
    state: str
    since_ns: int
    """Begin of this state in ns of CLOCK_MONOTONIC: reported by the daemon, or first observed."""
    changes: int


class QueuePairAnswer(Answer):
    """A queue pair of an RDMA device, as the kernel reports it."""

    node: str
    interface: str
    qpn: int
    type: str
    """RC, UC or UD."""
    remote_qpn: int | None
    """QPN at the remote end; null for UD."""
    state: str
    """RESET, INIT, RTR, RTS, SQD, SQE or ERR (IBA vol. 1, 10.3.1)."""
    program: str
    """The program that owns it; empty if it is not known."""
    since_ns: int
    """Time of the first observation in ns of CLOCK_MONOTONIC."""
    rate_bps: int | None
    """The rate to which congestion control limits it, in bit/s; null if it does not."""


class JobRankAnswer(Answer):
    """A rank of a training job at the last step that all ranks had ended."""

    job: str
    rank: int
    node: str
    interface: str
    step: int
    step_time_s: float
    share: float
    """Communication divided by the step, 0 to 1."""
    waiting_s: float
    """From the begin of its communication until the last rank began."""
    late_s: float
    """The begin of its communication after that of the median rank; negative if it was earlier."""
    straggler: bool
    """Whether it was the last rank to begin the communication."""
    ended_ns: int
    """End of the step in ns of CLOCK_MONOTONIC."""


class RequesterAnswer(Answer):
    """A host that makes requests of a transfer (``rocelab job transfer``)."""

    transfer: str
    """The direction, and the number of a further transfer: write, write #2."""
    node: str
    interface: str
    target: str
    """NIC of the other host in the request that began last."""
    complete: int
    under_way: int
    last_s: float | None
    """Duration of the last complete request; null without one."""
    mean_s: float | None
    """Mean duration of the complete requests; null without one."""


class DashboardAnswer(Answer):
    """``rocelab top --json``, and a moment of a recording: ``rocelab replay RUN --at S --json``."""

    name: str
    """Name of the fabric or of the recording."""
    time: str
    """Clock of all times and rates: "virtual" for the VM's virtual time, otherwise "host"; empty if unknown."""
    ns: int
    """Time of the sample in ns of CLOCK_MONOTONIC."""
    seconds: float
    """Interval over which rates were computed, in seconds."""
    ports: dict[str, PortFigures]
    devices: dict[str, DeviceFigures]
    sessions: list[SessionAnswer]
    queue_pairs: list[QueuePairAnswer]
    """The existing queue pairs; empty in recordings of versions that did not record them."""
    job_ranks: list[JobRankAnswer]
    """The ranks of training jobs at their last step; empty without a job."""
    requesters: list[RequesterAnswer]
    """Hosts that make requests of transfers; empty without one, and for a running fabric."""


class FiredAlertAnswer(Answer):
    """An alert that fired in a recording."""

    name: str
    where: str
    """The node, with the interface, device or peer."""
    labels: dict[str, str]
    root: bool
    """Whether Alertmanager notifies of it: nothing inhibits it."""
    scrapes: list[int]
    """The scrapes at which it fired, from 0."""


class AlertsAnswer(Answer):
    """The alerts of one recording, and how good they were."""

    run: str
    scenario: str
    alerts: list[FiredAlertAnswer]
    cause: str
    """The injected cause; empty without a fault."""
    detected: bool | None
    delay: int | None
    """Scrapes from the fault to the first alert that means its cause."""
    false_alarms: int
    root_right: bool | None
