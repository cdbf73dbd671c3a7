"""An overlay as plain data for JSON, and back, exactly."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address, ip_network
from typing import Any, Final

from lab.model.overlay.intent import Attachment, Bond, Border, Design, Flooding, Network, Overlay, Tenant
from lab.model.topology import Endpoint

_LATER: Final[tuple[Any, ...]] = (0, "", "")
"""Distinguisher, target and group of a network that was stored before there were any."""


def dump_overlay(overlay: Overlay) -> dict[str, Any]:
    """Plain data that ``restore_overlay`` turns into an equal overlay, also after JSON."""
    return {
        "design": overlay.design,
        "gateway_mac": overlay.gateway_mac,
        "tenants": [[tenant.name, tenant.l3vni, tenant.rd, tenant.rt] for tenant in overlay.tenants],
        "networks": [_dump_network(network) for network in overlay.networks],
        "leaks": [list(pair) for pair in overlay.leaks],
        "flooding": overlay.flooding,
        "bonds": [
            [bond.number, [[end.node, end.interface] for end in bond.members], bond.forwarder]
            for bond in overlay.bonds
        ],
        "border": [
            [each.router.node, each.router.interface, each.asn, [str(prefix) for prefix in each.prefixes]]
            for each in overlay.border
        ],
    }


def _dump_network(network: Network) -> list[Any]:
    return [
        network.name,
        network.vlan,
        network.l2vni,
        network.tenant,
        [str(subnet) for subnet in network.subnets],
        [str(gateway) for gateway in network.gateways],
        [[each.end.node, each.end.interface, each.tagged] for each in network.attachments],
        network.rd,
        network.rt,
        "" if network.group is None else str(network.group),
    ]


def restore_overlay(data: dict[str, Any]) -> Overlay:
    """The overlay that ``dump_overlay`` wrote; ValueError, TypeError or KeyError when the data is damaged.

    Recordings of before there were leaks, distinguishers and targets have none, no border, no bonds and no
    groups.
    """
    return Overlay(
        tenants=tuple(Tenant(*each) for each in data["tenants"]),
        networks=tuple(_network(*each) for each in data["networks"]),
        design=Design(data["design"]),
        gateway_mac=str(data["gateway_mac"]),
        leaks=tuple((one, other) for one, other in data.get("leaks", ())),
        border=tuple(
            Border(Endpoint(node, interface), int(asn), tuple(map(ip_network, prefixes)))
            for node, interface, asn, prefixes in data.get("border", ())
        ),
        bonds=tuple(
            Bond(int(number), tuple(Endpoint(*end) for end in members), str(forwarder))
            for number, members, forwarder in data.get("bonds", ())
        ),
        flooding=Flooding(data.get("flooding", Flooding.INGRESS)),
    )


def _network(*data: Any) -> Network:
    name, vlan, l2vni, tenant, subnets, gateways, attachments, *later = data
    rd, rt, group = (*later, *_LATER[len(later) :])
    return Network(
        name,
        vlan,
        l2vni,
        tenant,
        tuple(map(ip_network, subnets)),
        tuple(map(ip_address, gateways)),
        tuple(Attachment(Endpoint(node, interface), tagged) for node, interface, tagged in attachments),
        rd,
        rt,
        IPv4Address(group) if group else None,
    )
