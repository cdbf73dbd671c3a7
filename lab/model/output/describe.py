"""A fabric, its figures and its addressing plan as plain data, for ``--json``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lab.model.addressing import plan_addresses
from lab.model.output.fabric_summary import summarise
from lab.model.qos.advice import advise
from lab.model.qos.capacity import rate_advice

if TYPE_CHECKING:
    from lab.model.addressing import NodePlan
    from lab.model.topology import Topology


def describe(topology: Topology, reaction: float) -> dict[str, Any]:
    """Return all properties of ``topology`` before it runs; rates in bit/s, delays in seconds.

    Warnings assume that an emulated port takes ``reaction`` seconds to pause.
    """
    return {
        **asdict(summarise(topology)),
        "underlay": topology.routing.underlay,
        "node_list": [_node(plan) for plan in plan_addresses(topology).values()],
        "link_list": [
            {
                "name": str(link),
                "a": str(link.a),
                "b": str(link.b),
                "rate": link.rate,
                "mtu": link.mtu,
                "delay": link.delay,
            }
            for link in topology.links
        ],
        "advice": [advice._asdict() for advice in (*advise(topology, reaction), *rate_advice(topology))],
    }


def _node(plan: NodePlan) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": plan.node.name,
        "role": plan.node.role,
        "pod": plan.node.pod,
        "rdma": plan.node.rdma,
        "interfaces": [
            {
                "name": port.name,
                "mac": port.mac,
                "address": None if port.address is None else str(port.address),
                "gateway": None if port.gateway is None else str(port.gateway),
            }
            for port in plan.interfaces.values()
        ],
    }
    if plan.node.role.is_switch:
        described |= {"asn": plan.asn or None, "loopbacks": [str(address) for address in plan.loopbacks]}
    return described
