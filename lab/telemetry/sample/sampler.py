"""The sampler process: reads all counters at a fixed rate and logs events of ports, kernel and routers.

It runs at a higher priority than ordinary programs, because perftest busy-polls on every CPU. Each sample has the
time at which it was due and at which it was taken.
"""

from __future__ import annotations

import json
import select
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from lab.kernel.netlink import netlink_events
from lab.kernel.process.nice import before_others
from lab.telemetry.sample import qp_rates, queue_pairs
from lab.telemetry.store import job_steps
from lab.telemetry.store.rawlog import LogFrameKind

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from lab.dataplane.events import Tail
    from lab.telemetry.sample.child_process import Control
    from lab.telemetry.sample.command_records import CommandRecords
    from lab.telemetry.sample.finished_steps import FinishedSteps
    from lab.telemetry.sample.qp_rates import QpRates
    from lab.telemetry.sample.queue_pairs import QueuePairs
    from lab.telemetry.sample.rdma_source import RdmaSource
    from lab.telemetry.sample.routing_sessions import Sessions
    from lab.telemetry.sample.setting_changes import SettingChanges
    from lab.telemetry.store.rawlog import LogWriter
    from lab.telemetry.store.sample_layout import CounterTable

_NS: Final = 10**9
_MS: Final = 10**6
_LOOK: Final = 200 * _MS
"""Interval in ns of reads from the ports' event log, which has room for thousands."""
_CHECK: Final = _NS
"""Interval in ns of checks whether the fabric still exists."""


class Source(Protocol):
    """A source of counters: fills words of a sample."""

    width: int

    @property
    def sections(self) -> tuple[CounterTable, ...]:
        """The layout of the words."""

    def read(self, words: NDArray[np.uint64]) -> None:
        """Read all counters into ``words``, which hold the previous values."""

    def close(self) -> None:
        """Close all descriptors."""


@dataclass
class Sampler:
    """The sampler: its sources, its event listeners, and the log it writes to."""

    log: LogWriter
    sources: Sequence[Source]
    interval: int
    """The time between samples, in ns."""
    is_live: Callable[[], bool]
    tail: Tail | None = None
    listeners: Sequence[socket.socket] = ()
    """One netlink socket a node, in the order of nodes."""
    sessions: Sessions | None = None
    queue_pairs: QueuePairs | None = None
    qp_rates: QpRates | None = None
    job_steps: FinishedSteps | None = None
    """For a live reader; recordings get the steps from the command that runs the job."""
    devices: RdmaSource | None = None
    """Also one of ``sources``; reports devices that are gone."""
    settings: SettingChanges | None = None
    """For a recording."""
    commands: CommandRecords | None = None
    """Commands and steps of jobs, for a live view."""
    announces: bool = False
    """Whether to report when all sessions are known, for a reader that waits for it."""
    samples: int = 0
    skipped: int = 0
    gone: bool = False
    failure: str = ""
    _ended: bool = False
    _resting: bool = False
    _words: NDArray[np.uint64] = field(init=False)
    _watched: select.poll = field(default_factory=select.poll)
    _numbers: dict[int, int] = field(init=False)
    _events_from: int = 0
    _next_look: int = 0
    _next_check: int = 0

    def __post_init__(self) -> None:
        self._words = np.zeros(sum(source.width for source in self.sources), np.uint64)
        self._numbers = {listener.fileno(): number for number, listener in enumerate(self.listeners)}

    def run(self, control: Control) -> None:
        """Sample until the parent requests the end, or is gone."""
        self._events_from = time.monotonic_ns()
        for descriptor in (*control.descriptors, *self._numbers):
            self._watched.register(descriptor, select.POLLIN)
        with before_others():
            due = time.monotonic_ns()
            while not self._ended:
                if self._works():
                    self._guarded(self._round, due)
                due = self._next(due)
                self._listen(control, due)
        self.log.close()

    def _works(self) -> bool:
        return not self.gone and not self.failure and not self._resting

    def _guarded(self, work: Callable[[int], None], argument: int) -> None:
        """Run ``work``; an OSError, for example a full disk, stops sampling but keeps the log."""
        try:
            work(argument)
        except OSError as error:
            self.failure = error.strerror or str(error)

    def _next(self, due: int) -> int:
        """Return the next due time that is not past; those that are past were missed, and are counted."""
        now = time.monotonic_ns()
        missed = max(0, (now - due) // self.interval) if self._works() else 0
        self.skipped += missed
        return max(due + (missed + 1) * self.interval, now if self._works() else now + self.interval)

    def _round(self, due: int) -> None:
        self._sample(due)
        now = time.monotonic_ns()
        if self.queue_pairs is not None:
            self.log.rows(queue_pairs.SCHEMA, now, list(self.queue_pairs.look(now)))
        if self.qp_rates is not None:
            self.log.rows(qp_rates.SCHEMA, now, list(self.qp_rates.look(now)))
        if self.job_steps is not None:
            self.log.rows(job_steps.SCHEMA, now, list(self.job_steps.look(now)))
        for told in (self.sessions, self.devices, self.commands):
            for event in told.look(now) if told is not None else ():
                self._tell(now, event)
        if self.announces and (self.sessions is None or self.sessions.are_known):
            self.announces = False
            self._tell(now, {"source": "recorder", "kind": "sessions_known"})
        if now >= self._next_look:
            self._next_look = now + _LOOK
            self._look_at_ports(now)
        if now >= self._next_check:
            self._next_check = now + _CHECK
            if not self.is_live():
                self.gone = True
                self._tell(now, {"source": "recorder", "kind": "fabric_gone"})
                self.log.flush()

    def _sample(self, due: int) -> None:
        words = self._words.copy()
        began = time.monotonic_ns()
        start = 0
        for source in self.sources:
            source.read(words[start : start + source.width])
            start += source.width
        self.log.sample(began, due, time.monotonic_ns() - began, words)
        self._words = words
        self.samples += 1

    def _look_at_ports(self, now: int) -> None:
        if self.settings is not None:
            self.settings.look(now)
        if self.tail is None:
            return
        fresh = self.tail.fresh()
        fresh = fresh[fresh["ns"] >= self._events_from]
        if len(fresh):
            self.log.frame(LogFrameKind.PORT_EVENTS, now, fresh.tobytes())

    def _tell(self, ns: int, event: dict[str, Any]) -> None:
        self.log.frame(LogFrameKind.EVENT, ns, json.dumps(event).encode())

    def _listen(self, control: Control, until: int) -> None:
        """Handle requests and netlink messages until the next sample is due."""
        while not self._ended and (left := until - time.monotonic_ns()) > 0:
            ready = self._watched.poll(left // _MS)
            if not ready and left < _MS:
                time.sleep(left / _NS)
            for descriptor, _ in ready:
                if descriptor in control.descriptors:
                    self._obey(control)
                    break
                self._guarded(self._hear, self._numbers[descriptor])

    def _hear(self, number: int) -> None:
        pieces, lost = netlink_events.take(self.listeners[number])
        now = time.monotonic_ns()
        if not self._works():
            return
        for piece in pieces:
            self.log.frame(LogFrameKind.KERNEL_NEWS, now, number.to_bytes(2, "little") + piece)
        if lost:
            self._tell(now, {"source": "recorder", "kind": "news_lost", "number": number})

    def _obey(self, control: Control) -> None:
        """Handle a request: take a sample, the last one on ``end`` or if the parent is gone; none on ``look``.

        After ``rest`` it takes no samples and logs no events until ``wake``.
        """
        said = control.heard()
        if self._resting and said is not None and said["do"] == "wake":
            self._wake()
        if self._works() and (said is None or said["do"] != "look"):
            self._guarded(self._mark, time.monotonic_ns())
        self._ended = said is None or said["do"] == "end"
        self._resting = self._resting or (said is not None and said["do"] == "rest")
        if said is not None:
            control.say(
                {
                    "ns": self.log.last_ns, "failure": self.failure, "gone": self.gone,
                    "samples": self.samples, "skipped": self.skipped,
                }
            )  # fmt: skip

    def _wake(self) -> None:
        """Resume, and discard port events of the time between."""
        self._resting = False
        self._events_from = time.monotonic_ns()
        if self.tail is not None:
            self.tail.fresh()

    def _mark(self, due: int) -> None:
        for number in range(len(self.listeners)):
            self._hear(number)
        self._sample(due)
        self._look_at_ports(time.monotonic_ns())
        self.log.flush()
