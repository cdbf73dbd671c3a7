"""The ``overlay`` section of a topology file: every key, its meaning, its default and its bounds."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, PlainValidator, WithJsonSchema

from lab.model.overlay.intent import (
    BOND,
    BOND_RANGE,
    GATEWAY_MAC,
    MAX_VRF_NAME,
    RD_RANGE,
    VLAN_RANGE,
    VNI_RANGE,
    Design,
    Flooding,
    Subnet,
    is_flooded,
)
from lab.model.topology import MAX_NODE_NAME, Underlay
from lab.model.values.fields import NAME, NAME_FORM, SECTION, NodeName, named, written
from lab.model.values.yamltext import show

MAX_NETWORKS: Final = 4000
"""The most networks, and the most tenants, of one fabric: each takes a VLAN."""
_HOST_END: Final = f"{NAME[:-1]}(?::(?:eth|{BOND})[1-9][0-9]{{0,3}})?$"
LARGEST_ASN: Final = 4_199_999_999
"""The highest AS number for external routers; the fabric uses higher ones (RFC 6996)."""
_TARGET: Final = "^([0-9]{1,10}):([0-9]{1,10})$"
_SOURCE_SPECIFIC: Final = ip_network("232.0.0.0/8")
_MAC: Final = "^[0-9a-f]{2}(?::[0-9a-f]{2}){5}$"


def _prefix(value: Any) -> Subnet:
    text = written(value, "subnet", "10.1.0.0/24 or fd00:1::/64")
    try:
        return ip_network(text)
    except ValueError as error:
        why = "has host bits set" if "host bits" in str(error) else "is not a subnet"
        raise ValueError(f"{text!a} {why}; write it like 10.1.0.0/24 or fd00:1::/64") from error


def _address(value: Any) -> IPv4Address | IPv6Address:
    text = written(value, "address", "10.1.0.1 or fd00:1::1")
    try:
        return ip_address(text)
    except ValueError as error:
        raise ValueError(f"{text!a} is not an address; write it like 10.1.0.1 or fd00:1::1") from error


def _group(value: Any) -> IPv4Address:
    text = written(value, "group", "239.1.1.10")
    try:
        group = IPv4Address(text)
    except ValueError as error:
        raise ValueError(f"{text!a} is not an IPv4 address; write it like 239.1.1.10") from error
    if not group.is_multicast:
        raise ValueError(f"{group} is not a multicast group; take one of 239.0.0.0/8 (RFC 2365)")
    if group in _SOURCE_SPECIFIC:
        raise ValueError(f"{group} is for known sources (RFC 4607); take one of 239.0.0.0/8")
    if is_flooded(group):
        raise ValueError(
            f"{group} has a MAC of 224.0.0.0/24, which switches flood (RFC 4541); use an address like 239.1.1.1"
        )
    return group


def _mac(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(_MAC, value.lower()):
        raise ValueError(f"{show(value)} is not a MAC address; write it like {GATEWAY_MAC}")
    mac = value.lower()
    if int(mac[:2], 16) & 1 or mac == "00:00:00:00:00:00":
        raise ValueError(f"{mac} is of no single station; choose one whose first octet is even, like {GATEWAY_MAC}")
    return mac


def _target(value: Any) -> str:
    text = written(value, "route target", '"65000:10010"')
    found = re.fullmatch(_TARGET, text)
    if not found:
        raise ValueError(f'{text!a} is not a route target; write it like "65000:10010"')
    asn, number = map(int, found.groups())
    if not (asn < 2**16 and number < 2**32) and not (asn < 2**32 and number < 2**16):
        raise ValueError(f"{text} has no room in 6 bytes; choose numbers of 2 and 4 bytes, or 4 and 2 (RFC 4360)")
    return text


Vlan: TypeAlias = Annotated[int, Field(ge=VLAN_RANGE[0], le=VLAN_RANGE[1])]
Vni: TypeAlias = Annotated[int, Field(ge=VNI_RANGE[0], le=VNI_RANGE[1])]
Distinguisher: TypeAlias = Annotated[int, Field(ge=RD_RANGE[0], le=RD_RANGE[1])]
RouteTarget: TypeAlias = Annotated[
    str, PlainValidator(_target), WithJsonSchema({"type": "string", "pattern": _TARGET, "examples": ["65000:10010"]})
]
TenantName: TypeAlias = Annotated[
    str,
    BeforeValidator(named(NAME, MAX_VRF_NAME, "a tenant's name", NAME_FORM)),
    WithJsonSchema({"type": "string", "pattern": NAME, "maxLength": MAX_VRF_NAME}),
]
NetworkName: TypeAlias = Annotated[
    str,
    BeforeValidator(named(NAME, MAX_NODE_NAME, "a network's name", NAME_FORM)),
    WithJsonSchema({"type": "string", "pattern": NAME, "maxLength": MAX_NODE_NAME}),
]
HostEnd: TypeAlias = Annotated[
    str,
    BeforeValidator(named(_HOST_END, MAX_NODE_NAME + 8, "a host's end", "write a host's name, or h1:eth2")),
    WithJsonSchema({"type": "string", "pattern": _HOST_END, "examples": ["h1", "h1:eth2"]}),
]
Prefix: TypeAlias = Annotated[
    Any, PlainValidator(_prefix), WithJsonSchema({"type": "string", "examples": ["10.1.0.0/24", "fd00:1::/64"]})
]
Gateway: TypeAlias = Annotated[
    Any, PlainValidator(_address), WithJsonSchema({"type": "string", "examples": ["10.1.0.1", "fd00:1::1"]})
]
Group: TypeAlias = Annotated[
    Any, PlainValidator(_group), WithJsonSchema({"type": "string", "format": "ipv4", "examples": ["239.1.1.10"]})
]
Mac: TypeAlias = Annotated[
    str, PlainValidator(_mac), WithJsonSchema({"type": "string", "pattern": _MAC, "examples": [GATEWAY_MAC]})
]
_NAMED_ONLY: Final = Field(json_schema_extra={"additionalProperties": False}, max_length=MAX_NETWORKS)


class _Section(BaseModel):
    model_config = SECTION


class TenantSpec(_Section):
    """A tenant: a VRF on every leaf that has one of its networks."""

    l3vni: Vni | None = None
    """The VNI for routing between its leaves; needed if its networks have gateways."""
    rd: Distinguisher | None = None
    """The number of its route distinguisher, after each leaf's loopback; by default FRR's own."""
    rt: RouteTarget | None = None
    """Its route target for import and export, like 65000:50010; by default FRR's own, from AS and VNI."""


class NetworkSpec(_Section):
    """A broadcast domain: a VLAN at the leaves of its hosts, and a VNI between them."""

    vlan: Vlan
    """Its VLAN on every leaf, and the tag of tagged hosts."""
    l2vni: Vni | None = None
    """Its VNI; plain VLANs have none."""
    tenant: TenantName | None = None
    """Its tenant. Needed for gateways, which are in the tenant's VRF."""
    subnets: Annotated[list[Prefix], Field(max_length=2)] = []
    """At most one of IPv4 and one of IPv6. Its hosts get their first free addresses, in the order below."""
    gateways: Annotated[list[Gateway], Field(max_length=2)] = []
    """Anycast gateways, one in each routed subnet: every leaf of the network has this address and the same MAC."""
    untagged: list[HostEnd] = []
    """Hosts with untagged frames of this network on an interface: h1, or h1:eth2."""
    rd: Distinguisher | None = None
    """The number of its route distinguisher, after each leaf's loopback; by default FRR's own."""
    rt: RouteTarget | None = None
    """Its route target for import and export, like 65000:10010; by default FRR's own, from AS and VNI."""
    group: Group | None = None
    """The group that its leaves flood to with flooding: multicast; by default 239 and the three bytes of its VNI."""
    tagged: list[HostEnd] = []
    """Hosts with tagged frames of this network, on an interface like eth1.10."""

    def is_routed(self, subnet: Subnet) -> bool:
        """Return whether the network has a gateway of the subnet's IP version, valid or not."""
        return any(gateway.version == subnet.version for gateway in self.gateways)


class BorderSpec(_Section):
    """An external router, run on a host. It advertises prefixes to its leaf by eBGP, in the tenant's VRF."""

    router: HostEnd
    """A host's end that is untagged in a network of a tenant with gateways: h6, or h6:eth2."""
    asn: Annotated[int, Field(ge=1, le=LARGEST_ASN)]
    """Its AS number."""
    prefixes: Annotated[list[Prefix], Field(min_length=1)]
    """Advertised prefixes; 0.0.0.0/0 is a default route. The first address of each other prefix answers. Several
    routers may advertise a prefix: a border leaf uses its own router, others use the nearest border leaves.
    """


class BondSpec(_Section):
    """Interfaces of one host to two or more leaves, aggregated: all of them carry traffic, and any may fail."""

    number: Annotated[int, Field(ge=BOND_RANGE[0], le=BOND_RANGE[1])]
    """Number of the bond and its segment: 1 for bond1, which networks name like h1:bond1."""
    members: Annotated[list[HostEnd], Field(min_length=2, max_length=8)]
    """The host's interfaces, like [h1:eth1, h1:eth2]."""
    forwarder: NodeName | None = None
    """The preferred designated forwarder, which delivers flooded frames to the host; by default FRR elects one."""


class OverlaySpec(_Section):
    """Tenants over the fabric, with BGP EVPN (RFC 7432, RFC 8365) and VXLAN."""

    design: Annotated[Design, Field(strict=False)] = Design.EBGP
    """Sessions that carry EVPN routes. ebgp: those of the underlay, hop by hop. ebgp-multihop: sessions between the
    loopbacks of leaves and spines. ibgp: the same in one AS, spines reflect routes. vlans: no EVPN and no VXLAN;
    links between switches are trunks with a spanning tree (IEEE 802.1D).
    """
    underlay: Annotated[Underlay, Field(strict=False)] | None = None
    """Alias of routing.underlay, which is preferred. If both are set, they must agree."""
    flooding: Annotated[Flooding, Field(strict=False)] = Flooding.INGRESS
    """Delivery of broadcasts. ingress-replication: a leaf sends a copy to each other leaf. multicast: one copy to the
    network's group, which PIM-SM delivers (RFC 7761).
    """
    gateway_mac: Mac = GATEWAY_MAC
    """The MAC address of every gateway, the same on all leaves."""
    tenants: Annotated[dict[TenantName, TenantSpec], _NAMED_ONLY] = {}
    """Tenants by name, which is also the name of their VRF."""
    networks: Annotated[dict[NetworkName, NetworkSpec], _NAMED_ONLY] = {}
    """Networks by name."""
    leaks: list[Annotated[list[TenantName], Field(min_length=2, max_length=2)]] = []
    """Pairs of tenants that reach each other's subnets, like [blue, red]: each VRF imports the other's routes."""
    border: list[BorderSpec] = []
    """External routers: all leaves of the tenant get their prefixes as type-5 routes."""
    bonds: Annotated[list[BondSpec], Field(max_length=BOND_RANGE[1])] = []
    """Hosts on several leaves at once, with LACP and an Ethernet segment (RFC 7432 section 8)."""
