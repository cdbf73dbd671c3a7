"""What the leaves and hosts of an overlay forward by, as they say themselves, in a form to be compared.

``lab.telemetry.record.forwarding_state`` records interfaces, tunnels, the FDB and BGP's configuration of each device.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_interface
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_FLOOD: Final = "00:00:00:00:00:00"
_INHERIT: Final = 1
_LINK_LOCAL: Final = "fe80:"
_EVPN: Final = re.compile(r"^ address-family l2vpn evpn\n(.*?)^ exit-address-family", re.DOTALL | re.MULTILINE)
_VNI: Final = re.compile(r"^  vni (\d+)\n(.*?)^  exit-vni", re.DOTALL | re.MULTILINE)
_SEGMENT: Final = re.compile(r"^interface (\S+)\n((?: .*\n)*? evpn mh es-id .*\n(?: .*\n)*)", re.MULTILINE)
_IDENTITY: Final = re.compile(r"^ evpn mh es-(id|sys-mac) (\S+)", re.MULTILINE)
_TARGET: Final = re.compile(r"^ *route-target (import|export|both) (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TunnelState:
    """A VXLAN device: its VNI, the VLAN that it carries, its own address, and whether it inherits the DSCP."""

    device: str
    vni: int
    vlan: int
    local: str
    inherits: bool
    floods_to: frozenset[str] = frozenset()
    """The addresses of other leaves' tunnels to which it sends what is for all, or that of a group."""

    @property
    def heard_by(self) -> frozenset[str]:
        """What others flood to for it to hear: its own address, or the group to which it floods itself."""
        return frozenset({self.local, *(each for each in self.floods_to if ip_address(each).is_multicast)})


@dataclass(frozen=True, slots=True)
class GatewayState:
    """An interface of a VLAN that has addresses, with their lengths."""

    device: str
    vlan: int
    mac: str
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evpn:
    """What a switch's BGP runs with for EVPN."""

    tells_vnis: bool
    """Whether it advertises all VNIs that it has."""
    activated: tuple[str, ...]
    """Neighbours and groups with which it speaks the address family."""
    imports: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """By VNI the route targets that are said; of others they are derived."""
    exports: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    announced: tuple[str, ...] = ()
    """Prefixes that BGP announces by name."""


@dataclass(frozen=True, slots=True)
class Forwarding:
    """What a node forwards by."""

    macs: Mapping[str, str]
    """By interface that is no logical one."""
    mtus: Mapping[str, int]
    networks: frozenset[str]
    """Those of its addresses, of which link-local ones are none, nor those of the loopback, which all nodes have."""
    vnis: Mapping[str, frozenset[int]]
    """By port of its bridge, those that its VLANs are in; none in recordings of before VLANs were kept."""
    made_of: Mapping[str, str]
    """By interface, the MAC that its IPv6 link-local address was made of (RFC 4291 appendix A)."""
    tunnels: tuple[TunnelState, ...] = ()
    gateways: tuple[GatewayState, ...] = ()
    evpn: Evpn | None = None
    """None of a host, and where BGP did not answer."""
    bonds: Mapping[str, str] = field(default_factory=dict)
    """By member, the bond that it is in."""
    segments: Mapping[str, str] = field(default_factory=dict)
    """By bond, what its Ethernet segment is known by (RFC 7432 section 5): the system's MAC and a number."""


def forwarding(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, Forwarding]:
    """What each node said, by name; a node that did not answer is left out."""
    return {name: _forwarding(node) for name, node in nodes.items() if "interfaces" in node}


def _forwarding(node: Mapping[str, Any]) -> Forwarding:
    interfaces = node["interfaces"]
    plain = [each for each in interfaces if each["kind"] in {"", "veth"} and each["name"] != "lo"]
    vnis = {int(each["vlan"]): int(each["vni"]) for each in interfaces if each["kind"] == "vxlan" and "vlan" in each}
    flooded: dict[str, set[str]] = {}
    for entry in node.get("fdb", ()):
        if entry.get("mac") == _FLOOD and "dst" in entry:
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
            for each in interfaces if "vlans" in each
        },
        made_of={each["name"]: mac for each in plain for mac in _made_of(each["addresses"])},
        tunnels=tuple(
            TunnelState(each["name"], int(each["vni"]), int(each.get("vlan", 0)), str(each["local"]),
                   each["tos"] == _INHERIT, frozenset(flooded.get(each["name"], ())))
            for each in interfaces if each["kind"] == "vxlan"
        ),
        gateways=tuple(
            GatewayState(each["name"], int(each["vlan"]), str(each["mac"]), told)
            for each in interfaces if each["kind"] == "vlan" and (told := _global(each["addresses"]))
        ),
        evpn=_evpn(str(node["bgp"])) if "bgp" in node else None,
        bonds={each["name"]: str(each["bond"]) for each in interfaces if "bond" in each},
        segments=_segments(str(node.get("mgmt", ""))),
    )  # fmt: skip


def _global(addresses: list[str]) -> tuple[str, ...]:
    return tuple(
        each for each in addresses if not each.startswith(_LINK_LOCAL) and not ip_interface(each).ip.is_multicast
    )


def _made_of(addresses: list[str]) -> Iterator[str]:
    """The MAC in a link-local address that has one in it."""
    for address in addresses:
        if address.startswith(_LINK_LOCAL) and (mac := mac_within(address.partition("/")[0])):
            yield mac


def mac_within(address: str) -> str:
    """The MAC of a modified EUI-64 in an IPv6 address (RFC 4291 appendix A); "" where there is none."""
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
    return Evpn(tells, tuple(activated), said["import"], said["export"], tuple(announced))


def _segments(configuration: str) -> dict[str, str]:
    found = {}
    for bond, lines in _SEGMENT.findall(configuration):
        identity = dict(_IDENTITY.findall(lines))
        if "id" in identity:
            found[bond] = " ".join(identity[word] for word in ("sys-mac", "id") if word in identity)
    return found
