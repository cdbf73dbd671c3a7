"""Diagnostic traffic for an idle fabric: pings of maximum size, and a little RDMA.

An idle fabric shows no loss. The NICs form rings in which neighbours are at different leaves if possible. So each NIC
and each leaf sends and receives, and the QPs of a pair use several equal-cost paths. The traffic is too little to
build queues.
"""

from __future__ import annotations

import contextlib
import math
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from lab.dataplane import counters
from lab.dataplane.port_maps import open_maps
from lab.errors import OperationFailed
from lab.kernel.process import process
from lab.model.hosts import address_of, parse_pair
from lab.model.topology import Role
from lab.rdma import sysfs
from lab.rdma.nic_choice import nics_of
from lab.scenario import orphans
from lab.scenario.probes.arp_probe import LONGEST_ARP, ask_around
from lab.scenario.probes.nic_rings import host_of, is_named, links_of_nic, rings
from lab.scenario.probes.pair_sweep import LONGEST_OF_PAIRS, sweep_pairs
from lab.scenario.probes.path_sweep import longest_of_paths, sweep_paths
from lab.scenario.traffic.patterns import ring
from lab.scenario.traffic.workload import ping_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.model.topology import Topology
    from lab.scenario.stage import Stage

_AT_ONCE: Final = 8
"""Pings that run at the same time."""
_PATIENCE: Final = 30.0
"""The timeout of a ping command in seconds; ping itself waits one second for the answer."""
_SMALL: Final = 56
"""The payload octets of a ping that fits every link."""
_QPS: Final = 8
_MESSAGE: Final = 16384
"""Octets: four packets, so that a lost packet is revealed by those that follow it."""
_SHARE: Final = 16
"""A host sends at most its link's rate divided by this."""
_LOOK: Final = 0.1
"""Seconds of observation that distinguish a permanently paused port from one that is paused briefly."""
_ALWAYS: Final = 0.99


@contextlib.contextmanager
def probing(stage: Stage) -> Iterator[None]:
    """Run pings around rings of NICs, ARP probes, sweeps of pairs and paths, RDMA writes between pairs that answer.

    Everything is recorded: pings, answers, packet filters, and pairs that failed to start. If this process is killed,
    the next command on the fabric ends its transfers.

    On plain links the writes have no port that counts them, but the pings and sweeps tell which pairs talk. No writes
    run while a port may not send at all. Packets in its queue belong to QPs, and when their program ends,
    rxe waits up to 51 s for each of them in turn.
    """
    absent = _absent(stage)
    present = [[nic for nic in each if host_of(nic) not in absent] for each in rings(stage.fabric.topology)]
    nics = [each for each in present if len(each) > 1]
    pairs = [pair for each in nics for pair in ring(each)]
    reached = _ping(stage, pairs)
    ask_around(stage, pairs, absent)
    sweep_pairs(stage, absent)
    sweep_paths(stage, [nic for each in nics for nic in each])
    if standing := _standing(stage) if stage.fabric.topology.qos is not None else []:
        stage.recorder.note(
            "held back", said=f"results of RDMA writes: none was started, because {', '.join(standing)} cannot send"
        )
        reached = []
    able = [pair for pair in reached if all(_has_device(stage, nic) for nic in parse_pair(pair))]
    with orphans.marked(stage.fabric.state), contextlib.ExitStack() as going:
        try:
            if able:
                going.enter_context(stage.writing(*able, qps=_QPS, size=_MESSAGE, pace=_pace(stage.fabric.topology)))
        except OperationFailed as error:
            stage.recorder.note("gave up", pair=", ".join(able), said=str(error))
        for node in stage.fabric.topology.nodes if process.which("nft") else ():
            if node.name not in absent:
                stage.run(node.name, "nft", "list", "ruleset")
        yield


def _absent(stage: Stage) -> set[str]:
    """Return the nodes that do not answer, with a note for each: all others are probed."""
    absent = {node.name for node in stage.fabric.topology.nodes if not stage.fabric.namespace(node.name).answers()}
    for name in sorted(absent):
        stage.recorder.note("held back", said=f"probes of {name}: it does not answer")
    return absent


def longest(topology: Topology) -> int:
    """Return the most seconds that the probes before the writes take, if nothing answers."""
    pings = 2 * sum(len(nics) for nics in rings(topology))
    return math.ceil(pings / _AT_ONCE + LONGEST_ARP + LONGEST_OF_PAIRS + longest_of_paths(topology))


def _has_device(stage: Stage, nic: str) -> bool:
    """Return whether a NIC's RDMA device exists."""
    found = [each for each in nics_of(stage.fabric, host_of(nic)) if is_named(nic, each.interface)]
    return any(sysfs.exists(each.device) for each in found[:1])


def _standing(stage: Stage) -> list[str]:
    """Return ports that are paused in some priority during the whole observation."""
    maps, nodes = open_maps(stage.fabric.name), stage.fabric.numbering.nodes
    first = {name: counters.read(maps, node) for name, node in nodes.items()}
    time.sleep(_LOOK)
    grown = {name: counters.moved(counters.read(maps, node), first[name]) for name, node in nodes.items()}
    return [
        f"{name}:{interface}"
        for name, movement in grown.items()
        for interface in stage.fabric.qos[name].ports
        if max(movement.port(interface)["priority"]["paused_ns"]) >= _ALWAYS * movement.seconds * 1e9
    ]


def _ping(stage: Stage, pairs: Sequence[str]) -> list[str]:
    """Return the pairs whose small ping was answered."""

    def ping(wish: tuple[str, int]) -> tuple[int, process.Completed]:
        pair, size = wish
        src, dst = parse_pair(pair)
        source = str(address_of(stage.fabric.plan, src)) if ":" in src else ""
        words = ping_words(str(address_of(stage.fabric.plan, dst)), size, source=source)
        began = time.monotonic_ns()
        return began, stage.fabric.namespace(host_of(src)).run(words, timeout=_PATIENCE, check=False)

    wishes = [(pair, size) for pair in pairs for size in (_SMALL, _largest(stage.fabric.topology, pair))]
    with ThreadPoolExecutor(_AT_ONCE) as pinging:
        done = list(pinging.map(ping, wishes))
    for (pair, _), (began, said) in zip(wishes, done, strict=True):
        stage.recorder.command(host_of(parse_pair(pair)[0]), said.args, said, began=began)
    return [
        pair for (pair, size), (_, said) in zip(wishes, done, strict=True) if size == _SMALL and not said.returncode
    ]


def _largest(topology: Topology, pair: str) -> int:
    """Return the payload octets of the largest ping, with headers of IPv6 and ICMPv6 (RFC 8200, RFC 4443)."""
    return min(link.mtu for nic in parse_pair(pair) for link in links_of_nic(topology, nic)) - 48


def _pace(topology: Topology) -> int:
    """Return the messages per second of a pair, for the slowest link of a host."""
    slowest = min(link.rate for host in topology.having(Role.HOST) for link in topology.links_of(host.name))
    return max(1, slowest // _SHARE // (8 * _MESSAGE))
