"""The processes of a job: one rank in the namespace of each NIC's host, monitored until all have ended."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from lab.errors import OperationFailed
from lab.jobs import job_failure, rank_program
from lab.jobs.bus_bandwidth import RankSteps
from lab.jobs.pmi_server import PmiServer
from lab.jobs.rank_schedule import StepTimes
from lab.kernel.process import process, signals
from lab.kernel.process.node_session import NodeSession
from lab.rdma import sysfs
from lab.shipped import PACKAGE
from lab.units import format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lab.rdma.measure import Nic

_TICK: Final = 0.25
"""Seconds between two looks at the reports. They are not read at once: ranks may need the CPU for their steps."""
_OCTETS: Final = 1 << 16
"""Octets of one read."""
_AT_ONCE: Final = 1 << 20
"""Octets that a pipe holds, so that no rank waits for a look: more than the longest report has."""
_KEPT: Final = 1 << 16
"""Octets of a rank's output that are kept, from its end."""
_STOPPED: Final = frozenset("Tt")
"""States of a process in /proc/PID/stat: stopped by a signal, or by a debugger."""
_LAST_WORDS: Final = 1.0
"""Seconds that other ranks have to print an error after one has failed."""
_DESCRIPTORS: Final = 5
"""Open files for each rank: three streams, its PMI socket and its pidfd."""
_SPARE: Final = 32
"""Open files while a rank starts."""
_DAMAGED: Final = "./scripts/setup installs MPI again"


@dataclass(frozen=True, slots=True)
class JobPatience:
    """Timeouts in seconds without a new RDMA packet, a report or a PMI request of a rank."""

    start: float = 60.0
    """Until all ranks are ready."""
    stall: float = 20.0
    """After that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedRank:
    """The process of a rank, its PMI socket, and the descriptors of its reports and of its other output."""

    program: process.Process
    control: socket.socket
    reports: int
    output: int


@dataclass(slots=True, kw_only=True)
class Rank:
    """One rank: its process, and what it has reported."""

    number: int
    nic: Nic
    argv: process.Argv
    environment: Mapping[str, str]
    plan: bytes = b""
    """The plan that the program reads from a descriptor; empty for ``rank_program``."""
    rail: int = 0
    """The ranks of one rail are an MPI job of their own, in the order of their numbers."""
    descriptors: Sequence[int] = ()
    """Open files that the program inherits."""
    ready_at: float | None = None
    """When MPI_Init returned, in seconds of CLOCK_MONOTONIC; None before."""
    done: bool = False
    """Whether it has reported all results; it then waits for the end of its standard input."""
    at: tuple[int, int] | None = None
    """The size and number of the step that it began last; the size is 0 in a scheduled job."""
    steps: int = 0
    """The number of steps that it has begun."""
    results: dict[int, RankSteps] = field(default_factory=dict)
    """The measured steps by size."""
    scheduled: list[StepTimes] = field(default_factory=list)
    """The measured steps of a scheduled job."""
    _started: StartedRank | None = None
    _begun: bytes = b""
    _printed: bytes = b""

    def __str__(self) -> str:
        return f"rank {self.number} at {self.nic}"

    @property
    def code(self) -> int | None:
        """The exit code; None before the start and while it runs."""
        return self._started.program.poll() if self._started else None

    @property
    def has_failed(self) -> bool:
        """Whether it has ended with an error, or before it was done."""
        return self.code is not None and (self.code != 0 or not self.done)

    @property
    def started(self) -> StartedRank:
        """The running process; OperationFailed before the start."""
        if self._started is None:
            raise OperationFailed(f"{self} was not started", "run the job again")
        return self._started

    @property
    def progress(self) -> str:
        """How far it came, for an error."""
        if self.at is None:
            return "before the first step" if self.ready_at is not None else "while it started"
        size, step = self.at
        return f"in step {step + 1}{f' of {format_size(size)}' if size else ''}"

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has stopped the process, or a debugger."""
        with contextlib.suppress(OSError):
            state = Path(f"/proc/{self.started.program.pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2]
            return state[:1] in _STOPPED
        return False

    def output(self) -> str:
        """Return the end of what MPI and UCX printed."""
        return self._printed.decode("utf-8", "replace")

    def start(self) -> None:
        """Start the program in its host's namespace, with a socket to the launcher."""
        node = NodeSession(self.nic.namespace, hostname=self.nic.host, directories={})
        pipe = process.PIPE
        with signals.held(), contextlib.ExitStack() as opened, contextlib.ExitStack() as keeping:
            ours, theirs = socket.socketpair()
            keeping.enter_context(ours)
            opened.enter_context(theirs)
            ours.setblocking(False)
            environment = {**self.environment, "PMI_FD": str(theirs.fileno())}
            kept = [theirs.fileno(), *self.descriptors]
            if self.plan:
                plan = opened.enter_context(_memory_file(self.plan)).fileno()
                environment[rank_program.PLAN] = str(plan)
                kept.append(plan)
            within = process.Surroundings(environment=environment, keep=kept)
            program = node.start(self.argv, stdin=pipe, stdout=pipe, stderr=pipe, within=within)
            keeping.pop_all()
            reports, output = (stream.fileno() for stream in (program.stdout, program.stderr) if stream is not None)
            self._started = StartedRank(program=program, control=ours, reports=reports, output=output)
            for descriptor in (reports, output):
                os.set_blocking(descriptor, False)
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _AT_ONCE)

    def read(self) -> bool:
        """Read what the program has reported and printed so far, and return whether it has reported anything.

        Raises OperationFailed for a report that is none.
        """
        self._printed = (self._printed + _available(self.started.output))[-_KEPT:]
        octets = _available(self.started.reports)
        *lines, self._begun = (self._begun + octets).split(b"\n")
        try:
            for line in lines:
                self._note(json.loads(line))
            if len(self._begun) > _AT_ONCE:
                raise ValueError("an endless line")
        except (ValueError, TypeError, LookupError) as error:
            raise OperationFailed(
                f"{self} sent a report that cannot be read {self.progress}: {error}", _DAMAGED
            ) from error
        return bool(octets)

    def _note(self, said: dict[str, Any]) -> None:
        if "ready_ns" in said:
            self.ready_at = said["ready_ns"] / 1e9
        elif "done" in said:
            self.done = True
        elif "step" in said:
            size, step = said["step"]
            self.at = (size, step)
            self.steps += 1
        elif "begun" in said:
            self.at = (0, said["begun"])
            self.steps += 1
        elif "operations" in said:
            operations = tuple((start, end) for start, end in said.pop("operations"))
            self.scheduled.append(StepTimes(operations=operations, **said))
        else:
            self.results[said["size"]] = RankSteps(
                begin_ns=tuple(said["begin_ns"]),
                end_ns=tuple(said["end_ns"]),
                wrong=said["wrong"],
            )

    def release(self) -> None:
        """End a rank that is done, by closing its standard input."""
        stdin = self.started.program.stdin
        if stdin is not None:
            stdin.close()

    def kill(self) -> None:
        """Kill the process, if it runs, with everything that it started."""
        if self._started is not None and self.code is None:
            process.kill_all(self._started.program)

    def close(self) -> None:
        """Wait for the end of the process, and close its streams."""
        if self._started is not None:
            self._started.program.wait()
            program = self._started.program
            for stream in (program.stdin, program.stdout, program.stderr, self._started.control):
                if stream is not None:
                    stream.close()


def rank_argv(library: Path, words: Sequence[object]) -> list[str]:
    """Return the command line of a rank: Python without packages, which starts fast in an emulated guest."""
    program = Path(rank_program.__file__)
    return [sys.executable, "-I", "-S", str(program), str(library), *map(str, words)]


def module_argv(module: str, library: Path) -> list[str]:
    """Return the command line of a rank that runs a module of rocelab, which may import others, and no package."""
    program = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); from {module} import main"
    return [sys.executable, "-I", "-S", "-c", f"{program}; main(sys.argv[1:])", str(library)]


def _memory_file(octets: bytes) -> BinaryIO:
    """Return an open file in memory, at its begin."""
    file = os.fdopen(os.memfd_create("plan"), "w+b")
    file.write(octets)
    file.seek(0)
    return file


def run_ranks(ranks: Sequence[Rank], patience: JobPatience, report: Callable[[str, int, int], None]) -> float:
    """Run all ranks to their end; return the seconds until each of them could begin its first step.

    Raises the error of the first rank that fails, or of the one that is furthest behind if nothing moves for longer
    than ``patience`` allows. All processes have ended when this returns or raises.
    """
    process.allow_descriptors(_DESCRIPTORS * len(ranks) + _SPARE)
    try:
        began = time.monotonic()
        for rank in ranks:
            rank.start()
        _Watch(ranks, patience, report).until_ended()
        return max(rank.ready_at or began for rank in ranks) - began
    finally:
        end_ranks(ranks)


def end_ranks(ranks: Sequence[Rank]) -> None:
    """Kill all ranks that still run, with everything that they started, and wait for them."""
    with signals.held():  # a second Ctrl-C would leave processes running
        for rank in ranks:
            rank.kill()
        for rank in ranks:
            rank.close()


class _Watch:
    """Serves the ranks until all have ended, and notices when nothing moves."""

    def __init__(self, ranks: Sequence[Rank], patience: JobPatience, report: Callable[[str, int, int], None]) -> None:
        self.ranks, self.patience, self.report = ranks, patience, report
        self.rails = {rail: [rank for rank in ranks if rank.rail == rail] for rail in {each.rail for each in ranks}}
        self.pmi = {rail: PmiServer(len(among)) for rail, among in self.rails.items()}
        self.moved_at, self.look_at = time.monotonic(), 0.0
        self.packets = -1

    def until_ended(self) -> None:
        """Answer PMI requests at once, and look at everything else at each tick or when a rank ends."""
        with selectors.DefaultSelector() as sources, contextlib.ExitStack() as opened:
            for rank in self.ranks:
                self._listen(sources, opened, rank)
            while any(rank.code is None for rank in self.ranks):
                for key, _ in sources.select(max(0.0, self.look_at - time.monotonic())):
                    if not key.data():
                        sources.unregister(key.fileobj)
                if time.monotonic() >= self.look_at:
                    self._look()
        self._refuse_failures()

    def _listen(self, sources: selectors.BaseSelector, opened: contextlib.ExitStack, rank: Rank) -> None:
        ended = os.pidfd_open(rank.started.program.pid)
        opened.callback(os.close, ended)
        sources.register(ended, selectors.EVENT_READ, self._end)
        sources.register(rank.started.control, selectors.EVENT_READ, lambda: self._answer(rank))

    def _end(self) -> bool:
        """Look at once, because a rank has ended."""
        self.look_at = 0.0
        return False

    def _answer(self, rank: Rank) -> bool:
        """Answer a rank's PMI requests, and return whether more can follow."""
        try:
            octets = rank.started.control.recv(_OCTETS)
            among = self.rails[rank.rail]
            replies = self.pmi[rank.rail].receive([each.number for each in among].index(rank.number), octets)
        except ConnectionError:  # it ended meanwhile, which its exit code shows
            return False
        except ValueError as error:
            raise self._no_pmi(rank, f"sent no PMI-1: {error}") from error
        for number, reply in replies:
            self._send(among[number], reply)
        self.moved_at = time.monotonic()
        return bool(octets)

    def _send(self, rank: Rank, reply: bytes) -> None:
        try:
            rank.started.control.sendall(reply)
        except BlockingIOError as error:
            raise self._no_pmi(rank, "does not read PMI replies") from error
        except ConnectionError:  # as above
            return

    def _no_pmi(self, rank: Rank, what: str) -> OperationFailed:
        rank.read()  # its last step
        return OperationFailed(f"{rank} {what} ({rank.progress})", _DAMAGED)

    def _look(self) -> None:
        """Read reports, raise for a failed or hanging job, and end the ranks when all of them are done."""
        now = time.monotonic()
        self.look_at = now + _TICK
        for rank in self.ranks:
            if rank.read():
                self.moved_at = now
        self._refuse_failures()
        ready = sum(rank.ready_at is not None for rank in self.ranks)
        self.report("start", ready, len(self.ranks))
        if ready == len(self.ranks):
            self._release(sum(rank.done for rank in self.ranks))
        self._refuse_stall(now, self.patience.stall if ready == len(self.ranks) else self.patience.start)

    def _release(self, done: int) -> None:
        """End the ranks once all of them are done: UCX loses what it still sends when its process ends."""
        self.report("ranks done", done, len(self.ranks))
        if done == len(self.ranks):
            for rank in self.ranks:
                rank.release()

    def _refuse_stall(self, now: float, patience: float) -> None:
        """Raise if nothing moves. Packets are no progress while a rank is stopped: they may be retransmissions."""
        running = [rank for rank in self.ranks if rank.code is None]
        packets = sum(sysfs.new_packets(rank.nic.device) for rank in self.ranks)
        if packets != self.packets and not any(rank.is_stopped for rank in running):
            self.moved_at = now
        self.packets = packets
        if running and now - self.moved_at > patience:
            raise job_failure.stalled(running, patience)

    def _refuse_failures(self) -> None:
        """Raise for the first rank that failed, after giving the others a moment to print an error."""
        if any(rank.has_failed for rank in self.ranks):
            deadline = time.monotonic() + _LAST_WORDS
            while time.monotonic() < deadline and any(rank.code is None for rank in self.ranks):
                time.sleep(_TICK / 10)
            for rank in self.ranks:
                rank.read()  # what it wrote just before its end
            raise job_failure.ended_early(self.ranks)


def _available(descriptor: int) -> bytes:
    """Return what a pipe holds, without waiting for more."""
    found = b""
    with contextlib.suppress(BlockingIOError):
        while len(found) < _AT_ONCE and (octets := os.read(descriptor, _OCTETS)):
            found += octets
    return found
