"""The gauges of a recording that no counter has: their value at each scrape, from what was recorded."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lab.errors import InvalidInput
from lab.model.load import load_topology
from lab.model.qos.qos_store import dump_node
from lab.model.qos.resolve import resolve
from lab.telemetry.alerts.recorded_states import recorded_states
from lab.telemetry.read.recording import Recording
from lab.telemetry.store import recording_folder as files
from tests.unit.model.qos.fabrics import fabric
from tests.unit.telemetry.jobs.made_job import HOSTS, steps, with_job
from tests.unit.telemetry.made import START, STEP, Made

if TYPE_CHECKING:
    from pathlib import Path

Found = dict[tuple[str, ...], list[float | None]]
NETWORK = "{vlan: 10, l2vni: 10010, tenant: red, subnets: [10.1.10.0/24]}"
TENANT = f"tenants: {{red: {{l3vni: 50010}}}}\n  networks: {{blue: {NETWORK}}}"


def states(path: Path, *times: int) -> Found:
    """The values of each series at samples with these numbers."""
    at = np.array([START + number * STEP for number in times], np.int64)
    return {(family.name, *labels): values for family, labels, values in recorded_states(Recording.open(path), at)}


def before(made: Made, **links: str) -> None:
    """What was recorded at the start: the QoS of all nodes, and the state of links of leaf1."""
    qos = {name: {"qos": dump_node(node)} for name, node in resolve(fabric("paper")).items()}
    shown = [{"ifname": name, "operstate": state, "mtu": 9000} for name, state in links.items()]
    files.write_json(made.folder.state("before"), {**qos, "leaf1": {**qos["leaf1"], "links": shown}})


def test_links_as_they_were_and_after_each_event(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", fabric("paper"))
    before(made, swp1="UP", swp2="DOWN", eth9="UP")
    made.sample()
    made.link("leaf1:swp1", up=False)
    made.sample()
    made.link("leaf1:swp1", up=True)
    made.sample()
    found = states(made.finished(), 0, 1, 2)
    ups = {labels[1:]: values for labels, values in found.items() if labels[0] == "node_network_up"}
    assert ups == {("leaf1", "swp1"): [1, 0, 1], ("leaf1", "swp2"): [0, 0, 0]}
    assert found["node_network_mtu_bytes", "leaf1", "swp1"] == [9000, 9000, 9000]


def test_settings_change_when_the_recorder_saw_it(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", fabric("paper"))
    before(made)
    qos = resolve(fabric("paper"))["leaf1"]
    slow = {name: replace(port, rate=25_000_000) if name == "swp3" else port for name, port in qos.ports.items()}
    change = {"ns": START + STEP, "nodes": {"leaf1": dump_node(replace(qos, ports=slow))}}
    files.append_lines(made.folder.configuration, [{"ns": START, "nodes": {}}, change])
    made.sample()
    found = states(made.finished(), 0, 1, 2)
    assert found["node_network_speed_bytes", "leaf1", "swp3"] == [12.5e6, 3.125e6, 3.125e6]
    assert found["node_network_speed_bytes", "leaf1", "swp1"] == [12.5e6] * 3


def forwarding(*vteps: str) -> dict[str, Any]:
    """The forwarding state of leaf1 with these remote VTEPs."""
    floods = [{"mac": "00:00:00:00:00:00", "ifname": "vni10010", "dst": vtep} for vtep in vteps]
    learned = {"mac": "02:00:00:00:00:09", "ifname": "vni10010", "dst": "10.252.0.9"}
    tunnels = [{"name": "vni10010", "vni": 10010}, {"name": "vni50010", "vni": 50010}, {"name": "swp1"}]
    return {"leaf1": {"interfaces": tunnels, "fdb": [*floods, learned]}, "leaf2": {"complaint": "silent"}}


def test_routes_as_they_were_and_after_each_event(tmp_path: Path) -> None:
    """Of the main table, without those of links and of tenants; a route that is replaced is counted once."""
    made = Made(tmp_path / "run", fabric("paper"))
    hops = [{"dev": "swp1"}, {"dev": "swp2"}]
    shown = [
        {"dst": "10.0.0.8/31", "nexthops": hops}, {"dst": "10.252.0.2", "nexthops": hops}, {"dst": "fe80::/64"},
        {"dst": "10.0.0.1", "dev": "swp1", "table": "local"}, {"dst": "fd00::1", "dev": "swp1"},
    ]  # fmt: skip
    files.write_json(made.folder.state("before"), {"leaf1": {"routes": shown}, "h1": {"routes": shown}})
    route = {"source": "kernel", "kind": "route", "node": "leaf1", "gone": False, "table": 254}
    made.sample()
    made.event(made.ns, **route | {"prefix": "10.252.0.2/32", "interfaces": ["swp1"]})
    made.event(made.ns, **route | {"prefix": "10.9.9.9/32", "interfaces": ["swp1"], "table": 1001})
    made.sample()
    made.event(made.ns, **route | {"prefix": "10.0.0.8/31", "interfaces": [], "gone": True})
    made.sample()
    found = states(made.finished(), 0, 1, 2)
    assert found["frr_route_total_fib", "leaf1", "ipv4", "default"] == [2, 2, 1]
    assert found["frr_route_total_fib", "leaf1", "ipv6", "default"] == [1, 1, 1]
    assert found["sonic_crm_stats_nexthop_group_member_used", "leaf1"] == [2, 2, 0]
    assert not [key for key in found if key[0] == "frr_route_total_fib" and key[1] == "h1"], "hosts have no FRR"


def test_the_mac_of_a_gateway_follows_its_events(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", fabric("paper"))
    gateway = {"ifname": "vlan10", "operstate": "UP", "mtu": 9000, "address": "02:00:00:00:00:01"}
    files.write_json(made.folder.state("before"), {"leaf1": {"links": [gateway]}})
    made.sample()
    now = {"up": True, "mtu": 9000, "mac": "02:00:00:00:00:02"}
    made.event(made.ns, source="kernel", kind="link", node="leaf1", interface="vlan10", **now)
    made.sample()
    found = states(made.finished(), 0, 1)
    assert found == {
        ("node_network_info", "leaf1", "vlan10", "02:00:00:00:00:01"): [1, None],
        ("node_network_info", "leaf1", "vlan10", "02:00:00:00:00:02"): [None, 1],
    }


def test_the_hash_of_paths_from_the_start_and_after_changes(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", fabric("paper"))
    name = "net/ipv4/fib_multipath_hash_policy"
    lines = [(START, {"leaf1": {name: "3"}, "leaf2": {name: "3"}}), (START + STEP, {"leaf1": {name: "0"}})]
    files.append_lines(made.folder.sysctls, [{"ns": ns, "nodes": nodes} for ns, nodes in lines])
    made.sample()
    policy = "node_sysctl_net_ipv4_fib_multipath_hash_policy"
    assert states(made.finished(), 0, 1) == {(policy, "leaf1"): [3, 0], (policy, "leaf2"): [3, 3]}


def test_vteps_are_the_flood_entries_of_networks(tmp_path: Path) -> None:
    shape = "generate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1}"
    topology = load_topology(f"name: t\n{shape}\nqos: pfc-ecn\noverlay:\n  {TENANT}\n")
    made = Made(tmp_path / "run", topology)
    lines = [(START, forwarding("10.252.0.2", "10.252.0.3")), (START + STEP, {}), (START + 2 * STEP, forwarding())]
    files.append_lines(made.folder.forwarding, [{"ns": ns, "nodes": nodes} for ns, nodes in lines])
    made.sample()
    name = "frr_bgp_l2vpn_evpn_remote_vteps"
    found = {key: values for key, values in states(made.finished(), 0, 1, 2).items() if key[0] == name}
    assert found == {(name, "leaf1", "10010", "L2", "vni10010", ""): [2, 2, 0]}, "not of VNIs that do not flood"


def test_duplicate_addresses_and_segments_are_what_zebra_said(tmp_path: Path) -> None:
    shape = "generate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1}"
    made = Made(tmp_path / "run", load_topology(f"name: t\n{shape}\nqos: pfc-ecn\noverlay:\n  {TENANT}\n"))
    local, remote = {"esi": "1", "accessPort": "bond1", "vteps": ["10.252.0.2"]}, {"esi": "9", "accessPort": ""}
    fine = {"leaf1": {"duplicates": {}, "segments": [local, remote]}}
    alone = {"leaf1": {"duplicates": {"10010": {"numMacs": 2}}, "segments": [{**local, "vteps": []}, remote]}}
    files.append_lines(made.folder.forwarding, [{"ns": START, "nodes": fine}, {"ns": START + STEP, "nodes": alone}])
    made.sample()
    assert states(made.finished(), 0, 1) == {
        ("rocelab_evpn_segment_vteps", "leaf1", "bond1"): [1, 0],
        ("rocelab_evpn_duplicate_macs", "leaf1", "10010"): [None, 2],
    }


def test_steps_of_a_job_from_the_end_of_each(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", fabric("paper"))
    with_job(made, steps([50, 100], {1: 30}), described=False)
    found = states(made.finished(), 0, 7, 14, 20)
    late = {key[1]: values for key, values in found.items() if key[0] == "rocelab_job_step_late_seconds"}
    assert late == {host: [None, *[0.03 if host == "h2" else 0.0] * 3] for host in HOSTS}
    first, last = found["rocelab_job_step_seconds", "h1", "small", "0"][1:3]
    assert (first, last) == (0.18, 0.23)


def test_a_recording_without_states_has_none(tmp_path: Path) -> None:
    made = Made(tmp_path / "run", fabric("paper"))
    made.sample()
    assert json.dumps(states(made.finished(), 0)) == "{}"


@pytest.mark.parametrize("damage", [{"mtu": "?"}, {"mtu": None}, {"ifname": []}])
def test_a_damaged_state_is_one_clear_line(tmp_path: Path, damage: dict[str, Any]) -> None:
    made = Made(tmp_path / "run", fabric("paper"))
    link = {"ifname": "swp1", "operstate": "UP", "mtu": 9000} | damage
    files.write_json(made.folder.state("before"), {"leaf1": {"links": [link]}})
    made.sample()
    with pytest.raises(InvalidInput, match="is damaged"):
        states(made.finished(), 0)


@pytest.mark.parametrize("state", [{"fdb": [{}]}, {"fdb": 7}, {"interfaces": [{"vni": 10010}]}, []])
def test_a_damaged_forwarding_state_is_one_clear_line(tmp_path: Path, state: Any) -> None:
    shape = "generate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1}"
    made = Made(tmp_path / "run", load_topology(f"name: t\n{shape}\nqos: pfc-ecn\noverlay:\n  {TENANT}\n"))
    files.append_lines(made.folder.forwarding, [{"ns": START, "nodes": {"leaf1": state}}])
    made.sample()
    with pytest.raises(InvalidInput, match="is damaged"):
        states(made.finished(), 0)
