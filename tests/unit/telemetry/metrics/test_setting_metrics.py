"""Settings and link states as gauges: each has the value of ``qos show`` or ``ip link``, and follows its changes."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from lab.backends.fabric_state import FabricState
from lab.kernel.netlink.link_stats import LinkState
from lab.kernel.netlink.routes import FibRoute
from lab.model.qos.resolve import resolve
from lab.telemetry.metrics import setting_metrics
from lab.telemetry.metrics.setting_metrics import SettingMetrics, link_values, route_values, setting_values
from tests.unit.model.qos.fabrics import fabric

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import pytest

    from lab.model.qos.port import NodeQos
    from lab.model.topology import Topology

Found = dict[tuple[str, ...], float]
PRESET = "paper"
LEAF, HOST = ("leaf1", "swp3"), ("h1", "eth1")
LINK = LinkState(up=True, mtu=9000)


def settings(qos: Mapping[str, NodeQos], topology: Topology) -> Found:
    return {(family.name, *labels): value for family, labels, value in setting_values(qos, topology)}


def with_ecn(qos: Mapping[str, NodeQos], **changes: Any) -> dict[str, NodeQos]:
    """The QoS after ``ecn.3`` of leaf1:swp3 was changed."""
    node, interface = LEAF
    port = qos[node].ports[interface]
    queues = list(port.queues)
    queues[3] = replace(queues[3], ecn=replace(queues[3].ecn, **changes))
    ports = {**qos[node].ports, interface: replace(port, queues=tuple(queues))}
    return {**qos, node: replace(qos[node], ports=ports)}


def test_values_are_those_of_the_port() -> None:
    topology = fabric(PRESET)
    qos = resolve(topology)
    found = settings(qos, topology)
    ecn, cc = qos["leaf1"].ports["swp3"].queues[3].ecn, qos["h1"].ports["eth1"].cc
    assert cc is not None
    assert found["node_network_speed_bytes", *LEAF] == 100e6 / 8
    assert found["sonic_wred_ecn_mark_mode", *LEAF, "3"] == 7
    assert found["sonic_wred_green_min_threshold_bytes", *LEAF, "3"] == ecn.kmin
    assert found["sonic_wred_green_max_threshold_bytes", *LEAF, "3"] == ecn.kmax
    registers = {key[3]: value for key, value in found.items() if key[:3] == ("rocelab_cc_register", *HOST)}
    assert registers == {name: float(getattr(cc.registers, name)) for name in cc.names}
    assert {key[3] for key in found if key[0].startswith("sonic_")} == {"3"}, "lossy queues are left out"
    assert {key[1][0] for key in found if key[0].startswith("sonic_")} == {"l", "s"}, "hosts have none of them"


def test_a_setting_moves_its_own_gauge_only() -> None:
    topology = fabric(PRESET)
    qos = resolve(topology)
    before = settings(qos, topology)
    kmin = qos["leaf1"].ports["swp3"].queues[3].ecn.kmin
    lower = settings(with_ecn(qos, kmin=kmin - 1), topology)
    assert set(lower.items()) - set(before.items()) == {
        (("sonic_wred_green_min_threshold_bytes", *LEAF, "3"), kmin - 1),
    }
    off = settings(with_ecn(qos, enabled=False), topology)
    assert set(off.items()) - set(before.items()) == {(("sonic_wred_ecn_mark_mode", *LEAF, "3"), 0)}
    gone = {key[0] for key in before.keys() - off.keys()}
    assert gone == {
        "sonic_wred_green_min_threshold_bytes", "sonic_wred_green_max_threshold_bytes",
        "sonic_wred_ecn_green_mark_probability",
    }  # fmt: skip
    steep = settings(with_ecn(qos, pmax=0.25), topology)
    assert steep["sonic_wred_ecn_green_mark_probability", *LEAF, "3"] == 25


def test_without_congestion_control_there_is_no_register() -> None:
    topology = fabric("pfc-ecn")
    assert not [key for key in settings(resolve(topology), topology) if key[0] == "rocelab_cc_register"]


def test_links() -> None:
    links = {LEAF: LinkState(up=False, mtu=1500), HOST: LINK}
    assert {(family.name, *labels): value for family, labels, value in link_values(links)} == {
        ("node_network_up", *LEAF): 0, ("node_network_mtu_bytes", *LEAF): 1500,
        ("node_network_up", *HOST): 1, ("node_network_mtu_bytes", *HOST): 9000,
    }  # fmt: skip


def test_macs_are_those_of_ports_and_vlan_interfaces() -> None:
    links = {
        LEAF: replace(LINK, mac="02:00:00:00:00:01"),
        ("leaf1", "vlan10"): replace(LINK, mac="02:00:00:00:00:02"),
    }
    found = {(family.name, *labels): value for family, labels, value in link_values(links)}
    assert {key: value for key, value in found.items() if key[0] == "node_network_info"} == {
        ("node_network_info", *LEAF, "02:00:00:00:00:01"): 1,
        ("node_network_info", "leaf1", "vlan10", "02:00:00:00:00:02"): 1,
    }
    assert {key[2] for key in found if key[0] == "node_network_up"} == {"swp3"}


def test_routes_and_the_next_hops_of_groups() -> None:
    """Routes with the same next hops share a group; IPv6 has groups of its own."""
    both, other = frozenset({"swp1", "swp2"}), frozenset({"swp2", "swp3", "swp4"})
    routes = [
        FibRoute("10.0.0.0/31", both), FibRoute("10.0.0.2/31", both), FibRoute("10.0.0.4/31", other),
        FibRoute("10.0.0.6/31", frozenset({"swp1"})), FibRoute("fd00::/64", both),
    ]  # fmt: skip
    assert {(family.name, *labels): value for family, labels, value in route_values("leaf1", routes)} == {
        ("frr_route_total_fib", "leaf1", "ipv4", "default"): 4,
        ("frr_route_total_fib", "leaf1", "ipv6", "default"): 1,
        ("sonic_crm_stats_nexthop_group_member_used", "leaf1"): 2 + 3 + 2,
    }


class MadeLinks:
    """Stands in for ``LinkStates``: the interfaces of each namespace are in a dictionary."""

    links: dict[str, dict[str, LinkState]]
    closed: list[str]

    def __init__(self, namespace: Any) -> None:
        self._node = namespace.name

    def read(self) -> dict[str, LinkState]:
        return self.links[self._node]

    def close(self) -> None:
        self.closed.append(self._node)


class MadeFib:
    """Stands in for ``FibReader``: each switch has one route."""

    def __init__(self, namespace: Any) -> None:
        self._node = namespace.name

    def read(self) -> list[FibRoute]:
        return [FibRoute("10.0.0.0/31", frozenset({"swp1", "swp2"}))]

    def close(self) -> None:
        MadeLinks.closed.append(f"routes of {self._node}")


@contextmanager
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: str = "") -> Iterator[SettingMetrics]:
    monkeypatch.setattr(setting_metrics, "LinkStates", MadeLinks)
    monkeypatch.setattr(setting_metrics, "FibReader", MadeFib)
    policy = tmp_path / "policy"
    policy.write_text("3\n")
    monkeypatch.setattr(FabricState, "directory", tmp_path)
    topology = fabric(PRESET)
    MadeLinks.links = {node.name: {} for node in topology.nodes}
    MadeLinks.closed = []
    made: Any = SimpleNamespace(
        topology=topology,
        qos=resolve(topology),
        state=FabricState("t"),
        plan={node.name: SimpleNamespace(interfaces=("eth1",), node=node) for node in topology.nodes},
        namespace=lambda name: SimpleNamespace(
            name=name, answers=lambda: name != silent, inside=lambda _: os.open(policy, os.O_RDONLY)
        ),
    )
    metrics = SettingMetrics(made)
    yield metrics
    metrics.close()


def look(metrics: SettingMetrics) -> Found:
    return {
        (samples.family.name, *labels): value
        for samples in metrics.look()
        for labels, value in zip(samples.labels, samples.values, strict=True)
    }


def test_changes_since_the_fabric_was_built_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kmin = ("sonic_wred_green_min_threshold_bytes", *LEAF, "3")
    with opened(tmp_path, monkeypatch) as metrics:
        before = look(metrics)[kmin]
        qos = resolve(fabric(PRESET))
        for lower in (before - 1, before - 2):
            FabricState("t").save_qos(with_ecn(qos, kmin=int(lower)))
            assert look(metrics)[kmin] == lower


def test_interfaces_of_the_plan_of_nodes_that_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path, monkeypatch, silent="h2") as metrics:
        MadeLinks.links |= {"h1": {"eth1": LINK, "docker0": LINK}, "h2": {"eth1": LINK}}
        assert {key[1:] for key in look(metrics) if key[0] == "node_network_up"} == {HOST}
    switches = ["leaf1", "leaf2", "spine1", "spine2"]
    assert set(MadeLinks.closed) == {"h1", "h3", "h4", *switches, *(f"routes of {name}" for name in switches)}
    assert len(MadeLinks.closed) == 3 + 2 * len(switches)


def test_switches_have_routes_and_hash_policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path, monkeypatch) as metrics:
        found = look(metrics)
        policy = "node_sysctl_net_ipv4_fib_multipath_hash_policy"
        switches = {"leaf1", "leaf2", "spine1", "spine2"}
        assert {key[1]: value for key, value in found.items() if key[0] == policy} == dict.fromkeys(switches, 3)
        (tmp_path / "policy").write_text("0\n")
        assert look(metrics)[policy, "leaf1"] == 0
        assert found["sonic_crm_stats_nexthop_group_member_used", "leaf1"] == 2
