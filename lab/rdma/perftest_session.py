"""Sessions of perftest: servers and clients started in order, monitored until all have ended, always cleaned up."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from lab.errors import OperationFailed
from lab.kernel.process import process, signals, sockets
from lab.kernel.process.nice import before_others
from lab.rdma import perftest_failure, sysfs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from lab.kernel.process.netns import Namespace
    from lab.rdma.measure import Pair
    from lab.rdma.window_counters import MeasureWindow

Report: TypeAlias = "Callable[[str, int, int], None]"
"""A progress callback: the stage, steps done, total steps."""
RESOLUTION: Final = 0.02
"""Seconds between two observations of a transfer of unknown duration."""
_TICK: Final = 0.25
_LAST_WORDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Patience:
    """Timeouts in seconds: to listen, to connect, for the next RDMA packet, and beyond the expected duration.

    ``silence``: whether a pair may complete no message in the time for which it is measured.
    """

    listen: float = 30.0
    connect: float = 30.0
    stall: float = 15.0
    overrun: float = 60.0
    silence: bool = False


@dataclass(slots=True)
class PerftestSide:
    """One program of a pair, and the files with its output."""

    name: str
    namespace: Namespace
    argv: process.Argv
    out: Path
    err: Path
    running: process.Process | None = None

    def start(self) -> None:
        """Start the program in its namespace."""
        with self.out.open("wb") as out, self.err.open("wb") as err, signals.held():
            self.running = self.namespace.start(self.argv, stdout=out, stderr=err)

    @property
    def code(self) -> int | None:
        """The exit code; None before the start and while the program runs."""
        return self.running.poll() if self.running else None

    def said(self) -> str:
        """Return all output, stderr last."""
        return "".join(
            file.read_text(encoding="utf-8", errors="replace") for file in (self.out, self.err) if file.exists()
        )


@dataclass(slots=True)
class Exchange:
    """The running perftest of one pair: the server at the destination, on a TCP port of its own, and the client."""

    pair: Pair
    port: int
    server: PerftestSide
    client: PerftestSide
    json: Path
    packets: int = 0
    began_at: float = 0.0
    moved_at: float = 0.0
    answers: int = 0
    answers_before: int = 0
    answered_at: float = 0.0
    looked_at: float = 0.0
    first_gap: float = 0.0
    last_gap: float = 0.0

    @property
    def sides(self) -> tuple[PerftestSide, PerftestSide]:
        """The client first: it usually has the best error message."""
        return self.client, self.server

    @property
    def done(self) -> bool:
        """Whether both programs ended with exit code 0."""
        return all(side.code == 0 for side in self.sides)

    def listening(self) -> bool:
        """Whether the server's port waits for a client."""
        return self.pair.dst.namespace.inside(lambda: sockets.waits("tcp", self.port))

    def observe(self) -> float:
        """Read the source's packet counters; return the seconds since it last received a packet.

        Only received packets count as progress: rxe retransmits forever, since it treats perftest's 7 retries as
        unlimited.
        """
        now = time.monotonic()
        gap, self.looked_at = now - self.looked_at, now
        # A packet counts as sent when the port queues it; receive counters are current once the last one has arrived.
        # The destination's counters say nothing of this pair: it may receive and answer what others send.
        answers = sysfs.packets(self.pair.src.device, "rcvd")
        packets = answers + sysfs.packets(self.pair.src.device, "sent")
        if packets != self.packets or not self.moved_at:
            if self.moved_at and not self.began_at:
                self.began_at, self.first_gap = now, gap
            self.packets, self.moved_at, self.last_gap = packets, now, gap
        if not self.answered_at:
            self.answers_before = answers
        if answers != self.answers or not self.answered_at:
            self.answers, self.answered_at = answers, now
        return now - self.answered_at

    @property
    def came_back(self) -> int:
        """The RDMA packets, from any sender, that the source's device received since the first observation."""
        return self.answers - self.answers_before

    @property
    def seconds(self) -> float:
        """The time from the first to the last observed RDMA packet, by the kernel's clock, accurate to ``blur``."""
        return self.moved_at - self.began_at if self.began_at else 0.0

    @property
    def blur(self) -> float:
        """The maximum error of ``seconds``: the interval between observations at the start, or at the end."""
        return max(self.first_gap, self.last_gap)


def free_ports(namespace: Namespace, count: int, version: int) -> list[int]:
    """Return unused TCP ports of the namespace; they are bound at the same time, so that they differ."""
    family = socket.AF_INET if version == 4 else socket.AF_INET6

    def hold() -> list[int]:
        with contextlib.ExitStack() as held:
            holders = [held.enter_context(socket.socket(family, socket.SOCK_STREAM)) for _ in range(count)]
            for holder in holders:
                holder.bind(("", 0))
            return [int(holder.getsockname()[1]) for holder in holders]

    return namespace.inside(hold)


def run(
    exchanges: Sequence[Exchange],
    patience: Patience,
    report: Report,
    seconds: int | None = None,
    window: MeasureWindow | None = None,
) -> None:
    """Run all exchanges to their end; ``seconds`` is their expected duration, if known.

    ``window`` is updated meanwhile. Raises OperationFailed on the first program that fails, or makes no progress for
    longer than ``patience`` allows. All programs have ended when this returns or raises.
    """
    try:
        begin(exchanges, patience, report)
        with before_others():  # otherwise counters are read late: the programs use all CPUs
            _watch(exchanges, patience, report, seconds, window)
    finally:
        end_all(exchanges)


def begin(exchanges: Sequence[Exchange], patience: Patience, report: Report) -> None:
    """Start all programs, and return when each client has connected to its server; raises like ``run``.

    The caller must call ``end_all`` in any case.
    """
    _start_servers(exchanges, patience, report)
    _start_clients(exchanges, patience, report)


def await_packets(exchanges: Sequence[Exchange], patience: Patience) -> None:
    """Wait until each pair has sent RDMA packets; OperationFailed, naming a pair, if one stalls."""
    deadline = time.monotonic() + patience.stall
    while waiting := [exchange for exchange in exchanges if not exchange.began_at]:
        _refuse_failures(exchanges)
        if time.monotonic() > deadline:
            raise perftest_failure.stalled(waiting[0].pair, patience.stall, ever=waiting[0].came_back > 0)
        for exchange in waiting:
            exchange.observe()
        _wait_for_an_end(exchanges, RESOLUTION)


def end_all(exchanges: Iterable[Exchange]) -> None:
    """Stop all running programs: first terminate all, then wait for each."""
    running = [side.running for exchange in exchanges for side in exchange.sides if side.running]
    with signals.held():  # a second Ctrl-C would leave programs running
        for program in running:
            if program.poll() is None:
                program.terminate()
        for program in running:
            process.stop(program)


def _start_servers(exchanges: Sequence[Exchange], patience: Patience, report: Report) -> None:
    for exchange in exchanges:
        exchange.server.start()
    deadline, waiting = time.monotonic() + patience.listen, list(exchanges)
    while waiting:
        report("servers", len(exchanges) - len(waiting), len(exchanges))
        _refuse_failures(exchanges)
        waiting = [exchange for exchange in waiting if not exchange.listening()]
        if waiting and time.monotonic() > deadline:
            raise OperationFailed(
                f"{waiting[0].pair}: the server did not listen within {patience.listen:g} s", perftest_failure.BUSY
            )
        if waiting:
            _wait_for_an_end(exchanges, RESOLUTION)
    report("servers", len(exchanges), len(exchanges))


def _start_clients(exchanges: Sequence[Exchange], patience: Patience, report: Report) -> None:
    for exchange in exchanges:
        exchange.observe()
        exchange.client.start()
    deadline, waiting = time.monotonic() + patience.connect, list(exchanges)
    while waiting:
        report("connect", len(exchanges) - len(waiting), len(exchanges))
        _refuse_failures(exchanges)
        waiting = [exchange for exchange in waiting if exchange.listening()]  # a server takes one client only
        if waiting and time.monotonic() > deadline:
            stuck = waiting[0].pair
            raise OperationFailed(
                f"{stuck}: no TCP connection to {stuck.dst.address} within {patience.connect:g} s",
                perftest_failure.unreachable(stuck),
            )
        for exchange in exchanges:
            exchange.observe()
        if waiting:
            _wait_for_an_end(exchanges, RESOLUTION)
    report("connect", len(exchanges), len(exchanges))


def _watch(
    exchanges: Sequence[Exchange],
    patience: Patience,
    report: Report,
    seconds: int | None,
    window: MeasureWindow | None,
) -> None:
    began = time.monotonic()
    while not all(exchange.done for exchange in exchanges):
        elapsed = time.monotonic() - began
        if seconds is None:
            report("measure", sum(exchange.done for exchange in exchanges), len(exchanges))
        else:
            report("measure", min(int(elapsed), seconds), seconds)
        _refuse_failures(exchanges)
        for exchange in exchanges:
            if not exchange.done:
                _refuse_delay(exchange, patience, elapsed - (seconds if seconds is not None else elapsed))
        quiet = RESOLUTION if seconds is None else _TICK
        _wait_for_an_end(exchanges, quiet if window is None else min(quiet, window.look()))
    total = len(exchanges) if seconds is None else seconds
    report("measure", total, total)


def _refuse_delay(exchange: Exchange, patience: Patience, late: float) -> None:
    if exchange.observe() > patience.stall:
        raise perftest_failure.stalled(exchange.pair, patience.stall, ever=exchange.came_back > 0)
    if late > patience.overrun:
        raise OperationFailed(
            f"{exchange.pair}: still ran {patience.overrun:g} s after its time", perftest_failure.BUSY
        )


def _refuse_failures(exchanges: Sequence[Exchange]) -> None:
    """Raise for the first pair with a failed program, after giving its peer a moment to print an error."""
    for exchange in exchanges:
        if any(side.code for side in exchange.sides):
            deadline = time.monotonic() + _LAST_WORDS
            while time.monotonic() < deadline and any(side.running and side.code is None for side in exchange.sides):
                _wait_for_an_end([exchange], RESOLUTION)
            raise perftest_failure.explain(
                exchange.pair, [(side.name, side.code, side.said()) for side in exchange.sides if side.code]
            )


def _wait_for_an_end(exchanges: Iterable[Exchange], timeout: float) -> None:
    """Return when one of the running programs ends, or after ``timeout`` seconds."""
    with contextlib.ExitStack() as opened, selectors.DefaultSelector() as ends:
        for exchange in exchanges:
            for side in exchange.sides:
                if side.running and side.code is None:
                    descriptor = os.pidfd_open(side.running.pid)
                    opened.callback(os.close, descriptor)
                    ends.register(descriptor, selectors.EVENT_READ)
        ends.select(timeout)
