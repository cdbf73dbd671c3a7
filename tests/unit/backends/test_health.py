"""Whom a fabric's health is asked of; what is answered needs a fabric, and is looked at in tests/vm."""

from __future__ import annotations

import contextlib
from ipaddress import ip_interface
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lab.backends import health
from lab.cli.fabrics import status
from lab.errors import OperationFailed
from lab.kernel.netlink.routes import DefaultRoute
from lab.model.addressing import plan_addresses
from lab.model.load import load_topology
from lab.model.overlay.plan import plan_overlay
from lab.routing.show import BgpSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.model.addressing import Interface

BORDER = """
name: way-out
defaults: {mtu: 1500}
generate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 2, fabric_mtu: 1550, rdma: false}
overlay:
  tenants: {blue: {l3vni: 50010}, red: {l3vni: 50020}}
  networks:
    web: {vlan: 10, l2vni: 10010, tenant: blue, subnets: [10.1.10.0/24], gateways: [10.1.10.1], untagged: [h1]}
    lan: {vlan: 20, l2vni: 10020, tenant: red, subnets: [10.2.20.0/24], gateways: [10.2.20.1], untagged: [h2, h3]}
    wan: {vlan: 40, l2vni: 10040, tenant: blue, subnets: [10.9.0.0/29], gateways: [10.9.0.1], untagged: [h4]}
  border: [{router: h4, asn: 65010, prefixes: [203.0.113.0/24]}]
"""

OVER_IPV4 = """
name: over-ipv4
generate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1, fabric_mtu: 9050, rdma: false}
overlay:
  tenants: {blue: {l3vni: 50010}}
  networks:
    web: {vlan: 10, l2vni: 10010, tenant: blue, subnets: [fd00:10::/64], gateways: ["fd00:10::1"], untagged: [h1, h2]}
"""


def examined(monkeypatch: pytest.MonkeyPatch, sessions: Callable[..., list[BgpSession]]) -> list[health.NodeHealth]:
    """Return the health of the fabric of BORDER, whose routers answer like ``sessions``."""
    topology = load_topology(BORDER)
    fabric: Any = SimpleNamespace(
        name=topology.name, topology=topology, plan=plan_addresses(topology), namespace=str,
        state=SimpleNamespace(proofs=lambda _: ()), router=lambda name: SimpleNamespace(name=name, pids=dict),
        backend=SimpleNamespace(complaints=lambda _: {"spine1": "its container is gone"}),
    )  # fmt: skip
    places: Any = SimpleNamespace(inhabited=lambda _: contextlib.nullcontext(()), processes_in=lambda _: {})
    monkeypatch.setattr(health, "netns_processes", places)
    monkeypatch.setattr(health, "interfaces", lambda _: {})
    monkeypatch.setattr(health, "unaddressed", lambda *_: "")
    monkeypatch.setattr(health, "unforwarding", lambda *_: "")
    monkeypatch.setattr(health, "unrouted", lambda *_: "")
    monkeypatch.setattr(health, "sessions", sessions)
    monkeypatch.setattr(health, "liveness", lambda _: {})
    return health.examine(fabric)


def test_a_border_leaf_is_asked_for_the_vrfs_of_its_routers_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def sessions(router: Any, vrf: str = "") -> list[BgpSession]:
        return [BgpSession(f"of {vrf or 'default'}", router.name, "Established", 0, 1.0)]

    found = examined(monkeypatch, sessions)
    asked = {node.name: [session.interface for session in node.sessions] for node in found}
    assert [node.complaint for node in found if node.name == "spine1"] == ["its container is gone"]
    assert {name: each for name, each in asked.items() if each} == {
        "leaf1": ["of default"], "leaf2": ["of default", "of blue"], "h4": ["of default"],
    }  # fmt: skip


def test_the_table_of_status_does_not_advise_to_look_at_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def sessions(router: Any, _: str = "") -> list[BgpSession]:
        raise OperationFailed(f"{router.name}: vtysh does not answer", "is its daemon running? rocelab status")

    (leaf,) = (node for node in examined(monkeypatch, sessions) if node.name == "leaf1")
    assert leaf.complaint == "leaf1: vtysh does not answer"


def test_a_bfd_session_that_is_not_there_is_absent_and_one_without_its_other_end_down(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A session of BGP can be too young to have one."""
    text = "name: way\ngenerate: {shape: leaf-spine, spines: 2, leaves: 2, hosts_per_leaf: 1, rdma: false}\n"
    topology = load_topology(text)
    live = {"spine1": {"swp1": False, "swp2": True}, "leaf1": {"swp2": True}, "leaf2": {"swp1": True}}
    monkeypatch.setattr(health, "liveness", lambda router: live.get(router.name, {}))
    young = {"spine2": 1.0}

    def sessions(router: Any, _: str = "") -> list[BgpSession]:
        uptime = young.get(router.name, 60.0)
        return [BgpSession(port, "", "Established", 5, uptime) for port in ("swp1", "swp2")]

    monkeypatch.setattr(health, "sessions", sessions)
    found = {
        name: health._ask(SimpleNamespace(name=name), topology, ())[1]  # type: ignore[arg-type]
        for name in ("spine1", "spine2", "leaf1", "leaf2")
    }
    assert found == {
        "spine1": {"swp1": "down", "swp2": "up"}, "spine2": {"swp1": "starting", "swp2": "starting"},
        "leaf1": {"swp1": "absent", "swp2": "up"}, "leaf2": {"swp1": "up", "swp2": "absent"},
    }  # fmt: skip
    nodes = [health.NodeHealth(name, topology.node(name).role, {}, (), bfd, {}, {}) for name, bfd in found.items()]
    assert [node.name for node in nodes if node.healthy] == ["spine2"]
    unprotected: Any = SimpleNamespace(topology=topology)
    status._show_unprotected(unprotected, nodes)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        "leaf1:swp1--spine1:swp1: leaf1:swp1 does not have a BFD session",
        "leaf2:swp2--spine2:swp2: leaf2:swp2 does not have a BFD session",
    ]


GATEWAY = "10.0.0.0"
"""h1's."""


@pytest.mark.parametrize(
    ("have", "complaint"),
    [
        ([DefaultRoute(4, 100, 2, GATEWAY, refuses=False)], ""),
        ([], "no default route by eth1"),
        ([DefaultRoute(6, 100, 2, "fd00::1", refuses=False)], "no default route by eth1"),
        ([DefaultRoute(4, 100, 3, GATEWAY, refuses=False)], "no default route by eth1"),
        ([DefaultRoute(4, 100, 2, "10.0.0.9", refuses=False)], "default route to 10.0.0.9"),
        ([DefaultRoute(4, 100, 2, "", refuses=False)], "default route to nobody"),
        ([DefaultRoute(4, 1, 0, "", refuses=True), DefaultRoute(4, 100, 2, GATEWAY, refuses=False)], "its default"),
    ],
)
def test_a_host_is_not_well_whose_default_route_is_another(
    monkeypatch: pytest.MonkeyPatch, have: list[DefaultRoute], complaint: str
) -> None:
    topology = load_topology("name: way\ngenerate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 2}\n")
    monkeypatch.setattr(health, "default_routes", lambda _: have)
    numbers = SimpleNamespace(index=lambda _, interface: {"eth1": 2}[interface])
    fabric: Any = SimpleNamespace(plan=plan_addresses(topology), namespace=str, numbering=numbers)
    said = health.unrouted(fabric, "h1")
    assert said.startswith(complaint)
    assert bool(said) is bool(complaint)
    assert not said or GATEWAY in said


PLAIN = "name: way\ngenerate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1}\n"
OSPF = f"{PLAIN}routing: {{underlay: ospf}}\n"
OVER_IPV6 = f"{PLAIN}routing: {{host_family: ipv6}}\n"
TENANT = """
name: way
generate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 2, fabric_mtu: 9050, rdma: false}
overlay:
  tenants: {blue: {l3vni: 50010}}
  networks:
    web:
      vlan: 10
      l2vni: 10010
      tenant: blue
      subnets: [10.1.10.0/24, fd00:10::/64]
      gateways: [10.1.10.1, "fd00:10::1"]
      untagged: [h1]
      tagged: [h2, h3]
    wan: {vlan: 40, l2vni: 10040, tenant: blue, subnets: [10.9.0.0/29], gateways: [10.9.0.1], untagged: [h4]}
  border: [{router: h4, asn: 65010, prefixes: [203.0.113.0/24]}]
"""


@pytest.mark.parametrize(
    ("text", "node", "interface", "lost"),
    [
        (PLAIN, "leaf1", "swp2", "10.0.0.0/31"),
        (PLAIN, "h1", "eth1", "10.0.0.1/31"),
        (PLAIN, "leaf1", "lo", "10.253.0.1/32"),
        (PLAIN, "leaf2", "lo", "fdc0:0:0:1::2/128"),
        (PLAIN, "spine1", "lo", "10.254.0.1/32"),
        (OSPF, "spine1", "lo", "10.254.0.1/32"),
        (OSPF, "spine1", "swp1", "10.254.0.1/32"),
        (OVER_IPV6, "leaf1", "swp2", "fdc0:0:1:0::1/64"),
        (OVER_IPV6, "h1", "eth1", "fdc0:0:1:0::2/64"),
        (TENANT, "leaf1", "lo", "10.252.0.1/32"),
        (TENANT, "leaf2", "vlan10", "10.1.10.1/24"),
        (TENANT, "leaf2", "vlan10", "fd00:10::1/64"),
        (TENANT, "leaf2", "vlan40", "10.9.0.1/29"),
        (TENANT, "h1", "eth1", "10.1.10.2/24"),
        (TENANT, "h1", "eth1", "fd00:10::2/64"),
        (TENANT, "h2", "eth1.10", "10.1.10.3/24"),
        (TENANT, "h3", "eth1.10", "fd00:10::4/64"),
        (TENANT, "h4", "eth1", "10.9.0.2/29"),
        (TENANT, "h4", "lo", "203.0.113.1/32"),
    ],
)  # fmt: skip
def test_a_node_that_lost_an_address_is_not_well(
    monkeypatch: pytest.MonkeyPatch, text: str, node: str, interface: str, lost: str
) -> None:
    """Of every interface and IP version, as the table of ``lab.model.addressing`` has them."""
    topology = load_topology(text)
    overlay = plan_overlay(topology)
    fabric: Any = SimpleNamespace(plan=plan_addresses(topology), namespace=str)
    have: dict[str, frozenset[Interface]] = {}
    for name, planned in health._planned_addresses(fabric.plan[node], overlay):
        have[name] = have.get(name, frozenset()) | frozenset(planned)
    monkeypatch.setattr(health, "addresses", lambda _: have)
    assert health.unaddressed(fabric, node, overlay) == ""
    address = ip_interface(lost)
    assert address in have[interface]
    have[interface] -= {address}
    have["other"] = frozenset({address})
    assert health.unaddressed(fabric, node, overlay) == f"lost address {address} of {interface}"


def test_a_loopback_may_have_its_address_with_another_prefix_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of adopted labs have them."""
    fabric: Any = SimpleNamespace(plan=plan_addresses(load_topology(PLAIN)), namespace=str)
    have = [ip_interface(each) for each in ("10.254.0.1/24", "fdc0:0:0:2::1/64")]
    monkeypatch.setattr(health, "addresses", lambda _: {"lo": frozenset(have)})
    assert health.unaddressed(fabric, "spine1", None) == ""
    monkeypatch.setattr(health, "addresses", lambda _: {"lo": frozenset(have[1:])})
    assert health.unaddressed(fabric, "spine1", None) == "lost address 10.254.0.1/32 of lo"


@pytest.mark.parametrize(
    ("mtus", "shown"), [((9000, 9000), "9000"), ((9000, 1400), "9000, 1400"), ((9000, None), "9000, ?")]
)
def test_status_shows_the_mtu_that_the_ends_of_a_link_have_now(mtus: tuple[int | None, ...], shown: str) -> None:
    ends: list[Any] = [None if mtu is None else SimpleNamespace(mtu=mtu) for mtu in mtus]
    assert status._mtu(ends) == shown


@pytest.mark.parametrize(
    ("family", "off", "complaint"),
    [
        ("ipv4", "net/ipv4/ip_forward", "forwards no packets: net.ipv4.ip_forward is 0"),
        ("ipv4", "net/ipv6/conf/all/forwarding", ""),
        ("ipv6", "net/ipv6/conf/all/forwarding", "forwards no packets: net.ipv6.conf.all.forwarding is 0"),
        ("ipv6", "net/ipv4/ip_forward", ""),
    ],
)
def test_a_switch_that_forwards_nothing_is_not_well(
    monkeypatch: pytest.MonkeyPatch, family: str, off: str, complaint: str
) -> None:
    shape = "generate: {shape: leaf-spine, spines: 1, leaves: 2}"
    topology = load_topology(f"name: way\n{shape}\nrouting: {{host_family: {family}}}\n")
    monkeypatch.setattr(
        "lab.backends.health.tuning.read_sysctls", lambda paths: {path: "01"[path != off] for path in paths}
    )
    space = SimpleNamespace(inside=lambda read: read())
    fabric: Any = SimpleNamespace(topology=topology, plan=plan_addresses(topology), namespace=lambda _: space)
    assert health.unforwarding(fabric, "spine1") == complaint


@pytest.mark.parametrize(
    ("switch", "off", "found"),
    [
        ("spine1", "net/ipv4/ip_forward", True),
        ("spine1", "net/ipv6/conf/all/forwarding", False),
        ("leaf1", "net/ipv4/ip_forward", False),
        ("leaf1", "net/ipv6/conf/all/forwarding", True),
    ],
)
def test_spines_of_an_overlay_forward_vxlan_whatever_its_hosts_use(
    monkeypatch: pytest.MonkeyPatch, switch: str, off: str, found: bool
) -> None:
    """Hosts have IPv6 only. Their leaves route it, and their spines forward what is in a tunnel."""
    topology = load_topology(OVER_IPV4)
    monkeypatch.setattr(
        "lab.backends.health.tuning.read_sysctls", lambda paths: {path: "01"[path != off] for path in paths}
    )
    space = SimpleNamespace(inside=lambda read: read())
    fabric: Any = SimpleNamespace(topology=topology, plan=plan_addresses(topology), namespace=lambda _: space)
    assert bool(health.unforwarding(fabric, switch)) is found
