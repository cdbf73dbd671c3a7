"""Find where a flow was marked: compare its packets at several links, in the order of its path.

A CE mark stays to the end of the path (RFC 3168 section 5). So the share of marked packets grows after the queue that
marks. Routers lower the TTL, which says more about the order of links than the clocks of several machines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.analysis.results.analysis_facts import FlowPath, MarkedHop
from lab.analysis.results.number_format import DIRECTIONS, address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.analysis.flows.flow_sums import FlowKey, Flows


def paths(flows: Flows, links: Sequence[str], start: int) -> tuple[FlowPath, ...]:
    """Return the flows that two or more links captured, with or without VXLAN.

    ``links`` are names by number, and ``start`` is the time of the capture's first packet, in ns since 1970.
    """
    return tuple(_path(flows, links, start, members) for members in flows.alike())


def _path(flows: Flows, links: Sequence[str], start: int, members: list[int]) -> FlowPath:
    key: FlowKey = flows.key(members[0])
    in_order = sorted(members, key=lambda flow: int(flows.seen[flow, 0]))
    if len({flows.key(flow).vni for flow in members}) == 1:  # a tunnel has a TTL of its own
        in_order.sort(key=lambda flow: -int(flows.newest[flow, 0]))
    hops = tuple(_hop(flows, links, start, flow) for flow in in_order)
    return FlowPath(src=address(key.src), dst=address(key.dst), qp=key.destqp, hops=hops)


def _hop(flows: Flows, links: Sequence[str], start: int, flow: int) -> MarkedHop:
    packets, marked, ect = (int(flows.sums[name][flow]) for name in ("packets", "ce", "ect"))
    first, last = ((time - start) / 1e9 for time in flows.seen[flow].tolist())
    ttl, direction = flows.newest[flow].tolist()
    link = links[flows.key(flow).interface]
    dscp = next(iter(flows.dscps(flow)), None)
    return MarkedHop(
        link=link,
        direction=DIRECTIONS[direction],
        ttl=ttl,
        dscp=dscp,
        first=first,
        last=last,
        packets=packets,
        ect=ect,
        marked=marked,
        marked_share=marked / packets,
    )
