"""The forwarding state of an overlay's leaves and hosts, parsed for comparison.

``lab.telemetry.record.forwarding_state`` records interfaces, tunnels, the FDB and the BGP configuration of each node.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_interface
from typing import TYPE_CHECKING, Any, Final

from lab.model.overlay.intent import FLOOD_MAC

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_INHERIT: Final = 1
_LINK_LOCAL: Final = "fe80:"
_EVPN: Final = re.compile(r"^ address-family l2vpn evpn\n(.*?)^ exit-address-family", re.DOTALL | re.MULTILINE)
_VNI: Final = re.compile(r"^  vni (\d+)\n(.*?)^  exit-vni", re.DOTALL | re.MULTILINE)
_SEGMENT: Final = re.compile(r"^interface (\S+)\n((?: .*\n)*? evpn mh es-id .*\n(?: .*\n)*)", re.MULTILINE)
_IDENTITY: Final = re.compile(r"^ evpn mh es-(id|sys-mac) (\S+)", re.MULTILINE)
_TARGET: Final = re.compile(r"^ *route-target (import|export|both) (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TunnelState:
    """A VXLAN device: its VNI, VLAN, local address, and whether it inherits the DSCP."""

    device: str
    vni: int
    vlan: int
    local: str
    inherits: bool
    floods_to: frozenset[str] = frozenset()
    """The remote addresses for broadcast and multicast traffic: other leaves, or a multicast group."""

    @property
    def heard_by(self) -> frozenset[str]:
        """The addresses at which the tunnel receives flooded packets: its own, and its multicast groups."""
        return frozenset({self.local, *(each for each in self.floods_to if ip_address(each).is_multicast)})


@dataclass(frozen=True, slots=True)
class GatewayState:
    """A VLAN interface with its addresses (with prefix lengths)."""

    device: str
    vlan: int
    mac: str
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evpn:
    """The EVPN configuration of a switch's BGP."""

    tells_vnis: bool
    """Whether BGP advertises all of its VNIs (advertise-all-vni)."""
    activated: tuple[str, ...]
    """Neighbours and peer groups with the address family activated."""
    imports: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Configured route targets by VNI; those of other VNIs are derived."""
    exports: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    announced: tuple[str, ...] = ()
    """Prefixes in BGP's ``network`` statements."""


@dataclass(frozen=True, slots=True)
class Forwarding:
    """The forwarding state of a node."""

    macs: Mapping[str, str]
    """The MAC by interface, physical interfaces (veth) only."""
    mtus: Mapping[str, int]
    networks: frozenset[str]
    """The networks of its addresses, without link-local addresses and those of the loopback."""
    vnis: Mapping[str, frozenset[int]]
    """By bridge port: the VNIs of its VLANs. Empty in old recordings, which have no VLANs."""
    made_of: Mapping[str, str]
    """By interface: the MAC from which its IPv6 link-local address was derived (RFC 4291 appendix A)."""
    tunnels: tuple[TunnelState, ...] = ()
    gateways: tuple[GatewayState, ...] = ()
    evpn: Evpn | None = None
    """None for a host, or if BGP did not answer."""
    bonds: Mapping[str, str] = field(default_factory=dict)
    """The bond by member interface."""
    segments: Mapping[str, str] = field(default_factory=dict)
    """By bond: the identifier of its Ethernet segment (RFC 7432 section 5): system MAC and number."""


def forwarding(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, Forwarding]:
    """Return the forwarding state by node. Nodes that did not answer are left out."""
    return {name: _forwarding(node) for name, node in nodes.items() if "interfaces" in node}


def _forwarding(node: Mapping[str, Any]) -> Forwarding:
    interfaces = node["interfaces"]
    plain = [each for each in interfaces if each["kind"] in {"", "veth"} and each["name"] != "lo"]
    vnis = {int(each["vlan"]): int(each["vni"]) for each in interfaces if each["kind"] == "vxlan" and "vlan" in each}
    flooded: dict[str, set[str]] = {}
    for entry in node.get("fdb", ()):
        if entry.get("mac") == FLOOD_MAC and "dst" in entry:
            flooded.setdefault(str(entry["ifname"]), set()).add(str(entry["dst"]))
    return Forwarding(
        macs={each["name"]: str(each["mac"]) for each in plain},
        mtus={each["name"]: int(each["mtu"]) for each in plain},
        networks=frozenset(
            str(ip_interface(told).network)
            for each in interfaces
            if each["name"] != "lo"
            for told in _global(each["addresses"])
        ),
        vnis={
            each["name"]: frozenset(vnis[vlan] for vlan in map(int, each["vlans"]) if vlan in vnis)
            for each in interfaces
            if "vlans" in each
        },
        made_of={each["name"]: mac for each in plain for mac in _made_of(each["addresses"])},
        tunnels=tuple(
            TunnelState(
                device=each["name"],
                vni=int(each["vni"]),
                vlan=int(each.get("vlan", 0)),
                local=str(each["local"]),
                inherits=each["tos"] == _INHERIT,
                floods_to=frozenset(flooded.get(each["name"], ())),
            )
            for each in interfaces
            if each["kind"] == "vxlan"
        ),
        gateways=tuple(
            GatewayState(device=each["name"], vlan=int(each["vlan"]), mac=str(each["mac"]), addresses=told)
            for each in interfaces
            if each["kind"] == "vlan" and (told := _global(each["addresses"]))
        ),
        evpn=_evpn(str(node["bgp"])) if "bgp" in node else None,
        bonds={each["name"]: str(each["bond"]) for each in interfaces if "bond" in each},
        segments=_segments(str(node.get("mgmt", ""))),
    )


def _global(addresses: list[str]) -> tuple[str, ...]:
    return tuple(
        each for each in addresses if not each.startswith(_LINK_LOCAL) and not ip_interface(each).ip.is_multicast
    )


def _made_of(addresses: list[str]) -> Iterator[str]:
    """Yield the MACs from which link-local addresses were derived."""
    for address in addresses:
        if address.startswith(_LINK_LOCAL) and (mac := mac_within(address.partition("/")[0])):
            yield mac


def mac_within(address: str) -> str:
    """Return the MAC of a modified EUI-64 in an IPv6 address (RFC 4291 appendix A); "" if there is none."""
    octets = IPv6Address(address).packed[8:]
    if octets[3:5] != b"\xff\xfe":
        return ""
    return bytes([octets[0] ^ 2, *octets[1:3], *octets[5:]]).hex(":")


def _evpn(configuration: str) -> Evpn:
    family = "".join(_EVPN.findall(configuration))
    said: dict[str, dict[int, tuple[str, ...]]] = {"import": {}, "export": {}}
    for number, block in _VNI.findall(family):
        for direction, targets in said.items():
            found = tuple(target for word, target in _TARGET.findall(block) if word in {direction, "both"})
            if found:
                targets[int(number)] = found
    activated = re.findall(r"^  neighbor (\S+) activate$", family, re.MULTILINE)
    tells = re.search(r"^  advertise-all-vni$", family, re.MULTILINE) is not None
    announced = re.findall(r"^  network (\S+)", configuration, re.MULTILINE)
    return Evpn(
        tells_vnis=tells,
        activated=tuple(activated),
        imports=said["import"],
        exports=said["export"],
        announced=tuple(announced),
    )


def _segments(configuration: str) -> dict[str, str]:
    found = {}
    for bond, lines in _SEGMENT.findall(configuration):
        identity = dict(_IDENTITY.findall(lines))
        if "id" in identity:
            found[bond] = " ".join(identity[word] for word in ("sys-mac", "id") if word in identity)
    return found
