"""Further traffic for scenarios: transfers of other shapes, probes, and the output of commands in a phase."""

from __future__ import annotations

import contextlib
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.dataplane import counters
from lab.dataplane.port_maps import open_maps
from lab.errors import OperationFailed, UsageError
from lab.model.hosts import parse_pair
from lab.rdma import perftest, perftest_session, sysfs
from lab.rdma.continuous_transfers import flowing
from lab.rdma.measure import DEFAULT_TIMEOUT, BandwidthTest, Verb
from lab.rdma.nic_choice import find_nic, find_pair
from lab.rdma.perftest_session import Patience
from lab.scenario.phase_measures import LOSSLESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.scenario.stage import Stage
    from lab.telemetry.read.recording import RecordedCommand, Recording

RESENT: Final = 4.096e-6 * 2**DEFAULT_TIMEOUT + 0.25
"""Seconds until every QP has retransmitted after its path was changed.

Packets that overtake others are rejected, with one NAK for all of them (IBA 9.7.5.1.1). If that NAK has no effect
because the path changes again, the sender waits for the QP's timeout, 1.07 s. By then all packets on the old path
have left it.
"""
_LONGEST: Final = 3600
"""Seconds. Transfers are stopped earlier."""
_PATIENCE: Final = 4.0
"""The maximum seconds until a program has sent its first packet."""
_AHEAD: Final = 32
"""Reads in the send queue of a QP. One is in flight."""
_SHOWN: Final = 6
"""The number of GIDs that ``show_gids`` shows."""


@contextlib.contextmanager
def circulating(stage: Stage, *pairs: str, packets: int, size: int = 4096, verb: Verb = Verb.WRITE) -> Iterator[None]:
    """Keep ``packets`` packets of each pair in flight for the block, one per QP: the queue depth stays constant.

    A QP sends its next message of ``size`` bytes, which fits into a packet, when the last one was acknowledged. With
    reads, which the destination of a pair requests, the kernel does that. With writes a program does, which has to
    wait for the CPU: use reads beside programs that poll.
    """
    reads = verb is Verb.READ
    test = BandwidthTest(size=size, qps=packets, tx_depth=_AHEAD if reads else 1, verb=verb)
    stage.recorder.note(
        "traffic",
        pairs=list(pairs),
        qps=packets,
        size=size,
        tx_depth=test.tx_depth,
        verb=verb.value,
        tclass=test.tclass,
    )
    ends = [parse_pair(pair) for pair in pairs]
    found = [find_pair(stage.fabric, *(reversed(each) if reads else each)) for each in ends]
    with flowing(found, test, one_by_one=reads):
        yield


def is_paused(stage: Stage, port: str) -> bool:
    """Return whether the lossless class of a port is paused now."""
    node, interface = port.split(":")
    reading = counters.read(open_maps(stage.fabric.name), stage.fabric.numbering.nodes[node])
    return bool(reading.port(interface)["priority"]["paused_until"][LOSSLESS] > reading.ns)


def probe(stage: Stage, src: str, dst: str, size: int = 56, count: int = 1) -> None:
    """Run ``ping`` between hosts with the DF bit and ``size`` payload bytes, and wait a second for each answer."""
    stage.run(src, *ping_words(str(find_nic(stage.fabric, dst).address), size, count))


def ping_words(address: str, size: int, count: int = 1, source: str = "") -> tuple[str, ...]:
    """Return the command line of ``probe``, with the source address if a host has several."""
    options = ("-n", "-q", "-M", "do", "-c", str(count), "-i", "0.2", "-W", "1", "-s", str(size))
    return ("ping", *options, *(("-I", source) if source else ()), address)


def commands(rec: Recording, phase: str, program: str) -> list[RecordedCommand]:
    """Return a program's commands in a phase. Raises UsageError if there are none, or no such phase."""
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
    """Return all output of a program in a phase. Raises UsageError like ``commands``."""
    return "\n".join(each.stdout for each in commands(rec, phase, program))


def attempt(stage: Stage, pair: str, seconds: float, index: int) -> None:
    """Run a transfer of a pair for some seconds, with the GID ``index`` at its far end; it may fail.

    The time begins with the first packet sent, whether or not it is answered. Counters show the result.
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
    """Return the current index of the GID of a host's address."""
    nic = find_nic(stage.fabric, host)
    return sysfs.gid_index(nic.device, nic.address)


def show_gids(stage: Stage, host: str) -> None:
    """Record the first GIDs of a host, from /sys/class/infiniband."""
    table = sysfs.DEVICES / find_nic(stage.fabric, host).device / "ports" / "1" / "gids"
    stage.run(host, "grep", "-H", ":", *(str(table / str(number)) for number in range(_SHOWN)))


def show_queue(stage: Stage, port: str) -> None:
    """Record a port's queue, sent packets and drops, from tc(8)."""
    node, _, interface = port.partition(":")
    stage.run(node, "tc", "-s", "qdisc", "show", "dev", interface)


def show_link(stage: Stage, port: str) -> None:
    """Record a port's packets and octets, from ip(8)."""
    node, _, interface = port.partition(":")
    stage.run(node, "ip", "-s", "link", "show", "dev", interface)


def show_rdma(stage: Stage, host: str) -> None:
    """Record the counters of a host's RDMA device, from rdma(8)."""
    stage.run(host, "rdma", "statistic", "show", "link", f"{find_nic(stage.fabric, host).device}/1")


def show_pauses(stage: Stage, port: str, count: int = 2) -> None:
    """Record the next MAC control frames received at a port as hex, from tcpdump(8)."""
    node, _, interface = port.partition(":")
    stage.run(node, "tcpdump", "-i", interface, "-c", str(count), "-n", "-e", "-X", "-Q", "in", "ether proto 0x8808")


def show_routing(stage: Stage, switch: str, command: str) -> None:
    """Record a routing daemon's answer, as a ``rocelab vtysh`` command typed on the host."""
    began = time.monotonic_ns()
    done = stage.fabric.router(switch).ask(command)
    stage.recorder.command("", ["rocelab", "vtysh", switch, "-c", command], done, began=began)
