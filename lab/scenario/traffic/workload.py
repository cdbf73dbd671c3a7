"""Work for a fabric besides ``Stage.writing``: transfers of any shape, probes, and what programs said in a phase."""

from __future__ import annotations

import contextlib
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed, UsageError
from lab.model.hosts import parse_pair
from lab.rdma import perftest, perftest_session, sysfs
from lab.rdma.continuous_transfers import flowing
from lab.rdma.measure import DEFAULT_TIMEOUT, BandwidthTest
from lab.rdma.nic_choice import find_nic, find_pair
from lab.rdma.perftest_session import Patience

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.scenario.stage import Stage
    from lab.telemetry.read.recording import RecordedCommand, Recording

RESENT: Final = 4.096e-6 * 2**DEFAULT_TIMEOUT + 0.25
"""Seconds after which every QP sends again whose path was moved under it.

Packets that overtake others are refused, and one NAK is sent for all of them (IBA 9.7.5.1.1). When it comes to
nothing, because the path moves again meanwhile, the sender waits for the QP's timeout, 1.07 s. What waits for the old
path has long left by then.
"""
_LONGEST: Final = 3600
"""Seconds; whoever stops a transfer comes earlier."""
_PATIENCE: Final = 4.0
"""Seconds until a program has sent its first packet."""
_SHOWN: Final = 6
"""GIDs of a table that are shown."""


@contextlib.contextmanager
def circulating(stage: Stage, *pairs: str, packets: int, size: int = 4096) -> Iterator[None]:
    """Keep so many ``packets`` of each pair under way meanwhile, one of each QP: the queue before them stands still.

    A QP sends its next message of ``size`` bytes, which fits in a packet, when the last one was acknowledged.
    """
    test = BandwidthTest(size=size, qps=packets, tx_depth=1)
    stage.recorder.note("traffic", pairs=list(pairs), qps=packets, size=size, tx_depth=1, tclass=test.tclass)
    with flowing([find_pair(stage.fabric, *parse_pair(pair)) for pair in pairs], test):
        yield


def probe(stage: Stage, src: str, dst: str, size: int = 56, count: int = 1) -> None:
    """``ping`` between hosts, not to be fragmented: ``size`` bytes behind its header, a second's patience each."""
    stage.run(src, *ping_words(str(find_nic(stage.fabric, dst).address), size, count))


def ping_words(address: str, size: int, count: int = 1, source: str = "") -> tuple[str, ...]:
    """The command line of ``probe``, with the address to send from where a host has several."""
    options = ("-n", "-q", "-M", "do", "-c", str(count), "-i", "0.2", "-W", "1", "-s", str(size))
    return ("ping", *options, *(("-I", source) if source else ()), address)


def commands(rec: Recording, phase: str, program: str) -> list[RecordedCommand]:
    """The commands of this program that were run in a phase; UsageError when it has none, or was not."""
    within = rec.phase(phase)
    found = [
        each
        for each in rec.commands
        if each.argv[0] == program and within.start <= each.ns and each.end_ns <= within.end
    ]
    if not found:
        raise UsageError(f"{rec.name}: no {program} was run in phase {phase}", "see rocelab record show")
    return found


def said(rec: Recording, phase: str, program: str) -> str:
    """All that a program printed in a phase; UsageError as of ``commands``."""
    return "\n".join(each.stdout for each in commands(rec, phase, program))


def attempt(stage: Stage, pair: str, seconds: float, index: int) -> None:
    """Let a pair transfer for so long, its far end by the GID of this ``index``; counters tell what came of it.

    The time begins with the first packet that is sent, be it answered or not.
    """
    test = BandwidthTest(size=4096, tx_depth=16)
    stage.recorder.note("traffic", pairs=[pair], gid_index=index, size=test.size)
    options = ["--duration", str(_LONGEST), "--tx-depth", str(test.tx_depth)]
    with tempfile.TemporaryDirectory(prefix="rocelab-") as folder:
        found = find_pair(stage.fabric, *parse_pair(pair))
        (exchange,) = perftest.prepare([found], test, "bw", options, Path(folder))
        words = list(exchange.server.argv)
        words[words.index("--gid-index") + 1] = str(index)
        exchange.server.argv = words
        try:
            perftest_session.begin([exchange], Patience(), perftest.silent)
            perftest_session.await_packets([exchange], Patience(stall=_PATIENCE))
            stage.hold(seconds)
        except OperationFailed as error:
            stage.recorder.note("gave up", pair=pair, said=str(error))
        finally:
            perftest_session.end_all([exchange])


def gid_index(stage: Stage, host: str) -> int:
    """Which index the GID of a host's address has now."""
    nic = find_nic(stage.fabric, host)
    return sysfs.gid_index(nic.device, nic.address)


def show_gids(stage: Stage, host: str) -> None:
    """The first of a host's GIDs, by their files below /sys/class/infiniband."""
    table = sysfs.DEVICES / find_nic(stage.fabric, host).device / "ports" / "1" / "gids"
    stage.run(host, "grep", "-H", ":", *(str(table / str(number)) for number in range(_SHOWN)))


def show_queue(stage: Stage, port: str) -> None:
    """What tc(8) says of what waits at a port, was sent and was dropped."""
    node, _, interface = port.partition(":")
    stage.run(node, "tc", "-s", "qdisc", "show", "dev", interface)


def show_link(stage: Stage, port: str) -> None:
    """What ip(8) says of a port's packets and octets."""
    node, _, interface = port.partition(":")
    stage.run(node, "ip", "-s", "link", "show", "dev", interface)


def show_rdma(stage: Stage, host: str) -> None:
    """What rdma(8) says of a host's device: what came, what was sent again, who gave up."""
    stage.run(host, "rdma", "statistic", "show", "link", f"{find_nic(stage.fabric, host).device}/1")


def show_pauses(stage: Stage, port: str, count: int = 2) -> None:
    """The next so many MAC control frames that come to a port, octet by octet, as tcpdump(8) sees them."""
    node, _, interface = port.partition(":")
    stage.run(node, "tcpdump", "-i", interface, "-c", str(count), "-n", "-e", "-X", "-Q", "in", "ether proto 0x8808")


def show_routing(stage: Stage, switch: str, command: str) -> None:
    """What a switch's routing daemons answer; recorded as it is typed on the host."""
    began = time.monotonic_ns()
    done = stage.fabric.router(switch).ask(command)
    stage.recorder.command("", ["rocelab", "vtysh", switch, "-c", command], done, began=began)
