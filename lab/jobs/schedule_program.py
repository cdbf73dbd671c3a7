"""The program of one rank of a scheduled job: runs the operations of its steps by MPI, and reports their times.

It imports nothing but the standard library and ``rank_program``. All communication is non-blocking (MPI 5.0, sections
3.7 and 6.12), so that it overlaps with computations where the schedule allows it. MPI progresses only in its calls: a
rank that computes sleeps, and calls ``MPI_Testsome`` every ``PROGRESS`` seconds as long as something is outstanding.

Standard output has one JSON object a line: ``{"ready_ns": TIME}`` when MPI and all groups are there, ``{"begun":
STEP}`` as a step begins, after the last step one line for each measured step (``StepTimes``), and ``{"done": RANK}``.
Every buffer that was received is compared with what its senders must have sent, between the steps.
"""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING, Any, Final

from lab.jobs import rank_program
from lab.jobs.rank_program import ELEMENT_OCTETS, PERIOD, Mpi, pattern, wrong_elements

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

PROGRESS: Final = 0.001
"""Seconds of a computation between two calls of MPI."""
_ERRORS_RETURN: Final = ctypes.c_void_p(0x143)
_ERROR_IN_STATUS: Final = 19
_ALIGNMENT: Final = 64
"""Bytes between the begins of two buffers, or a multiple."""


class _Status(ctypes.Structure):
    """MPI_Status."""

    _fields_ = (
        ("source", ctypes.c_int), ("tag", ctypes.c_int), ("error", ctypes.c_int), ("internal", ctypes.c_int * 5),
    )  # fmt: skip


class ScheduleMpi(Mpi):
    """The non-blocking calls of a rank. MPI's own end of the program would not say why an operation failed."""

    def __init__(self, library: str) -> None:
        super().__init__(library)
        self._call("MPI_Comm_set_errhandler", rank_program.WORLD, _ERRORS_RETURN)
        self._pending: list[tuple[int, ctypes.c_void_p]] = []
        """Operations with their requests."""

    def communicator(self, members: Sequence[int], tag: int) -> ctypes.c_void_p:
        """Return a communicator of some ranks; they all call this with the same tag."""
        world, group, made = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        ranks = (ctypes.c_int * len(members))(*members)
        self._call("MPI_Comm_group", rank_program.WORLD, ctypes.byref(world))
        self._call("MPI_Group_incl", world, len(members), ranks, ctypes.byref(group))
        self._call("MPI_Comm_create_group", rank_program.WORLD, group, tag, ctypes.byref(made))
        self._call("MPI_Comm_set_errhandler", made, _ERRORS_RETURN)
        return made

    def start(self, number: int, operation: Mapping[str, Any], buffers: tuple[Any, Any], group: Any) -> None:
        """Start an operation; ``group`` is the communicator and the number of ranks of a collective."""
        communicator, ranks = group
        send, receive = buffers
        request = ctypes.c_void_p()
        count = operation["size"] // ELEMENT_OCTETS
        part = count // ranks
        kind, of = operation["kind"], rank_program.INT32
        end = (communicator, ctypes.byref(request))
        match kind:
            case "send":
                words: tuple[Any, ...] = ("MPI_Isend", send, count, of, operation["peer"], operation["tag"])
            case "receive":
                words = ("MPI_Irecv", receive, count, of, operation["peer"], operation["tag"])
            case "allreduce":
                words = ("MPI_Iallreduce", send, receive, count, of, rank_program.SUM)
            case "reduce-scatter":
                words = ("MPI_Ireduce_scatter_block", send, receive, part, of, rank_program.SUM)
            case "allgather":
                words = ("MPI_Iallgather", send, part, of, receive, part, of)
            case "alltoall":
                words = ("MPI_Ialltoall", send, part, of, receive, part, of)
            case "broadcast":
                words = ("MPI_Ibcast", receive, count, of, 0)
            case _:
                raise ValueError(f"no operation {kind!r}")
        self._call(*words, *end)
        self._pending.append((number, request))

    @property
    def pending(self) -> bool:
        """Whether an operation is outstanding."""
        return bool(self._pending)

    def ended(self, *, wait: bool) -> list[int]:
        """Return the operations that have ended; with ``wait``, wait for one. Both progress all others."""
        requests = (ctypes.c_void_p * len(self._pending))(*(request.value for _, request in self._pending))
        indices = (ctypes.c_int * len(self._pending))()
        count = ctypes.c_int()
        statuses = (_Status * len(self._pending))()
        name = "MPI_Waitsome" if wait else "MPI_Testsome"
        code = self._code(name, len(requests), requests, ctypes.byref(count), indices, statuses)
        if code == _ERROR_IN_STATUS:
            failed = (status.error for status in statuses[: max(0, count.value)] if status.error)
            raise SystemExit(f"an operation failed: {self.error_text(next(failed, code))}")
        self._check(name, code)
        done = {indices[index] for index in range(max(0, count.value))}
        numbers = [self._pending[index][0] for index in sorted(done)]
        self._pending = [
            (number, ctypes.c_void_p(requests[index]))
            for index, (number, _) in enumerate(self._pending)
            if index not in done
        ]
        return numbers


def salt(operation: Mapping[str, Any], turn: int, step: int) -> int:
    """Return the first element of an operation's pattern; ``turn`` counts those of a group, or peer and tag."""
    size: int = operation["size"]
    tag: int = operation["tag"]
    return (size // ELEMENT_OCTETS + 17 * turn + 31 * step + 47 * tag) % PERIOD


def expected(operation: Mapping[str, Any], rank: int, ranks: Sequence[int], first: int) -> bytes:
    """Return what ``rank`` must receive; ``ranks`` are those of its group, or the sender of a message.

    Each rank sends the pattern, multiplied by its number plus 1, from element ``first``.
    """
    count = operation["size"] // ELEMENT_OCTETS
    part = count // len(ranks)
    place = ranks.index(rank) if rank in ranks else 0
    everyone = sum(ranks) + len(ranks)
    match operation["kind"]:
        case "receive" | "broadcast":
            return pattern(ranks[0] + 1, first, count)
        case "allreduce":
            return pattern(everyone, first, count)
        case "reduce-scatter":
            return pattern(everyone, first + place * part, part)
        case "allgather":
            return b"".join(pattern(each + 1, first, part) for each in ranks)
        case "alltoall":
            return b"".join(pattern(each + 1, first + place * part, part) for each in ranks)
    return b""


class StepVariant:
    """The operations of one kind of step at one rank, and the buffers of those that receive.

    Buffers are parts of ``memory``, which all variants share: a step ends before the next one begins.
    """

    def __init__(
        self, operations: Sequence[Mapping[str, Any]], groups: Sequence[Sequence[int]], memory: bytearray
    ) -> None:
        self.operations = operations
        self.queues: dict[Hashable, list[int]] = {}
        self.turns: list[int] = []
        """The number of each operation among those of its group, or with its peer and tag."""
        self.followers: list[list[int]] = [[] for _ in operations]
        self.received: dict[int, Any] = {}
        counted: dict[Hashable, int] = {}
        begin = 0
        for number, operation in enumerate(operations):
            queue = _queue(operation)
            turn = (queue, operation["tag"])
            self.turns.append(counted.get(turn, 0))
            counted[turn] = self.turns[-1] + 1
            self.queues.setdefault(queue, []).append(number)
            for before in operation["after"]:
                self.followers[before].append(number)
            size = received_size(operation, groups)
            if size:
                self.received[number] = (ctypes.c_char * size).from_buffer(memory, begin)
                begin += aligned(size)


def received_size(operation: Mapping[str, Any], groups: Sequence[Sequence[int]]) -> int:
    """Return the bytes of the buffer into which an operation receives."""
    if operation["kind"] in {"compute", "send"}:
        return 0
    size: int = operation["size"]
    return size // (len(groups[operation["group"]]) if operation["kind"] == "reduce-scatter" else 1)


def aligned(size: int) -> int:
    """Return a size rounded up to where the next buffer begins."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _queue(operation: Mapping[str, Any]) -> Hashable:
    if operation["kind"] == "compute":
        return "compute"
    return operation["group"] if operation["group"] >= 0 else (operation["kind"], operation["peer"])


class StepProgress:
    """The operations of a running step that have started and ended."""

    def __init__(self, variant: StepVariant) -> None:
        self.variant, self.left = variant, len(variant.operations)
        self.times = [[0, 0] for _ in variant.operations]
        """Start and end of each operation, in ns."""
        self.computing: int | None = None
        """The running computation."""
        self.until = 0
        """The end of the running computation, in ns."""
        self._missing = [len(set(operation["after"])) for operation in variant.operations]
        self._heads = dict.fromkeys(variant.queues, 0)

    def startable(self) -> int | None:
        """Take an operation that may start now from its queue; None if there is none."""
        for queue, numbers in self.variant.queues.items():
            head = self._heads[queue]
            if head == len(numbers) or self._missing[numbers[head]]:
                continue
            if queue != "compute" or self.computing is None:
                self._heads[queue] = head + 1
                return numbers[head]
        return None

    def end(self, numbers: Sequence[int], now: int) -> None:
        """Note that operations have ended."""
        for number in numbers:
            self.times[number][1] = now
            self.left -= 1
            for follower in self.variant.followers[number]:
                self._missing[follower] -= 1

    def end_computation(self, now: int) -> None:
        """Note the end of the running computation, if its time is over."""
        if self.computing is not None and now >= self.until:
            self.end([self.computing], now)
            self.computing = None


class StepRunner:
    """Runs the steps of one rank."""

    def __init__(self, mpi: ScheduleMpi, plan: Mapping[str, Any]) -> None:
        self.mpi, self.groups = mpi, plan["groups"]
        self.communicators = {
            number: mpi.communicator(group, number) for number, group in enumerate(self.groups) if mpi.rank in group
        }
        needed = (
            sum(aligned(received_size(each, self.groups)) for each in operations) for operations in plan["variants"]
        )
        memory = bytearray(max(needed, default=0))
        self.variants = [StepVariant(operations, self.groups, memory) for operations in plan["variants"]]
        longest = max((each["size"] for variant in self.variants for each in variant.operations), default=0)
        octets = pattern(mpi.rank + 1, 0, longest // ELEMENT_OCTETS + PERIOD)
        self.sent = ctypes.create_string_buffer(octets, len(octets))

    def run(self, variant: StepVariant, step: int) -> tuple[int, int, list[list[int]]]:
        """Run a step; return its begin and its end, and those of each operation, in ns."""
        for each in variant.received.values():
            ctypes.memset(each, 0xFF, len(each))
        progress = StepProgress(variant)
        self.mpi.barrier()
        begin = time.monotonic_ns()
        while progress.left:
            number = progress.startable()
            if number is not None:
                self._start(variant, number, step, progress)
            elif progress.computing is None:
                progress.end(self.mpi.ended(wait=True), time.monotonic_ns())
            else:
                left = (progress.until - time.monotonic_ns()) / 1e9
                time.sleep(max(0.0, min(PROGRESS, left) if self.mpi.pending else left))
                progress.end_computation(time.monotonic_ns())
                if self.mpi.pending:
                    progress.end(self.mpi.ended(wait=False), time.monotonic_ns())
        return begin, time.monotonic_ns(), progress.times

    def _start(self, variant: StepVariant, number: int, step: int, progress: StepProgress) -> None:
        operation = variant.operations[number]
        now = progress.times[number][0] = time.monotonic_ns()
        if operation["kind"] == "compute":
            progress.computing, progress.until = number, now + round(operation["seconds"] * 1e9)
            return
        group = operation["group"]
        first = salt(operation, variant.turns[number], step)
        send, receive = ctypes.byref(self.sent, first * ELEMENT_OCTETS), variant.received.get(number, b"")
        if operation["kind"] == "broadcast" and self.groups[group][0] == self.mpi.rank:
            ctypes.memmove(receive, send, operation["size"])
        communicator = (self.communicators[group], len(self.groups[group])) if group >= 0 else (rank_program.WORLD, 1)
        self.mpi.start(number, operation, (send, receive), communicator)

    def wrong(self, variant: StepVariant, step: int) -> int:
        """Return the number of wrong elements that the rank received in a step."""
        count = 0
        for number, got in variant.received.items():
            operation = variant.operations[number]
            ranks = self.groups[operation["group"]] if operation["group"] >= 0 else [operation["peer"]]
            right = expected(operation, self.mpi.rank, ranks, salt(operation, variant.turns[number], step))
            count += wrong_elements(got, right)
        return count


def main(words: Sequence[str]) -> None:
    """Run a job: ``LIBRARY``; the plan is in the file whose descriptor the variable ``PLAN`` names."""
    (library,) = words
    launcher = rank_program.LauncherLink()
    plan = launcher.plan()
    mpi = ScheduleMpi(library)
    runner = StepRunner(mpi, plan)
    mpi.barrier()
    launcher.report({"ready_ns": time.monotonic_ns()})
    wrong = 0
    for step, number in enumerate(plan["steps"]):
        launcher.report({"begun": step})
        variant = runner.variants[number]
        begin, ended, times = runner.run(variant, step)
        wrong += runner.wrong(variant, step)
        if step >= plan["warmup"]:
            relative = [[one - begin, other - begin] for one, other in times]
            launcher.report({"begin_ns": begin, "end_ns": ended, "operations": relative, "wrong": wrong})
            wrong = 0
    mpi.barrier()
    launcher.finish(mpi.rank)
