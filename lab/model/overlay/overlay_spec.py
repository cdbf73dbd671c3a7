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

MAX_NETWORKS: Final = 4000
"""Networks and tenants of one fabric: each takes a VLAN, and the rules count them."""
_HOST_END: Final = f"{NAME[:-1]}(?::(?:eth|{BOND})[1-9][0-9]{{0,3}})?$"
LARGEST_ASN: Final = 4_199_999_999
"""Above it are the fabric's own (RFC 6996)."""
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
        raise ValueError(f"{ascii(value)[:60]} is not a MAC address; write it like {GATEWAY_MAC}")
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
    """The VNI by which its leaves route to each other; needed where its networks have gateways."""
    rd: Distinguisher | None = None
    """The number of its route distinguisher, behind each leaf's loopback; otherwise FRR's own."""
    rt: RouteTarget | None = None
    """Its route target, imported and exported, like 65000:50010; otherwise FRR's own, of AS and VNI."""


class NetworkSpec(_Section):
    """A broadcast domain: a VLAN at the leaves where hosts are in it, and a VNI between them."""

    vlan: Vlan
    """Its VLAN on every leaf; hosts that are tagged use it too."""
    l2vni: Vni | None = None
    """Its VNI; plain VLANs have none."""
    tenant: TenantName | None = None
    """Whose it is. Needed for gateways: they are in the tenant's VRF."""
    subnets: Annotated[list[Prefix], Field(max_length=2)] = []
    """At most one of IPv4 and one of IPv6. Its hosts get their first free addresses, in the order below."""
    gateways: Annotated[list[Gateway], Field(max_length=2)] = []
    """Anycast gateways, one in each subnet that is routed: every leaf of the network has this address and one MAC."""
    untagged: list[HostEnd] = []
    """Hosts whose interface is in this network alone, or carries others with tags: h1, or h1:eth2."""
    rd: Distinguisher | None = None
    """The number of its route distinguisher, behind each leaf's loopback; otherwise FRR's own."""
    rt: RouteTarget | None = None
    """Its route target, imported and exported, like 65000:10010; otherwise FRR's own, of AS and VNI."""
    group: Group | None = None
    """To which its leaves flood with flooding: multicast; otherwise 239 and the three bytes of its VNI."""
    tagged: list[HostEnd] = []
    """Hosts that send and receive it with its VLAN's tag, on an interface like eth1.10."""

    def is_routed(self, subnet: Subnet) -> bool:
        """Whether one of its subnets has a gateway, in it as rules ask or not, and so is in the tenant's VRF."""
        return any(gateway.version == subnet.version for gateway in self.gateways)


class BorderSpec(_Section):
    """A router outside the fabric, played by a host, and what it tells its leaf by eBGP, in the tenant's VRF."""

    router: HostEnd
    """A host's end that is untagged in a network of a tenant with gateways: h6, or h6:eth2."""
    asn: Annotated[int, Field(ge=1, le=LARGEST_ASN)]
    """Its AS number."""
    prefixes: Annotated[list[Prefix], Field(min_length=1)]
    """What it tells: 0.0.0.0/0 for a default route. Of others it has the first address, which answers. Several
    routers may tell one: a border leaf sends by its own, others by all border leaves that are nearest."""


class BondSpec(_Section):
    """Interfaces of one host, to two leaves or more, that are one: all of them carry, and any may fail."""

    number: Annotated[int, Field(ge=BOND_RANGE[0], le=BOND_RANGE[1])]
    """Of its name and its segment: 1 for bond1, which networks name like h1:bond1."""
    members: Annotated[list[HostEnd], Field(min_length=2, max_length=8)]
    """The host's interfaces, like [h1:eth1, h1:eth2]."""
    forwarder: NodeName | None = None
    """The leaf that gives the host what is flooded in tunnels, as long as it is there; otherwise FRR elects."""


class OverlaySpec(_Section):
    """Tenants over the fabric: BGP EVPN (RFC 7432, RFC 8365) tells where they are, VXLAN carries their packets."""

    design: Annotated[Design, Field(strict=False)] = Design.EBGP
    """Which sessions carry EVPN's routes. ebgp: those of the underlay, hop by hop. ebgp-multihop: sessions between
    the loopbacks of leaves and spines. ibgp: the same in one AS, spines reflect routes. vlans: none, and no VXLAN;
    links between switches are trunks, and of them a spanning tree carries (IEEE 802.1D)."""
    underlay: Annotated[Underlay, Field(strict=False)] | None = None
    """The same as routing.underlay, which is the place for it. Given twice, both must agree."""
    flooding: Annotated[Flooding, Field(strict=False)] = Flooding.INGRESS
    """What becomes of broadcasts. ingress-replication: a leaf sends a copy to each other leaf. multicast: one to the
    network's group, which PIM-SM brings to all (RFC 7761)."""
    gateway_mac: Mac = GATEWAY_MAC
    """The MAC address of every gateway, the same on all leaves."""
    tenants: Annotated[dict[TenantName, TenantSpec], _NAMED_ONLY] = {}
    """Tenants by name, which is their VRF's."""
    networks: Annotated[dict[NetworkName, NetworkSpec], _NAMED_ONLY] = {}
    """Networks by name."""
    leaks: list[Annotated[list[TenantName], Field(min_length=2, max_length=2)]] = []
    """Pairs of tenants that reach each other's subnets, like [blue, red]: each VRF imports the other's routes."""
    border: list[BorderSpec] = []
    """Routers outside: their prefixes go to all leaves of the tenant as routes of type 5."""
    bonds: Annotated[list[BondSpec], Field(max_length=BOND_RANGE[1])] = []
    """Hosts that are on several leaves at once, by LACP and an Ethernet segment (RFC 7432 section 8)."""
