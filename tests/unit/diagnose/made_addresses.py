"""Windows of addresses and neighbours, on the fabric incast: its IP stacks as they should be, and such as are not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lab.diagnose.facts import ArpProbe, Ran, WindowFacts
from lab.diagnose.ip_stacks import Stack, StackRoute
from tests.unit.diagnose import made_facts
from tests.unit.diagnose.made_facts import ADDRESSES, HOSTS, PEERS

if TYPE_CHECKING:
    from collections.abc import Mapping

MACS = {port: f"02:1a:00:00:00:{number:02x}" for number, port in enumerate(PEERS, 1)}
NOBODY = "02:00:00:00:dd:dd"
GATEWAYS = {host: f"10.0.0.{2 * number}" for number, host in enumerate(HOSTS)}
NETWORKS = {host: frozenset({f"{GATEWAYS[host]}/31"}) for host in HOSTS}
SILENCE = Ran(1.0, "h5", ("ping", "-n", "-c", "1", "-s", "56", ADDRESSES["h1"]), 1, "")


def stacks(changes: Mapping[str, Mapping[str, Any]]) -> dict[str, Stack]:
    """Of all nodes, as they should be but for these fields of these nodes."""
    found: dict[str, Stack] = {}
    for node in dict.fromkeys(port.partition(":")[0] for port in PEERS):
        ends = {port: PEERS[port] for port in PEERS if port.startswith(f"{node}:")}
        hosts = {port: (node if node in HOSTS else peer.partition(":")[0]) for port, peer in ends.items()}
        found[node] = Stack(
            macs={port.partition(":")[2]: MACS[port] for port in ends},
            own=frozenset(
                ADDRESSES[node] if node in HOSTS else GATEWAYS[host] for host in hosts.values() if host in HOSTS
            ),
            networks={
                port.partition(":")[2]: NETWORKS[host] for port, host in hosts.items() if host in HOSTS
            },
            gateways={"eth1": GATEWAYS[node]} if node in HOSTS else {},
            neighbours={
                (port.partition(":")[2], _over(node, peer)): MACS[peer] for port, peer in ends.items()
            },
            routes=(connected(node), default(node)) if node in HOSTS else None,
        )  # fmt: skip
    return {node: replace(stack, **changes.get(node, {})) for node, stack in found.items()}


def connected(host: str) -> StackRoute:
    """The route of a host's own network."""
    return StackRoute(f"{GATEWAYS[host]}/31", interfaces=("eth1",), protocol="kernel")


def default(host: str, **changes: Any) -> StackRoute:
    """The default route of a host, as it should be but for these fields."""
    return replace(StackRoute("0.0.0.0/0", "unicast", ("eth1",), GATEWAYS[host], 100, "boot"), **changes)


def _over(node: str, peer: str) -> str:
    """By which address a node knows the one at the other end."""
    other = peer.partition(":")[0]
    return GATEWAYS[node] if node in HOSTS else ADDRESSES.get(other, "169.254.0.1")


def facts(*asked: ArpProbe, ran: tuple[Ran, ...] = (), **changes: Mapping[str, Any]) -> WindowFacts:
    """A quiet fabric; fields of nodes' stacks that are other ones are said as ``h1={"gateways": {}}``."""
    return made_facts.facts({}, stacks=stacks(changes), asked=asked, ran=ran)


def asked(port: str, address: str, *answers: str) -> ArpProbe:
    """A question, and who answered it."""
    return ArpProbe(1.0, port, address, frozenset(answers))


def sending(node: str, interface: str, address: str, mac: str) -> dict[str, Any]:
    """The neighbours of a node, of which one is said to have another MAC."""
    return {"neighbours": {**stacks({})[node].neighbours, (interface, address): mac}}


CASES: list[tuple[str, str, WindowFacts, WindowFacts]] = [
    (
        "cable-swapped", "leaf1:swp3",
        facts(
            *(asked(port, address) for port, address in (("leaf1:swp3", "10.0.0.1"), ("leaf1:swp4", "10.0.0.3"))),
            asked("leaf1:swp4", "10.0.0.1", MACS["h1:eth1"]), asked("leaf1:swp3", "10.0.0.3", MACS["h2:eth1"]),
            ran=(SILENCE,),
        ),
        facts(asked("leaf1:swp3", "10.0.0.1", MACS["h1:eth1"]), asked("leaf1:swp4", "10.0.0.3", MACS["h2:eth1"])),
    ),
    (
        "stale-neighbour", "leaf1:swp3",
        facts(ran=(SILENCE,), leaf1=sending("leaf1", "swp3", ADDRESSES["h1"], NOBODY)),
        facts(leaf1=sending("leaf1", "swp3", ADDRESSES["h1"], MACS["h1:eth1"])),
    ),
    (
        "wrong-address", "h1:eth1",
        facts(ran=(SILENCE,), h1={"networks": {"eth1": frozenset({"10.0.0.0/29"})}}),
        facts(h1={"networks": {"eth1": NETWORKS["h1"] | {"fd00::/64"}}}),
    ),
    (
        "wrong-address", "h1:eth1",
        facts(asked("h3:eth1", "10.1.0.9", MACS["h1:eth1"], MACS["h2:eth1"])),
        facts(asked("h3:eth1", "10.1.0.9", MACS["h1:eth1"])),
    ),
    (
        "wrong-gateway", "h1:eth1",
        facts(ran=(SILENCE,), h1={"gateways": {"eth1": "10.0.0.77"}}),
        facts(h1={"gateways": {"eth0": "172.20.20.1"}}),
    ),
    (
        "wrong-address", "h1:eth1",
        facts(h1={"networks": {}, "gateways": {}, "routes": ()}),
        facts(),
    ),
    (
        "wrong-address", "leaf1:swp3",
        facts(leaf1={"networks": {"swp4": NETWORKS["h2"], "swp5": NETWORKS["h3"]}}),
        facts(leaf1={"networks": {}}),
    ),
    (
        "default-route-lost", "h1:eth1",
        facts(ran=(SILENCE,), h1={"gateways": {}, "routes": (connected("h1"),)}),
        facts(h1={"routes": (connected("h1"), StackRoute("10.0.0.0/16", interfaces=("eth1",), protocol="bgp"))}),
    ),
    (
        "static-route", "h1",
        facts(
            ran=(SILENCE,),
            h1={"routes": (connected("h1"), default("h1"), StackRoute("10.0.0.0/16", "prohibit", protocol="boot"))},
        ),
        facts(
            h1={"routes": (connected("h1"), default("h1"), StackRoute("10.9.0.0/16", "prohibit", protocol="boot"))},
        ),
    ),
]  # fmt: skip
