"""Serialise an overlay to plain data for JSON, and restore it exactly.

Records are stored as lists without field names. Both directions take the names from one tuple.
"""

from __future__ import annotations

from ipaddress import IPv4Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any, Final

from lab.model.overlay.intent import Attachment, Bond, Border, Design, Flooding, Network, Overlay, Tenant
from lab.model.topology import Endpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

_TENANT: Final = ("name", "l3vni", "rd", "rt")
_NETWORK: Final = (
    "name", "vlan", "l2vni", "tenant", "subnets", "gateways", "attachments", "rd", "rt", "group",
)  # fmt: skip
_TENANT_ALWAYS, _NETWORK_ALWAYS = 2, 7
"""The number of fields in the first version of the format."""


def by_name(names: Sequence[str], values: Sequence[Any], least: int | None = None) -> dict[str, Any]:
    """Return stored values by field name; trailing ones may be missing, down to ``least``.

    Raises ValueError if there are too few or too many, and TypeError if they are no list.
    """
    if not isinstance(values, list):
        raise TypeError(values)
    if not (len(names) if least is None else least) <= len(values) <= len(names):
        raise ValueError(values)
    return dict(zip(names, values, strict=False))


def dump_overlay(overlay: Overlay) -> dict[str, Any]:
    """Return plain data for ``restore_overlay``; it survives JSON."""
    return {
        "design": overlay.design,
        "gateway_mac": overlay.gateway_mac,
        "tenants": [[getattr(tenant, name) for name in _TENANT] for tenant in overlay.tenants],
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
    plain = {
        "subnets": [str(subnet) for subnet in network.subnets],
        "gateways": [str(gateway) for gateway in network.gateways],
        "attachments": [[each.end.node, each.end.interface, each.tagged] for each in network.attachments],
        "group": "" if network.group is None else str(network.group),
    }
    return [plain[name] if name in plain else getattr(network, name) for name in _NETWORK]


def restore_overlay(data: dict[str, Any]) -> Overlay:
    """Return the overlay of ``dump_overlay``; raise ValueError, TypeError or KeyError if the data is damaged.

    Old recordings lack leaks, distinguishers, targets, border, bonds or groups.
    """
    return Overlay(
        tenants=tuple(Tenant(**by_name(_TENANT, each, _TENANT_ALWAYS)) for each in data["tenants"]),
        networks=tuple(_network(**by_name(_NETWORK, each, _NETWORK_ALWAYS)) for each in data["networks"]),
        design=Design(data["design"]),
        gateway_mac=str(data["gateway_mac"]),
        leaks=tuple((one, other) for one, other in data.get("leaks", ())),
        border=tuple(
            Border(router=Endpoint(node, interface), asn=int(asn), prefixes=tuple(map(ip_network, prefixes)))
            for node, interface, asn, prefixes in data.get("border", ())
        ),
        bonds=tuple(
            Bond(
                number=int(number),
                members=tuple(Endpoint(node, interface) for node, interface in members),
                forwarder=str(forwarder),
            )
            for number, members, forwarder in data.get("bonds", ())
        ),
        flooding=Flooding(data.get("flooding", Flooding.INGRESS)),
    )


def _network(*, subnets: Any, gateways: Any, attachments: Any, group: str = "", **others: Any) -> Network:
    return Network(
        subnets=tuple(map(ip_network, subnets)),
        gateways=tuple(map(ip_address, gateways)),
        attachments=tuple(Attachment(Endpoint(node, interface), tagged) for node, interface, tagged in attachments),
        group=IPv4Address(group) if group else None,
        **others,
    )
