"""Traffic that a diagnosis makes itself, where nobody else has any: pings as large as they may be, and a little RDMA.

A fabric that is idle shows no loss. NICs form rings in which neighbours are at different leaves where that can be:
so each NIC and each leaf sends and receives, and several QPs of each pair go by several of the equal paths. They
send so little that no queue stands for it.
"""

from __future__ import annotations

import contextlib
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
from lab.scenario.probes.arp_probe import ask_around
from lab.scenario.probes.nic_rings import host_of, is_named, links_of_nic, rings
from lab.scenario.probes.path_sweep import sweep_paths
from lab.scenario.traffic.patterns import ring
from lab.scenario.traffic.workload import ping_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.model.topology import Topology
    from lab.scenario.stage import Stage

_AT_ONCE: Final = 8
"""Pings."""
_PATIENCE: Final = 30.0
"""Seconds for one; it waits for its answer for one of them."""
_SMALL: Final = 56
"""Octets behind the header of a ping that passes everywhere."""
_QPS: Final = 8
_MESSAGE: Final = 16384
"""Octets: four packets, so that one that is lost has followers who tell."""
_SHARE: Final = 16
"""Of its link's rate a host sends one part in so many."""
_LOOK: Final = 0.1
"""Seconds in which a port that may not send at all is told from one that is paused now and then."""
_ALWAYS: Final = 0.99


@contextlib.contextmanager
def probing(stage: Stage) -> Iterator[None]:
    """Ping around rings of NICs, ask by ARP, sweep all paths, have those write that were reached; look for filters.

    All of it is recorded: the pings, the answers, the filters, and who could not begin. Killed, it leaves no
    transfers: the next command about the fabric ends them.

    Nobody writes while a port may not send at all: what stands in its queue belongs to queue pairs, and when their
    program ends rxe waits up to 51 s for each of them, one after the other.
    """
    nics = rings(stage.fabric.topology)
    pairs = [pair for each in nics for pair in ring(each)]
    reached = _ping(stage, pairs)
    ask_around(stage, pairs)
    sweep_paths(stage, [nic for each in nics for nic in each])
    if standing := _standing(stage):
        stage.recorder.note(
            "held back", said=f"what writes would show: {', '.join(standing)} may not send, so none began"
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
            stage.run(node.name, "nft", "list", "ruleset")
        yield


def _has_device(stage: Stage, nic: str) -> bool:
    """Whether a NIC has an RDMA device to write with, which may be gone."""
    found = [each for each in nics_of(stage.fabric, host_of(nic)) if is_named(nic, each.interface)]
    return any(sysfs.exists(each.device) for each in found[:1])


def _standing(stage: Stage) -> list[str]:
    """Ports that may not send, in any priority, for as long as they are looked at."""
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
    """Pairs of which the small ping was answered."""

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
    """Octets behind the headers of IPv6 and ICMPv6, which are the longer ones (RFC 8200, RFC 4443)."""
    return min(link.mtu for nic in parse_pair(pair) for link in links_of_nic(topology, nic)) - 48


def _pace(topology: Topology) -> int:
    """Messages a second of a pair, of the slowest link that a host has."""
    slowest = min(link.rate for host in topology.having(Role.HOST) for link in topology.links_of(host.name))
    return max(1, slowest // _SHARE // (8 * _MESSAGE))
