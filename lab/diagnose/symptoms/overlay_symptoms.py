"""Symptoms of overlays: the state of each leaf compared with its siblings, and with the size of the headers."""

from __future__ import annotations

from collections import Counter
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Final, TypeVar

from lab.diagnose.networks import share_a_network
from lab.diagnose.symptom import Evidence, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.diagnose.facts import PortFacts, WindowFacts
    from lab.diagnose.overlay_forwarding import Evpn, TunnelState

_TUNNEL_BYTES: Final = 50
"""Bytes that VXLAN adds to a packet over IPv4 (RFC 7348 section 5): Ethernet, IP, UDP and VXLAN headers."""
_HALF: Final = 0.5
Name = TypeVar("Name")


def _leaves(facts: WindowFacts) -> dict[str, tuple[TunnelState, ...]]:
    """Return the tunnels by node, for nodes that have any."""
    return {name: node.tunnels for name, node in facts.forwarding.items() if node.tunnels}


def _speakers(facts: WindowFacts) -> dict[str, Evpn]:
    """Return the EVPN configuration of each leaf, if it is known."""
    return {leaf: evpn for leaf in _leaves(facts) if (evpn := facts.forwarding[leaf].evpn) is not None}


def _networks(facts: WindowFacts) -> Iterator[tuple[str, dict[str, TunnelState]]]:
    """Yield each gateway address that several leaves have, with the tunnel of its VLAN at each leaf."""
    found: dict[str, dict[str, TunnelState]] = {}
    for leaf, tunnels in _leaves(facts).items():
        carried = {tunnel.vlan: tunnel for tunnel in tunnels}
        for gateway in facts.forwarding[leaf].gateways:
            for address in gateway.addresses if gateway.vlan in carried else ():
                found.setdefault(address, {})[leaf] = carried[gateway.vlan]
    return ((address, leaves) for address, leaves in found.items() if len(leaves) > 1)


def odd_ones(values: Mapping[Name, object]) -> list[Name]:
    """Return the keys whose value differs from that of the majority; all keys if no value has a majority."""
    common, count = Counter(values.values()).most_common(1)[0]
    most = count > len(values) * _HALF
    return [name for name, value in values.items() if not most or value != common]


def a_leaf_has_another_vni(facts: WindowFacts) -> Iterator[Sign]:
    """Leaves with the same gateway have different VNIs for its network.

    Between two leaves, the sign names the leaf whose VNI is not in its tunnel's name.
    """
    told: set[str] = set()
    for address, leaves in _networks(facts):
        vnis = {leaf: tunnel.vni for leaf, tunnel in leaves.items()}
        if len(set(vnis.values())) < 2:
            continue
        odd = odd_ones(vnis)
        misnamed = [leaf for leaf in odd if str(vnis[leaf]) not in leaves[leaf].device]
        guilty = misnamed if misnamed and len(odd) == len(vnis) else odd
        seen = tuple(
            Evidence(
                says=f"as VNI of {address}'s network, on {tunnel.device}",
                of=leaf,
                source="ip -d link",
                value=tunnel.vni,
                at=facts.end,
            )
            for leaf, tunnel in leaves.items()
        )
        for leaf in set(guilty) - told:
            told.add(leaf)
            yield Sign(leaf, seen, 0.9 if len(guilty) < len(vnis) else 0.6)


def another_target_is_imported(facts: WindowFacts) -> Iterator[Sign]:
    """A leaf's configured import targets of a VNI match none of the targets that another leaf exports for it."""
    speakers = _speakers(facts)
    for leaf, evpn in speakers.items():
        for vni, imported in evpn.imports.items():
            exported = [
                target
                for other, tunnels in _leaves(facts).items()
                if other != leaf and other in speakers and vni in {tunnel.vni for tunnel in tunnels}
                for target in speakers[other].exports.get(vni, (f"*:{vni}",))
            ]
            if exported and not any(_is_same(mine, theirs) for mine in imported for theirs in exported):
                says = f"imports {', '.join(imported)} into VNI {vni}; its routes have {exported[0]}"
                yield Sign(
                    leaf, (Evidence(says=says, of=leaf, source="show running-config", value=vni, at=facts.end),)
                )


def _is_same(imported: str, exported: str) -> bool:
    """Return whether an import target matches an export target.

    A derived target has the leaf's own AS number and the VNI. FRR compares only the VNI.
    """
    if exported.startswith("*:"):
        return imported.rpartition(":")[2] == exported[2:]
    return imported == exported or (imported.startswith("*:") and _is_same(exported, imported))


def evpn_is_not_activated(facts: WindowFacts) -> Iterator[Sign]:
    """A leaf has EVPN activated with no neighbour, while its siblings have."""
    speakers = _speakers(facts)
    for leaf, evpn in speakers.items():
        if not evpn.activated and any(each.activated for each in speakers.values()):
            says = "neighbours activated in address-family l2vpn evpn"
            yield Sign(leaf, tuple(
                Evidence(says=says, of=name, source="show running-config", value=len(each.activated), at=facts.end)
                for name, each in sorted(speakers.items(), key=lambda pair: pair[0] != leaf)
            ))  # fmt: skip


def vnis_are_not_told(facts: WindowFacts) -> Iterator[Sign]:
    """A leaf with tunnels lacks advertise-all-vni, which its siblings have."""
    speakers = _speakers(facts)
    for leaf, evpn in speakers.items():
        siblings = [name for name, each in speakers.items() if each.tells_vnis]
        if not evpn.tells_vnis and evpn.activated and siblings:
            says = f"advertise-all-vni lines; {' and '.join(siblings)} have it"
            yield Sign(leaf, (Evidence(says=says, of=leaf, source="show running-config", value=0, at=facts.end),))


def is_not_flooded_to(facts: WindowFacts) -> Iterator[Sign]:
    """A leaf does not flood to another with the same gateway. Signs name the omitted leaf first, then the other."""
    for address, leaves in _networks(facts):
        for leaf, mine in leaves.items():
            silent = [
                other for other, theirs in leaves.items() if other != leaf and not mine.heard_by & theirs.floods_to
            ]
            for other in silent:
                says = f"entries that flood {address}'s network to {mine.local}, {leaf}'s tunnel"
                seen = (Evidence(says=says, of=other, source="bridge fdb", value=0, at=facts.end),)
                yield Sign(leaf, seen)
                yield Sign(other, seen)


def nobody_has_a_route_to_its_tunnel(facts: WindowFacts) -> Iterator[Sign]:
    """No other leaf has a route to the address of a leaf's tunnels."""
    leaves = {leaf: tunnels for leaf, tunnels in _leaves(facts).items() if facts.routes.get(leaf)}
    for leaf, tunnels in leaves.items():
        others = [other for other in leaves if other != leaf]
        for local in sorted({tunnel.local for tunnel in tunnels if tunnel.local}):
            if others and not any(_is_reached(facts.routes[other], local) for other in others):
                yield Sign(
                    leaf,
                    tuple(
                        Evidence(
                            says=f"routes to {local}, the address of {leaf}'s tunnels",
                            of=other,
                            source="ip route",
                            value=0,
                            at=facts.end,
                        )
                        for other in others
                    ),
                )


def _is_reached(routes: Mapping[str, tuple[str, ...]], address: str) -> bool:
    """Return whether a route other than the default one leads to an address."""
    wanted = ip_address(address)
    return any(
        hops and (network := ip_network(prefix, strict=False)).prefixlen and wanted in network
        for prefix, hops in routes.items()
    )


def its_tunnel_is_not_announced(facts: WindowFacts) -> Iterator[Sign]:
    """A leaf's BGP lacks the ``network`` statement for its tunnels' address, which its siblings have."""
    lines = {
        leaf: any(f"{tunnel.local}/32" in evpn.announced for tunnel in _leaves(facts)[leaf])
        for leaf, evpn in _speakers(facts).items()
    }
    for leaf, has in lines.items():
        if not has and any(lines.values()):
            local = _leaves(facts)[leaf][0].local
            says = f"network {local}/32 lines; its siblings announce their address"
            yield Sign(leaf, (Evidence(says=says, of=leaf, source="show running-config", value=0, at=facts.end),))


def no_room_for_the_tunnel(facts: WindowFacts) -> Iterator[Sign]:
    """A leaf's port to another switch has an MTU too small for a host's packet with the tunnel's headers."""
    nics = [
        node.mtus[port.interface]
        for port in facts.ports.values()
        if port.host and (node := facts.forwarding.get(port.node)) is not None and port.interface in node.mtus
    ]
    for leaf in _leaves(facts) if nics else ():
        for port in facts.ports_of(leaf):
            mtu = facts.forwarding[leaf].mtus.get(port.interface, 0)
            if port.peer and not facts.is_host(port.peer) and 0 < mtu < max(nics) + _TUNNEL_BYTES:
                yield Sign(port.name, (
                    Evidence(says="is its MTU", of=port.name, source="ip link", value=mtu, at=facts.end),
                    Evidence(says=f"bytes needed in a tunnel by a host's packet of {max(nics)} bytes", of=port.name,
                             source="RFC 7348", value=max(nics) + _TUNNEL_BYTES, at=facts.end),
                ))  # fmt: skip


def tunnels_do_not_inherit(facts: WindowFacts) -> Iterator[Sign]:
    """A leaf's tunnels do not inherit the DSCP of the inner packet, while those of its siblings do."""
    inherit = {leaf: all(tunnel.inherits for tunnel in tunnels) for leaf, tunnels in _leaves(facts).items()}
    for leaf, does in inherit.items():
        if not does and any(inherit.values()):
            yield Sign(leaf, tuple(
                Evidence(says="tunnels inherit the DSCP (tos inherit)", of=name, source="ip -d link",
                         value=sum(tunnel.inherits for tunnel in _leaves(facts)[name]), at=facts.end)
                for name in sorted(inherit, key=lambda name: name != leaf)
            ))  # fmt: skip


def gateways_have_two_macs(facts: WindowFacts) -> Iterator[Sign]:
    """A leaf's gateways have a different MAC than those of most leaves."""
    macs = {
        leaf: frozenset(gateway.mac for gateway in facts.forwarding[leaf].gateways)
        for leaf in _leaves(facts)
        if facts.forwarding[leaf].gateways
    }
    if len(set(macs.values())) < 2:
        return
    odd = odd_ones(macs)
    for leaf in odd:
        seen = (
            Evidence(
                says=f"gateways have {', '.join(sorted(each))}",
                of=name,
                source="ip link",
                value=len(each),
                at=facts.end,
            )
            for name, each in sorted(macs.items(), key=lambda pair: pair[0] != leaf)
        )
        yield Sign(leaf, tuple(seen), 0.9 if len(odd) < len(macs) else 0.6)


def hosts_have_one_mac(facts: WindowFacts) -> Iterator[Sign]:
    """Two hosts of one network have the same MAC.

    The sign names the host whose link-local address was derived from a different MAC, if there is one.
    """
    having: dict[str, list[PortFacts]] = {}
    for port in facts.ports.values():
        node = facts.forwarding.get(port.node)
        if port.host and node is not None and (mac := node.macs.get(port.interface)):
            having.setdefault(mac, []).append(port)
    for mac, ports in having.items():
        shared = [port for port in ports if any(share_a_network(facts, port, other) for other in ports)]
        made_of = {port.name: facts.forwarding[port.node].made_of.get(port.interface, mac) for port in shared}
        clones = [name for name, was in made_of.items() if was != mac]
        seen = [
            Evidence(says=f"has the MAC {mac}", of=name, source="ip link", value=len(shared), at=facts.end)
            for name in made_of
        ]
        for name in clones if 0 < len(clones) < len(made_of) else made_of:
            was = [
                Evidence(
                    says=f"its link-local address is derived from {made_of[name]}",
                    of=name,
                    source="ip -6 address",
                    value=1,
                    at=facts.end,
                )
            ]
            yield Sign(name, (*seen, *(was if name in clones else [])), 0.95 if name in clones else 0.8)
