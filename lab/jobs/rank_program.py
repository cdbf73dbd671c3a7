"""The program of one rank: runs a collective on patterns whose result is known, and reports when each step ended.

It imports nothing of rocelab and no package, so that it starts fast in an emulated guest. Its MPI is whatever library
has the standard ABI of MPI 5.0 (chapter 20), called through ctypes: constants are those of that chapter.

Standard output has one JSON object a line: ``{"ready_ns": TIME}`` when MPI_Init has returned, ``{"step": [SIZE,
STEP]}`` as a step begins, and ``{"size": ...}`` with the results of a size. Times are nanoseconds of CLOCK_MONOTONIC.
Output of MPI goes to standard error. After the last size it prints ``{"done": RANK}`` and waits. It ends when its
standard input does: with 0 if it is done, and otherwise because its launcher has gone.

It does not call MPI_Finalize. UCX can hang there, on connections whose peer has already left. Instead, the launcher
knows when all ranks are done, and no rank ends before.
"""

from __future__ import annotations

import array
import ctypes
import json
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WORLD: Final = ctypes.c_void_p(0x101)
INT32: Final = ctypes.c_void_p(0x250)
SUM: Final = ctypes.c_void_p(0x21)
NO_STATUS: Final = ctypes.c_void_p(0)
_LONGEST_ERROR: Final = 512
"""MPI_MAX_ERROR_STRING."""
_LAST_CLASS: Final = 127
"""Error classes of the ABI are below; codes of MPICH are above."""
_CLASSES: Final = {
    4: "invalid tag",
    7: "invalid request",
    15: "a message is longer than its buffer",
    16: "other error",
    17: "internal error",
}
"""Some error classes."""
_TAG: Final = 1
_ROOT: Final = 0
PERIOD: Final = 251
"""Elements after which a pattern repeats: a prime, so that a part in a wrong place does not look right."""
_PATTERN: Final = tuple((index * 7919 + 13) % 1009 for index in range(PERIOD))
ELEMENT_OCTETS: Final = 4
"""Jobs transfer int32, whose sums are exact."""
_BLOCK: Final = 1 << 16
"""Octets that are compared at once."""
_LOWEST_BITS: Final = int.from_bytes(bytes((1, 0, 0, 0)) * (_BLOCK // ELEMENT_OCTETS), "little")
"""The lowest bit of each element of a block."""
PLAN: Final = "ROCELAB_PLAN"
"""The variable with the number of the descriptor that has the plan of a rank, for programs that need one."""
LAUNCHER_GONE: Final = 3
"""The exit code of a rank whose launcher has ended."""


def pattern(scale: int, first: int, count: int) -> bytes:
    """Return ``count`` elements of the pattern from element ``first``, multiplied by ``scale``."""
    start = first % PERIOD
    words = array.array("i", [scale * value for value in _PATTERN[start:] + _PATTERN[:start]]).tobytes()
    octets = count * ELEMENT_OCTETS
    return (words * (octets // len(words) + 1))[:octets]


def wrong_elements(got: Any, expected: bytes) -> int:
    """Return in how many elements a buffer (bytes, or ctypes characters) differs from as many expected octets.

    Whole blocks are compared: a loop over 8 million elements would take an emulated guest too long.
    """
    wrong = 0
    for start in range(0, len(expected), _BLOCK):
        left, right = got[start : start + _BLOCK], expected[start : start + _BLOCK]
        if left != right:
            bits = int.from_bytes(left, "little") ^ int.from_bytes(right, "little")
            for shift in (16, 8, 4, 2, 1):  # the lowest bit of each element becomes the OR of its 32 bits
                bits |= bits >> shift
            wrong += (bits & _LOWEST_BITS).bit_count()
    return wrong


def buffers(collective: str, rank: int, ranks: int, size: int) -> tuple[bytes, bytes]:
    """Return what a rank sends, and what it must receive; ``size`` is that of the larger of the two."""
    count = size // ELEMENT_OCTETS
    part = count // ranks
    everyone = ranks * (ranks + 1) // 2  # the sum of all scales
    whole, own = (0, count), (rank * part, part)
    match collective:
        case "allreduce":
            return pattern(rank + 1, *whole), pattern(everyone, *whole)
        case "reduce-scatter":
            return pattern(rank + 1, *whole), pattern(everyone, *own)
        case "allgather":
            return pattern(rank + 1, *own), b"".join(pattern(each + 1, each * part, part) for each in range(ranks))
        case "alltoall":
            return pattern(rank + 1, *whole), b"".join(pattern(each + 1, *own) for each in range(ranks))
        case "broadcast":
            return pattern(_ROOT + 1, *whole), pattern(_ROOT + 1, *whole)
        case "sendrecv":
            return pattern(rank + 1, *whole), pattern((rank - 1) % ranks + 1, *whole)
    raise ValueError(f"no collective {collective!r}")


class Mpi:
    """The calls of the MPI library that a job needs. An error of a call ends the program: MPI's default."""

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)
        self._call("MPI_Init", None, None)
        self.rank, self.ranks = self._number("MPI_Comm_rank"), self._number("MPI_Comm_size")

    def _call(self, name: str, *arguments: Any) -> None:
        self._check(name, self._code(name, *arguments))

    def _code(self, name: str, *arguments: Any) -> int:
        """Call a function of MPI, and return its error code."""
        code: int = getattr(self._library, name)(*arguments)
        return code

    def _check(self, name: str, code: int) -> None:
        """End the program for an error."""
        if code:
            raise SystemExit(f"{name} failed: {self.error_text(code)}")

    def error_text(self, code: int) -> str:
        """Return the text of an error code, in one line.

        MPICH returns bare classes by the numbers of the ABI, and MPI_Error_string would take them for its own.
        """
        if code <= _LAST_CLASS:
            return _CLASSES.get(code, f"error class {code}")
        text, length = ctypes.create_string_buffer(_LONGEST_ERROR), ctypes.c_int()
        if self._code("MPI_Error_string", code, text, ctypes.byref(length)):
            return f"error {code}"
        return " ".join(text.value.decode("utf-8", "replace").split())

    def _number(self, name: str) -> int:
        value = ctypes.c_int()
        self._call(name, WORLD, ctypes.byref(value))
        return value.value

    def barrier(self) -> None:
        """Return when all ranks have called it."""
        self._call("MPI_Barrier", WORLD)

    def operation(self, collective: str, send: Any, receive: Any, size: int) -> Callable[[], None]:
        """Return the call that runs the collective once, out of place except for a broadcast."""
        count = size // ELEMENT_OCTETS
        part = count // self.ranks
        match collective:
            case "allreduce":
                return lambda: self._call("MPI_Allreduce", send, receive, count, INT32, SUM, WORLD)
            case "reduce-scatter":
                return lambda: self._call("MPI_Reduce_scatter_block", send, receive, part, INT32, SUM, WORLD)
            case "allgather":
                return lambda: self._call("MPI_Allgather", send, part, INT32, receive, part, INT32, WORLD)
            case "alltoall":
                return lambda: self._call("MPI_Alltoall", send, part, INT32, receive, part, INT32, WORLD)
            case "broadcast":
                own = send if self.rank == _ROOT else receive
                return lambda: self._call("MPI_Bcast", own, count, INT32, _ROOT, WORLD)
        before, after = (self.rank - 1) % self.ranks, (self.rank + 1) % self.ranks
        sent, received = (send, count, INT32, after, _TAG), (receive, count, INT32, before, _TAG)
        return lambda: self._call("MPI_Sendrecv", *sent, *received, WORLD, NO_STATUS)


def run_size(mpi: Mpi, collective: str, size: int, steps: tuple[int, int], tell: Callable[[Any], None]) -> None:
    """Run and check all steps of one size, and report those after the warm-up.

    ``steps`` has the numbers of warm-up and measured steps; a barrier precedes each. ``tell`` gets each report. Each
    buffer is copied once at most, since all ranks share the memory of one machine.
    """
    warmup, iterations = steps
    sent, expected = buffers(collective, mpi.rank, mpi.ranks, size)
    send, receive = ctypes.create_string_buffer(sent, len(sent)), ctypes.create_string_buffer(len(expected))
    del sent
    operation = mpi.operation(collective, send, receive, size)
    in_place = collective == "broadcast" and mpi.rank == _ROOT
    begins, ends, wrong = [], [], 0
    for step in range(warmup + iterations):
        ctypes.memset(receive, 0xFF, len(expected))
        tell({"step": [size, step]})
        mpi.barrier()
        begin = time.monotonic_ns()
        operation()
        end = time.monotonic_ns()
        wrong += wrong_elements(send if in_place else receive, expected)
        if step >= warmup:
            begins.append(begin)
            ends.append(end)
    tell({"size": size, "begin_ns": begins, "end_ns": ends, "wrong": wrong})


class LauncherLink:
    """The program's side of its launcher: its reports, its plan, and its end.

    Reports go where standard output went, and standard output then goes where errors go. The program ends when its
    standard input does, whatever MPI is waiting for.
    """

    def __init__(self) -> None:
        self._reports = os.fdopen(os.dup(1), "w", buffering=1, encoding="ascii")
        os.dup2(2, 1)
        self._done = threading.Event()
        self._end = threading.Thread(target=self._end_with_input, daemon=True)
        self._end.start()

    def _end_with_input(self) -> None:
        while os.read(0, 64):
            pass
        os._exit(0 if self._done.is_set() else LAUNCHER_GONE)

    def report(self, what: Any) -> None:
        """Write a report, one line of JSON."""
        self._reports.write(f"{json.dumps(what)}\n")

    def plan(self) -> Any:
        """Return the plan of a program that has one; it can be read once."""
        with os.fdopen(int(os.environ[PLAN]), "rb") as file:
            return json.loads(file.read())

    def finish(self, rank: int) -> None:
        """Report that the rank is done. This does not return: the program ends with its standard input."""
        self._done.set()
        self.report({"done": rank})
        self._end.join()


def main(words: Sequence[str], initialise: Callable[[str], Mpi] = Mpi) -> None:
    """Run a job: ``LIBRARY COLLECTIVE WARMUP ITERATIONS SIZE...``. ``initialise`` gets the path of the library."""
    library, collective, warmup, iterations, *sizes = words
    launcher = LauncherLink()
    mpi = initialise(library)
    launcher.report({"ready_ns": time.monotonic_ns()})
    for size in map(int, sizes):
        run_size(mpi, collective, size, (int(warmup), int(iterations)), launcher.report)
    mpi.barrier()
    launcher.finish(mpi.rank)


if __name__ == "__main__":
    main(sys.argv[1:])
