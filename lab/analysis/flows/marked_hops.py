"""Find where a flow was marked: compare its packets at several links, in the order of its path.

A CE mark stays to the end of the path (RFC 3168 section 5). So the share of marked packets grows after the queue that
marks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.analysis.results.analysis_facts import FlowPath, MarkedHop
from lab.analysis.results.number_format import DIRECTIONS, address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.analysis.flows.flow_sums import FlowKey, Flows


def paths(flows: Flows, links: Sequence[str]) -> tuple[FlowPath, ...]:
    """Return the flows that two or more links captured, with or without VXLAN; ``links`` are names by number."""
    return tuple(_path(flows, links, members) for members in flows.alike())


def _path(flows: Flows, links: Sequence[str], members: list[int]) -> FlowPath:
    key: FlowKey = flows.key(members[0])
    in_order = sorted(members, key=lambda flow: int(flows.seen[flow, 0]))
    hops = tuple(_hop(flows, links, flow) for flow in in_order)
    return FlowPath(src=address(key.src), dst=address(key.dst), qp=key.destqp, hops=hops)


def _hop(flows: Flows, links: Sequence[str], flow: int) -> MarkedHop:
    packets, marked = (int(flows.sums[name][flow]) for name in ("packets", "ce"))
    ttl, direction = flows.newest[flow].tolist()
    link = links[flows.key(flow).interface]
    dscp = next(iter(flows.dscps(flow)), None)
    return MarkedHop(
        link=link,
        direction=DIRECTIONS[direction],
        ttl=ttl,
        dscp=dscp,
        packets=packets,
        marked=marked,
        marked_share=marked / packets,
    )
