"""How many packets a second are captured, all of them and by a filter in the kernel, beside dumpcap in the same run.

    ./scripts/bench capture [--json] [--packets N]

A sender puts RDMA WRITEs of 1024 bytes on a veth as fast as one CPU can, to a hundred QPs in turn. Lost is what the
kernel counts as lost; with what was written it must be what was sent.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.cli.kit.output import stdout, table
from lab.errors import LabError, OperationFailed
from lab.kernel.packets.live_capture import LiveCapture, Point
from lab.kernel.process import netns, process
from lab.kernel.process.netns import Namespace
from lab.wire.craft import build
from lab.wire.filter.parse import parse
from lab.wire.headers import Reth
from lab.wire.opcodes import Opcode
from lab.wire.pcapng import Writer

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKETS: Final = 500_000
QPS: Final = 100
ONE_QP: Final = "qpn==0x100"
EVERY_QP: Final = "opcode==write"
ONE_QP_OF_DUMPCAP: Final = "udp dst port 4791 and udp[12:4] & 0xffffff = 0x100"
SENDER, RECEIVER = Namespace(f"rlbench-send-{os.getpid()}"), Namespace(f"rlbench-receive-{os.getpid()}")
_SAID: Final = re.compile(r"received/dropped on interface '[^']+': (\d+)/(\d+)")


@dataclass(frozen=True)
class Result:
    """One way to capture: packets a second that were sent, and of all that were wanted those written and lost."""

    way: str
    offered: float
    wanted: int
    written: int
    lost: int


@contextmanager
def veth() -> Iterator[None]:
    """Two namespaces and a cable, on which neither side sends packets of its own."""
    netns.create([SENDER.name, RECEIVER.name])
    try:
        SENDER.run(["ip", "link", "add", "eth1", "type", "veth", "peer", "name", "eth1", "netns", RECEIVER.name])
        for namespace in (SENDER, RECEIVER):
            namespace.run(["sysctl", "-qw", "net.ipv6.conf.eth1.disable_ipv6=1"])
            namespace.run(["ip", "link", "set", "eth1", "mtu", "9000", "up"])
        yield
    finally:
        netns.delete([SENDER.name, RECEIVER.name])


def send(packets: int) -> None:
    """Send, as a process of its own in the sender's namespace, and print the seconds."""
    path = build.Path("02:00:00:00:00:01", "02:00:00:00:00:02", "10.0.0.1", "10.0.0.2")
    frames = [
        build.rocev2(
            path,
            build.RoceMessage(Opcode.RC_RDMA_WRITE_ONLY, 0x100 + qp, reth=Reth(0, 0, 1024), payload=bytes(1024)),
        )
        for qp in range(QPS)
    ]
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as raw:
        raw.bind(("eth1", 0))
        began = time.monotonic()
        for _ in range(packets // QPS):
            for frame in frames:
                raw.send(frame)
        sys.stdout.write(f"{time.monotonic() - began}\n")


def sent(packets: int) -> float:
    """Have them sent; packets a second."""
    words = [sys.executable, "-m", "tests.bench.capture", "--send", "--packets", str(packets)]
    return packets / float(SENDER.run(words, timeout=600).stdout)


def ours(way: str, packets: int, wanted: int, expression: str | None, folder: Path) -> Result:
    """Capture with ``expression``, or everything."""
    point = Point(RECEIVER, "eth1", "eth1")
    chosen = None if expression is None else parse(expression)
    with (
        (folder / "ours.pcapng").open("wb", buffering=0) as output,
        LiveCapture([point], Writer(output), wanted=chosen) as capture,
    ):
        capture.start()
        offered = sent(packets)
        (count,) = capture.stop()
    return Result(way, offered, wanted, count.packets, count.dropped)


def dumpcaps(way: str, packets: int, wanted: int, expression: str, folder: Path) -> Result:
    """The same with dumpcap and a ring of as many bytes."""
    words: list[str | Path] = [process.find_tool("dumpcap", "wireshark-common"), "-q", "-i", "eth1", "-B", "32"]
    words += ["-f", expression, "-w", folder / "theirs.pcapng"]
    dumping = RECEIVER.start(words, stderr=process.PIPE)
    assert dumping.stderr is not None
    while not dumping.stderr.readline().startswith("File:"):  # it listens from here on
        pass
    offered = sent(packets)
    dumping.send_signal(signal.SIGINT)
    told = _SAID.search(dumping.communicate(timeout=60)[1])
    if told is None:
        raise OperationFailed("dumpcap did not say what it lost", "run it by hand")
    return Result(way, offered, wanted, int(told[1]), int(told[2]))


def measure(packets: int) -> list[Result]:
    """Each way once. Fail unless every wanted packet was written or lost."""
    packets -= packets % QPS
    one = packets // QPS
    with veth(), tempfile.TemporaryDirectory(prefix="rocelab-bench-") as name:
        folder = Path(name)
        results = [
            ours("rocelab, everything", packets, packets, None, folder),
            ours(f"rocelab, {EVERY_QP}", packets, packets, EVERY_QP, folder),
            ours(f"rocelab, {ONE_QP}", packets, one, ONE_QP, folder),
            dumpcaps("dumpcap, everything", packets, packets, "", folder),
            dumpcaps("dumpcap, one QP", packets, one, ONE_QP_OF_DUMPCAP, folder),
        ]
    for result in results:
        if result.way.startswith("rocelab") and result.written + result.lost != result.wanted:
            raise OperationFailed(f"{result.way}: {result} does not add up", "this is a bug: report it")
    return results


def show(results: list[Result]) -> None:
    """One row for each way."""
    rows = [
        (each.way, f"{each.offered:,.0f}", f"{each.wanted:,}", f"{each.written:,}", f"{each.lost / each.wanted:.1%}")
        for each in results
    ]
    stdout.print(table("Capturing on one link", ("", "offered packets/s", "wanted", "written", "lost"), rows))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="scripts/bench capture", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--packets", type=int, default=PACKETS)
    parser.add_argument("--send", action="store_true", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.send:
        send(wanted.packets)
        return
    results = measure(wanted.packets)
    if wanted.json:
        json.dump([asdict(result) for result in results], sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        show(results)


if __name__ == "__main__":
    try:
        main()
    except LabError as error:
        sys.exit(f"error: {error}")
