"""Facts of an overlay that never was: two spines, three leaves with a host each, as the devices would say them.

h1 and h2 are in one network, h3 is in another. ``CASES`` has for each cause a fabric that has it, and one that
looks like it and has not.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lab.diagnose.facts import Lane, LinkEvent, PortFacts, WindowFacts
from lab.diagnose.overlay_forwarding import forwarding
from lab.model.load import read_topology
from lab.model.qos.headroom import VIRTUAL_REACTION
from lab.model.qos.resolve import resolve
from lab.scenario import library

if TYPE_CHECKING:
    from collections.abc import Callable

TOPOLOGY = read_topology(library.OWN.parent / "topologies" / "roce-tenant.yaml")
QOS = resolve(TOPOLOGY, VIRTUAL_REACTION)
PEERS = {str(end): str(link.other(end)) for link in TOPOLOGY.links for end in link.ends}
LEAVES = ("leaf1", "leaf2", "leaf3")
VTEPS = {leaf: f"10.252.0.{number}" for number, leaf in enumerate(LEAVES, 1)}
ANYCAST = "02:1a:00:00:00:01"
BGP = """router bgp {asn}
 bgp router-id 10.253.0.{number}
 neighbor FABRIC peer-group
 !
 address-family ipv4 unicast
  network 10.252.0.{number}/32
  network 10.253.0.{number}/32
  neighbor FABRIC activate
 exit-address-family
 !
 address-family l2vpn evpn
  neighbor FABRIC activate
  advertise-all-vni
 exit-address-family
exit
!
router bgp {asn} vrf blue
 !
 address-family l2vpn evpn
  advertise ipv4 unicast
 exit-address-family
exit
"""
"""As FRR writes it."""

Nodes = dict[str, dict[str, Any]]


def nodes() -> Nodes:
    """What the nodes of the fabric say where nothing is wrong."""
    found: Nodes = {f"spine{number}": _spine() for number in (1, 2)}
    for number, leaf in enumerate(LEAVES, 1):
        found[leaf] = _leaf(leaf, number)
        found[f"h{number}"] = _host(number)
    return found


def _plain(name: str, mac: str, mtu: int, *addresses: str) -> dict[str, Any]:
    return {"name": name, "mac": mac, "mtu": mtu, "kind": "veth", "addresses": list(addresses)}


def _spine() -> dict[str, Any]:
    ports = [_plain(f"swp{number}", f"02:1a:00:07:00:0{number}", 4350) for number in (1, 2, 3)]
    return {"interfaces": ports, "bgp": BGP.format(asn=4200000000, number=9).replace("  advertise-all-vni\n", "")}


def _leaf(leaf: str, number: int) -> dict[str, Any]:
    vlan, others = (10, [each for each in ("leaf1", "leaf2") if each != leaf]) if number < 3 else (20, [])
    vni = 10000 + vlan
    tunnels = [
        {"name": f"vni{each}", "mac": f"02:1a:00:05:00:0{number}", "mtu": 4300, "kind": "vxlan", "addresses": [],
         "vni": each, "local": VTEPS[leaf], "tos": 1, "vlan": of}
        for each, of in ((vni, vlan), (50010, 4001))
    ]  # fmt: skip
    gateway = {"name": f"vlan{vlan}", "mac": ANYCAST, "mtu": 4300, "kind": "vlan", "vlan": vlan,
               "addresses": [f"10.1.{vlan}.1/24", "fe80::1a:ff:fe00:1/64"]}  # fmt: skip
    router = {"name": "vlan4001", "mac": f"02:1a:00:05:00:0{number}", "mtu": 4300, "kind": "vlan", "vlan": 4001,
              "addresses": ["fe80::1a:ff:fe05:1/64"]}  # fmt: skip
    ports = [_plain(f"swp{each}", f"02:1a:00:04:0{number}:0{each}", 4350 if each < 3 else 4300) for each in (1, 2, 3)]
    return {
        "interfaces": [*ports, *tunnels, gateway, router],
        "fdb": [{"mac": "00:00:00:00:00:00", "ifname": f"vni{vni}", "dst": VTEPS[other]} for other in others],
        "bgp": BGP.format(asn=4200100000 + number, number=number),
    }


def _host(number: int) -> dict[str, Any]:
    mac, address = f"02:1a:00:06:00:0{number}", f"10.1.{10 if number < 3 else 20}.{number + 1}/24"
    loopback = {"name": "lo", "mac": "00:00:00:00:00:00", "mtu": 65536, "kind": "", "addresses": ["127.0.0.1/8"]}
    return {"interfaces": [loopback, _plain("eth1", mac, 4300, address, f"fe80::1a:ff:fe06:{number}/64")]}


def routes() -> dict[str, dict[str, tuple[str, ...]]]:
    """Each leaf has both ways to the tunnels of all others."""
    return {leaf: {f"{VTEPS[other]}/32": ("swp1", "swp2") for other in LEAVES if other != leaf} for leaf in LEAVES}


def facts(change: Callable[[Nodes], None] = lambda _: None, **others: Any) -> WindowFacts:
    """A fabric where nothing is wrong, after a change of what its nodes say, and with what else is given."""
    said = deepcopy(nodes())
    change(said)
    known: dict[str, Any] = {
        "start": 0.0, "end": 2.0, "devices": {}, "addresses": {}, "routes": routes(), "qos": QOS, "lanes": {},
        "ports": {name: PortFacts(name, peer, name.startswith("h")) for name, peer in PEERS.items()},
        "forwarding": forwarding(said),
    }  # fmt: skip
    return WindowFacts(**{**known, **others})


def of(name: str, interface: str, **changes: Any) -> Callable[[Nodes], None]:
    """An interface of a node has other values."""

    def change(said: Nodes) -> None:
        (found,) = (each for each in said[name]["interfaces"] if each["name"] == interface)
        found.update(changes)

    return change


def bgp(name: str, before: str, after: str) -> Callable[[Nodes], None]:
    """A line of what BGP of a node runs with is another."""

    def change(said: Nodes) -> None:
        assert before in said[name]["bgp"]
        said[name]["bgp"] = said[name]["bgp"].replace(before, after)

    return change


def all_of(*changes: Callable[[Nodes], None]) -> Callable[[Nodes], None]:
    """One after the other."""

    def change(said: Nodes) -> None:
        for each in changes:
            each(said)

    return change


def without(leaf: str) -> dict[str, dict[str, tuple[str, ...]]]:
    """Routes of which none leads to a leaf's tunnels."""
    return {
        name: {prefix: hops for prefix, hops in known.items() if prefix != f"{VTEPS[leaf]}/32"}
        for name, known in routes().items()
    }


def importing(target: str, exported: str = "") -> Callable[[Nodes], None]:
    """leaf2 imports a target into the network that it shares, and leaf1 gives its routes one, or what is derived."""
    vni = "  advertise-all-vni\n  vni 10010\n   {}\n  exit-vni\n"
    mine = bgp("leaf2", "  advertise-all-vni\n", vni.format(f"route-target import {target}"))
    theirs = bgp("leaf1", "  advertise-all-vni\n", vni.format(f"route-target export {exported}"))
    return all_of(mine, theirs) if exported else mine


ACTIVATE = "evpn\n  neighbor FABRIC activate\n"
DOWN = tuple(LinkEvent(0.5, f"leaf3:swp{number}", up=False, mtu=4350) for number in (1, 2))
INHERITED = [of(leaf, f"vni{vni}", tos=0) for leaf, l2 in (("leaf1", 10010), ("leaf2", 10010), ("leaf3", 10020))
             for vni in (l2, 50010)]  # fmt: skip


def flooded(copies: int) -> WindowFacts:
    """What h1 sends leaves leaf1 so many times, by two uplinks of which one is full; h2 and h3 get a part of it."""
    sent = 2000
    lanes = {
        ("leaf1:swp3", 0): Lane("leaf1:swp3", 0, rx_packets=sent),
        ("leaf1:swp1", 0): Lane("leaf1:swp1", 0, offered=copies * sent - 500, tx_packets=1000, drops={"shared": 700}),
        ("leaf1:swp2", 0): Lane("leaf1:swp2", 0, offered=500, tx_packets=500),
        **{(f"{host}:eth1", 0): Lane(f"{host}:eth1", 0, rx_packets=900) for host in ("h2", "h3")},
    }
    made = facts(of("h3", "eth1", addresses=["10.1.10.4/24"]), lanes=lanes)
    drain = PortFacts("h2:rx-eth1", "", host=True)  # the queue of a slow receiver, which no cable leads to
    return replace(made, ports={**made.ports, drain.name: drain})


def grouped(*groups: str) -> WindowFacts:
    """leaf1, leaf2 and so on flood to groups, each of which they are in by a dummy, and to nobody else."""

    def change(said: Nodes) -> None:
        for number, group in enumerate(groups, 1):
            dummy = {"name": "ipmr-lo", "mac": "", "mtu": 4300, "kind": "dummy", "addresses": [f"{group}/32"]}
            said[f"leaf{number}"]["interfaces"].append(dummy)
            for entry in said[f"leaf{number}"]["fdb"]:
                entry["dst"] = group

    return facts(change)


MGMT = """frr version 10.3
!
interface swp1
 no link-detect
exit
!
interface {bond}
 evpn mh es-sys-mac {mac}
 evpn mh es-id {number}
 evpn mh es-df-pref 40000
exit
!
"""
"""As FRR's mgmtd writes it."""


def bonded(*numbers: str, bond: str = "bond1", mac: str = "02:1a:00:00:00:02") -> WindowFacts:
    """h1 is on leaf1, leaf2 and so on by one bond, and they have these numbers of its segment."""
    legs = {f"h1:eth{leg}": (f"leaf{leg}", "swp4") for leg, _ in enumerate(numbers, 1)}

    def change(said: Nodes) -> None:
        for (leg, (leaf, port)), number in zip(legs.items(), numbers, strict=True):
            said[leaf]["interfaces"].append(_plain(port, f"02:1a:00:04:0{leaf[-1]}:04", 4300) | {"bond": bond})
            said[leaf]["mgmt"] = MGMT.format(bond=bond, number=number, mac=mac)
            said["h1"]["interfaces"].append(_plain(leg.partition(":")[2], "", 4300) | {"bond": "bond0"})

    made = facts(change)
    ends = {name: PortFacts(name, f"{leaf}:{port}", host=True) for name, (leaf, port) in legs.items()}
    others = {f"{leaf}:{port}": PortFacts(f"{leaf}:{port}", name, host=False) for name, (leaf, port) in legs.items()}
    return replace(made, ports={**made.ports, **ends, **others})


CASES: list[tuple[str, str, WindowFacts, WindowFacts]] = [
    ("evpn-vni-mismatch", "leaf2", facts(of("leaf2", "vni10010", vni=10011)),
     facts(of("leaf3", "vni10020", vni=10011))),
    ("evpn-rt-mismatch", "leaf2", facts(importing("1:10011")), facts(importing("1:10010"))),
    ("evpn-rt-mismatch", "leaf2", facts(importing("7:7", "7:8")), facts(importing("7:7", "7:7"))),
    ("evpn-af-missing", "leaf2", facts(bgp("leaf2", ACTIVATE, "evpn\n")),
     facts(all_of(*(bgp(leaf, ACTIVATE, "evpn\n") for leaf in LEAVES)))),
    ("evpn-no-imet", "leaf2", facts(bgp("leaf2", "  advertise-all-vni\n", "")),
     facts(all_of(*(bgp(leaf, "  advertise-all-vni\n", "") for leaf in LEAVES)))),
    ("vtep-unreachable", "leaf3", facts(bgp("leaf3", "  network 10.252.0.3/32\n", ""), routes=without("leaf3")),
     facts(routes=without("leaf3"), links=DOWN)),
    ("vxlan-mtu", "leaf3:swp1", facts(of("leaf3", "swp1", mtu=4349)), facts(of("leaf3", "swp1", mtu=4351))),
    ("dscp-lost-in-vxlan", "leaf1", facts(all_of(*INHERITED[:2])), facts(all_of(*INHERITED))),
    ("duplicate-mac", "h2:eth1", facts(of("h2", "eth1", mac="02:1a:00:06:00:01")),
     facts(of("h3", "eth1", mac="02:1a:00:06:00:01"))),
    ("esi-mismatch", "leaf2", bonded("1", "9"), bonded("1", "1")),
    ("esi-mismatch", "leaf1", bonded("9", "1"), bonded("9", "9")),
    ("esi-mismatch", "leaf3", bonded("7", "7", "1", bond="po5"), bonded("7", "7", "7", bond="po5")),
    ("spine-as-bottleneck", "h1:eth1", flooded(2), flooded(1)),
    ("gateway-mac-conflict", "leaf3", facts(of("leaf3", "vlan20", mac="02:1a:00:00:00:02")),
     facts(of("leaf3", "vlan4001", mac="02:1a:00:00:00:02"))),
]  # fmt: skip
"""A cause, where, a fabric that has it, and one that has not."""
