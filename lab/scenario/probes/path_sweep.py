"""The path sweep: small packets and some of MTU size over every equal-cost path, selected by UDP source port.

One NIC of each leaf sends to one of the next leaf, in a ring. So each link between switches is crossed in both
directions. The kernel of each switch reports the path of a source port.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed
from lab.kernel.packets.sweep import SweepFlow, sweep
from lab.model.hosts import parse_pair
from lab.rdma.nic_choice import find_nic, nics_of
from lab.scenario.probes.ecmp import ways
from lab.scenario.probes.nic_rings import host_of, is_named, links_of_nic, of_each_leaf
from lab.scenario.traffic.patterns import ring

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.model.topology import Topology
    from lab.scenario.stage import Stage

Path = tuple[str, ...]
"""The egress ports of a path: the source's, then each switch's."""

_PORTS: Final = range(61000, 61256)
"""Above Linux's ephemeral ports; enough ports to find sixteen paths."""
_PATHS: Final = 32
"""The maximum number of paths of a pair."""
_ROUNDS: Final = 100
_EVERY: Final = 10
"""One in so many rounds includes a large packet."""
_SHARE: Final = 4
"""A host sends at most its link's rate divided by this."""
_ASKING: Final = 4.0
"""Seconds: asking for the paths, and a second for what is late."""
_HOPS: Final = 16
_AT_ONCE: Final = 8


def sweep_paths(stage: Stage, nics: Sequence[str]) -> None:
    """Sweep between one NIC of each leaf among ``nics``, and record the packets sent and received on each path.

    NICs without an IPv4 address of their own, and pairs without a route, are left out. In an overlay, whose tunnels
    choose their own source ports, it does nothing.
    """
    topology = stage.fabric.topology
    chosen = of_each_leaf(topology, _with_addresses(stage, nics)) if topology.overlay is None else []
    pairs = [pair for pair in ring(chosen) if not _is_within_a_host(pair)] if len(chosen) > 1 else []
    with ThreadPoolExecutor(_AT_ONCE) as asking:
        found = list(asking.map(lambda pair: _paths(stage, pair), pairs))
    swept = [(pair, path, port) for pair, paths in zip(pairs, found, strict=True) for path, port in paths.items()]
    if not swept:
        return
    large, pause = _large(topology, pairs), _pause(topology, pairs, max(map(len, found)))
    try:
        tallies = sweep([_flow(stage, pair, port) for pair, _, port in swept], large, _ROUNDS, _EVERY, pause)
    except OSError as error:
        stage.recorder.note("gave up", said=f"no sweep over paths: {error}")
        return
    if tallies is None:
        stage.recorder.note("held back", said="a sweep over all paths: a receiver's buffer overflowed")
        return
    for (pair, path, port), tally in zip(swept, tallies, strict=True):
        stage.recorder.note(
            "swept", pair=pair, path=list(path), port=port, size=large, small=[tally.sent, tally.came],
            large=[tally.large_sent, tally.large_came], delay=min(tally.delays, default=None),
        )  # fmt: skip


def _with_addresses(stage: Stage, nics: Sequence[str]) -> list[str]:
    """Return the RDMA NICs with an IPv4 address on a cabled interface."""
    found = []
    for nic in nics:
        named = [each for each in nics_of(stage.fabric, host_of(nic)) if is_named(nic, each.interface)]
        links = links_of_nic(stage.fabric.topology, nic)
        if named and named[0].address.version == 4 and named[0].interface == links[0].end_at(host_of(nic)).interface:
            found.append(nic)
    return found


def _is_within_a_host(pair: str) -> bool:
    src, dst = parse_pair(pair)
    return host_of(src) == host_of(dst)


def _paths(stage: Stage, pair: str) -> Mapping[Path, int]:
    """Return a source port for each path of a pair; empty, with a note, without a route."""
    try:
        return covering(stage, pair)
    except OperationFailed as error:
        stage.recorder.note("gave up", pair=pair, said=str(error))
        return {}


def covering(stage: Stage, pair: str) -> dict[Path, int]:
    """Return the lowest source port of each end-to-end path. Raises OperationFailed if there is no route."""
    peers = {str(end): link.other(end) for link in stage.fabric.topology.links for end in link.ends}
    src, dst = (find_nic(stage.fabric, name) for name in parse_pair(pair))
    going: dict[Path, list[int]] = {(f"{src.host}:{src.interface}",): list(_PORTS)}
    done: dict[Path, int] = {}
    for _ in range(_HOPS):
        further: dict[Path, list[int]] = {}
        for path, ports in going.items():
            if (far := peers.get(path[-1])) is None:
                continue
            if far.node == dst.host:
                done[path] = ports[0]
                continue
            for port, interface in ways(stage, pair, str(far), ports).items():
                further.setdefault((*path, f"{far.node}:{interface}"), []).append(port)
        going = further
    return dict(list(done.items())[:_PATHS])


def longest_of_paths(topology: Topology) -> float:
    """Return the most seconds that a path sweep takes: a fabric of slow links takes longer."""
    links = [link for host in topology.hosts for link in topology.links_of(host.name)]
    if topology.overlay is not None or not links:
        return 0.0
    return _ASKING + _ROUNDS * _between(max(link.mtu for link in links), _PATHS, min(link.rate for link in links))


def _flow(stage: Stage, pair: str, port: int) -> SweepFlow:
    src, dst = (find_nic(stage.fabric, nic) for nic in parse_pair(pair))
    return SweepFlow(
        sender=src.namespace,
        receiver=dst.namespace,
        interface=dst.interface,
        src=IPv4Address(src.address),
        dst=IPv4Address(dst.address),
        port=port,
    )


def _large(topology: Topology, pairs: Sequence[str]) -> int:
    """Return the smallest MTU of these NICs' links in the topology."""
    return min(links_of_nic(topology, nic)[0].mtu for pair in pairs for nic in parse_pair(pair))


def _pause(topology: Topology, pairs: Sequence[str], paths: int) -> float:
    """Return the seconds between rounds, so that the sweep builds no queue."""
    slowest = min(links_of_nic(topology, nic)[0].rate for pair in pairs for nic in parse_pair(pair))
    return _between(_large(topology, pairs), paths, slowest)


def _between(large: int, paths: int, rate: int) -> float:
    """Return the seconds between rounds over so many paths, with large packets of so many octets."""
    octets = large / _EVERY + 150
    return paths * octets * 8 * _SHARE / rate
