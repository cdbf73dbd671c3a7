"""Traffic that a diagnosis makes itself, where nobody else has any: pings as large as they may be, and a little RDMA.

A fabric that is idle shows no loss. Hosts form a ring in which neighbours are at different leaves where that can be:
so each host and each leaf sends and receives, and several QPs of each pair go by several of the equal paths. They
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
from lab.model.hosts import addresses_of
from lab.model.overlay.tenancy import reach_of_ends
from lab.model.topology import Role
from lab.rdma import sysfs
from lab.rdma.nic_choice import nics_of, parse_pair
from lab.scenario import orphans
from lab.scenario.probes.arp_probe import ask_around
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
    """Ping around rings of hosts, ask by ARP, sweep all paths, have those write that were reached; look for filters.

    All of it is recorded: the pings, the answers, the filters, and who could not begin. Killed, it leaves no
    transfers: the next command about the fabric ends them.

    Nobody writes while a port may not send at all: what stands in its queue belongs to queue pairs, and when their
    program ends rxe waits up to 51 s for each of them, one after the other.
    """
    hosts = rings(stage.fabric.topology)
    pairs = [pair for each in hosts for pair in ring(each)]
    reached = _ping(stage, pairs)
    ask_around(stage, pairs)
    for each in hosts:
        sweep_paths(stage, each)
    if standing := _standing(stage):
        stage.recorder.note(
            "held back", said=f"what writes would show: {', '.join(standing)} may not send, so none began"
        )
        reached = []
    able = [pair for pair in reached if all(_has_device(stage, host) for host in parse_pair(pair))]
    with orphans.marked(stage.fabric.state), contextlib.ExitStack() as going:
        try:
            if able:
                going.enter_context(stage.writing(*able, qps=_QPS, size=_MESSAGE, pace=_pace(stage.fabric.topology)))
        except OperationFailed as error:
            stage.recorder.note("gave up", pair=", ".join(able), said=str(error))
        for node in stage.fabric.topology.nodes if process.which("nft") else ():
            stage.run(node.name, "nft", "list", "ruleset")
        yield


def _has_device(stage: Stage, host: str) -> bool:
    """Whether a host has an RDMA device to write with, which may be gone."""
    return any(sysfs.exists(nic.device) for nic in nics_of(stage.fabric, host)[:1])


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


def rings(topology: Topology) -> list[list[str]]:
    """Hosts that can reach each other, two or more, in an order in which neighbours are at different leaves."""
    reach = reach_of_ends(topology)
    found: dict[tuple[str, str], dict[str, list[str]]] = {}
    for host in topology.having(Role.HOST):
        for link in topology.links_of(host.name)[:1]:
            end = link.end_at(host.name)
            if topology.overlay is None or end in reach:
                at = found.setdefault(reach.get(end, ("", "")), {}).setdefault(link.other(end).node, [])
                at.append(host.name)
    dealt = [_dealt(list(leaves.values())) for leaves in found.values()]
    return [hosts for hosts in dealt if len(hosts) > 1]


def _dealt(leaves: Sequence[Sequence[str]]) -> list[str]:
    """The first of each leaf, then the second of each, and so on."""
    most = max(map(len, leaves))
    return [hosts[turn] for turn in range(most) for hosts in leaves if turn < len(hosts)]


def _ping(stage: Stage, pairs: Sequence[str]) -> list[str]:
    """Pairs of which the small ping was answered."""

    def ping(wish: tuple[str, int]) -> tuple[int, process.Completed]:
        pair, size = wish
        src, dst = parse_pair(pair)
        words = ping_words(str(addresses_of(stage.fabric.plan, dst)[0]), size)
        began = time.monotonic_ns()
        return began, stage.fabric.namespace(src).run(words, timeout=_PATIENCE, check=False)

    wishes = [(pair, size) for pair in pairs for size in (_SMALL, _largest(stage.fabric.topology, pair))]
    with ThreadPoolExecutor(_AT_ONCE) as pinging:
        done = list(pinging.map(ping, wishes))
    for (pair, _), (began, said) in zip(wishes, done, strict=True):
        stage.recorder.command(parse_pair(pair)[0], said.args, said, began=began)
    return [
        pair for (pair, size), (_, said) in zip(wishes, done, strict=True) if size == _SMALL and not said.returncode
    ]


def _largest(topology: Topology, pair: str) -> int:
    """Octets behind the headers of IPv6 and ICMPv6, which are the longer ones (RFC 8200, RFC 4443)."""
    return min(link.mtu for host in parse_pair(pair) for link in topology.links_of(host)) - 48


def _pace(topology: Topology) -> int:
    """Messages a second of a pair, of the slowest link that a host has."""
    slowest = min(link.rate for host in topology.having(Role.HOST) for link in topology.links_of(host.name))
    return max(1, slowest // _SHARE // (8 * _MESSAGE))
