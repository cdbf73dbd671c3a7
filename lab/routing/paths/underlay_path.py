"""Paths of packets between two hosts, from the routing table of each node's kernel, hop by hop.

With a flow, each kernel reports the next hop that it takes (``ip route get`` with the hashed ports). Without one, it
reports all next hops (``fibmatch``). A node that does not forward packets of their IP version has none: the kernel
reports routes of IPv6 nevertheless, so its sysctls are read as well.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lab.errors import OperationFailed, UsageError
from lab.kernel.process import process, tuning
from lab.wire.udp_ports import ROCEV2_PORT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab.kernel.process.netns import Namespace
    from lab.model.addressing import Address
    from lab.model.topology import Endpoint, Topology

MAX_PATHS: Final = 256
MAX_HOPS: Final = 64


@dataclass(frozen=True, slots=True)
class HostAttachment:
    """A host's interface and its address."""

    end: Endpoint
    address: Address


Path = tuple["Endpoint", ...]
"""The interfaces by which packets leave: the source's first, then each switch's."""


@dataclass(frozen=True)
class Walker:
    """Follow packets through a fabric; ``inside`` returns the namespace of a node."""

    topology: Topology
    inside: Callable[[str], Namespace]

    def of_flow(self, src: HostAttachment, dst: HostAttachment, sport: int) -> Path:
        """Return the path of RoCEv2 packets with this UDP source port; raise OperationFailed if it ends elsewhere."""
        flow = ["ipproto", "udp", "sport", str(sport), "dport", str(ROCEV2_PORT)]
        self._check_source(src, dst)
        path, at = [src.end], self._far(src.end)
        while at.node != dst.end.node:
            if len(path) > MAX_HOPS:
                raise OperationFailed(f"packets from {src.end} to {dst.end} go in a circle at {at.node}", CIRCLE)
            asked = [str(dst.address), "from", str(src.address), "iif", at.interface, *flow]
            self._check_forwarding(at.node, at.interface, dst.address)
            out = self._end(at.node, self._ask(at.node, dst.address, asked))
            path.append(out)
            at = self._far(out)
        return tuple(path)

    def every(self, src: HostAttachment, dst: HostAttachment) -> list[Path]:
        """Return all paths that the routes allow, at most ``MAX_PATHS``."""
        self._check_source(src, dst)
        found: list[Path] = []
        for path in self._onward((src.end,), src, dst):
            found.append(path)
            if len(found) == MAX_PATHS:
                break
        return found

    def _check_source(self, src: HostAttachment, dst: HostAttachment) -> None:
        """Raise OperationFailed if the source does not send to the destination by its own interface."""
        node = src.end.node
        route = self._ask(node, dst.address, [str(dst.address), "from", str(src.address)])
        if route.get("dev") != src.end.interface:
            out = route.get("dev", "nobody")
            raise OperationFailed(f"{node} sends them to {out}, and not by {src.end}", see_routes(node))

    def _onward(self, path: Path, src: HostAttachment, dst: HostAttachment) -> Iterator[Path]:
        at = self._far(path[-1])
        node = at.node
        if node == dst.end.node:
            yield path
            return
        if len(path) > MAX_HOPS:
            raise OperationFailed(f"packets to {dst.end} go in a circle at {node}", CIRCLE)
        self._check_forwarding(node, at.interface, dst.address)
        route = self._ask(
            node, dst.address, ["fibmatch", str(dst.address), "from", str(src.address), "iif", at.interface]
        )
        for hop in route.get("nexthops", [route]):
            yield from self._onward((*path, self._end(node, hop)), src, dst)

    def _check_forwarding(self, node: str, interface: str, towards: Address) -> None:
        """Raise OperationFailed if a node does not forward what it receives on an interface."""
        version = towards.version
        off = self.inside(node).inside(lambda: tuning.forwarding_stopped(version, interface))
        if off:
            remedy = f"rocelab exec {node} -- sysctl -w {off}=1 turns forwarding on"
            raise OperationFailed(f"{node} does not forward IPv{version} packets to {towards}: {off} is 0", remedy)

    def _ask(self, node: str, towards: Address, words: list[str]) -> dict[str, Any]:
        """Return the answer of a node's kernel to ``ip route get``."""
        tool = process.find_tool("ip", "iproute2")
        done = self.inside(node).run([tool, f"-{towards.version}", "-json", "route", "get", *words], check=False)
        try:
            (route,) = json.loads(done.stdout)
        except ValueError:
            said = done.stderr.strip() or "it does not say why"
            raise OperationFailed(f"{node} has no route to {towards}: {said}", see_routes(node)) from None
        answer: dict[str, Any] = route
        return answer

    def _end(self, node: str, route: dict[str, Any]) -> Endpoint:
        device = str(route.get("dev", ""))
        for link in self.topology.links_of(node):
            if (end := link.end_at(node)).interface == device:
                return end
        raise OperationFailed(f"{node} sends them to {device or route.get('type', 'nobody')}", see_routes(node))

    def _far(self, end: Endpoint) -> Endpoint:
        return next(link.other(end) for link in self.topology.links_of(end.node) if end in link.ends)


CIRCLE: Final = "rocelab diagnose names the switches of the loop, and what ends it"
"""The remedy for a forwarding loop."""


def see_routes(node: str) -> str:
    """Return the remedy for a node that does not forward packets as expected."""
    return f"rocelab exec {node} -- ip route shows its routes, and rocelab diagnose --probe names the cause"


def check_port(sport: int) -> None:
    """Raise UsageError if ``sport`` is not a UDP port."""
    if not 1 <= sport <= 65535:
        raise UsageError(f"UDP source port {sport} is out of range", "RoCEv2 uses 49152 to 65535")
