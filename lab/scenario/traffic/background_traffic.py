"""Background traffic for the length of a block: TCP streams, and pings that measure reachability and delay.

Each is a program in a node. Once it has ended, its output is recorded as a command, which
``lab.telemetry.read.program_series`` reads.
"""

from __future__ import annotations

import contextlib
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed
from lab.kernel.process import process, signals, sockets
from lab.model.hosts import addresses_of, parse_pair
from lab.rdma.perftest_session import PerftestSide, free_ports
from lab.telemetry.read.program_series import ECHO, STEP, STREAM, reports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.scenario.stage import Stage

_LONGEST: Final = 86_400
"""Seconds. Streams are stopped earlier, at the end of their block."""
_LAST_WORDS: Final = 5.0
"""Seconds for a program to print its results after SIGINT."""
_BLOCK: Final = "16K"
"""The unit in which iperf3 counts: one eightieth of 100 Mb/s for a tenth of a second."""


@contextlib.contextmanager
def streaming(stage: Stage, *pairs: str, rate: int = 0, dscp: int = 0) -> Iterator[None]:
    """Run TCP streams between pairs of hosts like ``h1:h4`` for the block, at ``rate`` bit/s each if given (iperf3).

    All streams run when the block begins. The receiver reports the received bytes ten times a second. Raises
    OperationFailed if one cannot connect.
    """
    with contextlib.ExitStack() as going:
        folder = Path(going.enter_context(tempfile.TemporaryDirectory(prefix="rocelab-")))
        for number, pair in enumerate(pairs):
            _stream(stage, going, pair, folder / str(number), ["--bitrate", str(rate), "--tos", str(dscp << 2)])
        yield


@contextlib.contextmanager
def pinging(
    stage: Stage, *pairs: str, interval: float = 0.01, size: int = 56, identifier: int | None = None
) -> Iterator[None]:
    """Run pings between pairs of hosts for the block, every ``interval`` seconds with ``size`` payload octets.

    ``identifier`` is the ICMP identifier, by which bonds choose a member; random if not given.
    """
    options = ["-n", "-D", "-O", "-i", f"{interval:g}", "-s", str(size)]
    options += [] if identifier is None else ["-e", str(identifier)]
    with contextlib.ExitStack() as going:
        folder = Path(going.enter_context(tempfile.TemporaryDirectory(prefix="rocelab-")))
        for number, pair in enumerate(pairs):
            src, dst = parse_pair(pair)
            address = str(addresses_of(stage.fabric.plan, dst)[0])
            stage.recorder.note(ECHO, pair=pair, node=src, address=address)
            going.enter_context(_running(stage, src, ["ping", *options, address], folder / str(number)))
        yield


def _stream(stage: Stage, going: contextlib.ExitStack, pair: str, file: Path, options: list[str]) -> None:
    src, dst = parse_pair(pair)
    address = addresses_of(stage.fabric.plan, dst)[0]
    receiver = stage.fabric.namespace(dst)
    (port,) = free_ports(receiver, 1, address.version)
    serve = ["iperf3", "--server", "--one-off", "--forceflush", "--interval", str(STEP), "--format", "k"]
    send = ["iperf3", "--client", str(address), "--time", str(_LONGEST), "--length", _BLOCK, *options]
    at_port = ["--port", str(port)]
    server = going.enter_context(_running(stage, dst, [*serve, *at_port], Path(f"{file}-server")))
    stage.until(lambda: receiver.inside(lambda: sockets.waits("tcp", port)), f"{pair}: iperf3 in {dst}")
    client = going.enter_context(_running(stage, src, [*send, *at_port], Path(f"{file}-client")))

    def arriving() -> bool:
        for side in (server, client):
            if side.code is not None:
                raise OperationFailed(f"{pair}: iperf3 in {side.name} gave up: {side.said().strip()}")
        return bool(reports(server.said()))

    stage.until(arriving, f"{pair}: the first octet by TCP")
    stage.recorder.note(STREAM, pair=pair, node=dst, port=port, began=_began(server.out))


def _began(report: Path) -> int:
    """Return when a stream began, in ns of CLOCK_MONOTONIC: a report is written at the end of its interval."""
    while True:
        written = report.stat().st_mtime_ns
        ended = reports(report.read_text(encoding="utf-8"))[-1].end
        if report.stat().st_mtime_ns == written:
            return written - (time.time_ns() - time.monotonic_ns()) - round(ended * 1e9)


@contextlib.contextmanager
def _running(stage: Stage, node: str, argv: list[str], file: Path) -> Iterator[PerftestSide]:
    """Run a program for the block, end it by SIGINT, and record its output."""
    side = PerftestSide(
        name=node, namespace=stage.fabric.namespace(node), argv=argv, out=Path(f"{file}-out"), err=Path(f"{file}-err")
    )
    began = time.monotonic_ns()
    try:
        side.start()
        yield side
    finally:
        if side.running is not None:
            with signals.held():
                process.stop(side.running, _LAST_WORDS, signal.SIGINT)
    said, complained = (text.read_text(encoding="utf-8", errors="replace") for text in (side.out, side.err))
    done = process.Completed(argv, side.code or 0, said, complained)
    stage.recorder.command(node, argv, done, began=began)
