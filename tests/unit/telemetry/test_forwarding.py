"""The forwarding state of an overlay's nodes, as ip, bridge and bgpd print it, and its form in a recording."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lab.errors import OperationFailed
from lab.model.load import read_topology
from lab.scenario import library
from lab.telemetry.record import forwarding_state, recorder
from lab.telemetry.record.forwarding_state import forwarding_of
from lab.telemetry.record.recorder import Recorder
from lab.telemetry.store.recording_folder import Folder, read_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TENANT = read_topology(library.OWN.parent / "topologies" / "roce-tenant.yaml")
TUNNEL = {
    "ifindex": 4, "ifname": "vni10010", "mtu": 4300, "operstate": "UNKNOWN", "address": "36:ab:15:b6:59:dc",
    "linkinfo": {"info_kind": "vxlan", "info_data": {
        "id": 10010, "local": "10.252.0.1", "port": 4789, "tos": "0x1", "ttl": 0, "ageing": 300}},
    "addr_info": [],
}  # fmt: skip
"""Cut from what iproute2 6.1 prints, as are the others."""
GATEWAY = {
    "ifindex": 5, "link": "br", "ifname": "vlan10", "mtu": 4300, "address": "02:1a:00:00:00:01",
    "linkinfo": {"info_kind": "vlan", "info_data": {"protocol": "802.1Q", "id": 10, "flags": ["REORDER_HDR"]}},
    "addr_info": [{"family": "inet", "local": "10.1.10.1", "prefixlen": 24, "scope": "global"}, {}],
}  # fmt: skip
PORT = {
    "ifindex": 2, "ifname": "eth1", "mtu": 4300, "address": "9e:7f:11:33:fd:7b",
    "linkinfo": {"info_kind": "veth"},
    "addr_info": [{"family": "inet6", "local": "fe80::9c7f:11ff:fe33:fd7b", "prefixlen": 64, "scope": "link"}],
}  # fmt: skip
BOND = {
    "ifindex": 6, "ifname": "bond1", "mtu": 4300, "address": "02:1a:00:00:00:02",
    "linkinfo": {"info_kind": "bond", "info_data": {"mode": "802.3ad"}, "info_slave_kind": "bridge"}, "addr_info": [],
    "master": "bridge",
}  # fmt: skip
LEG = {
    "ifindex": 7, "ifname": "swp2", "mtu": 4300, "address": "02:1a:00:00:00:02", "master": "bond1",
    "linkinfo": {"info_kind": "veth", "info_slave_kind": "bond", "info_slave_data": {"state": "ACTIVE"}},
    "addr_info": [],
}  # fmt: skip
FDB = [{"mac": "00:00:00:00:00:00", "ifname": "vni10010", "dst": "10.252.0.2", "flags": ["self"]}]
VLANS = [{"ifname": "vni10010", "vlans": [{"vlan": 10, "flags": ["PVID", "Egress Untagged"]}]}]
BGP = "router bgp 1\n neighbor swp1 password {}\n"

MAC = {"type": "local", "intf": "swp3", "localSequence": 5, "detectionCount": 5, "isDuplicate": True}
SEGMENT = {
    "esi": "03:02:1a:00:00:00:02:00:00:01", "flags": ["local", "remote"], "accessPort": "bond1",
    "vteps": [{"vtep": "10.252.0.2", "dfAlgorithm": "preference", "dfPreference": 32767, "nexthopId": 268435458}],
}  # fmt: skip
SILENT = "no answer"
ZEBRA = {
    "show evpn mac vni all duplicate json": json.dumps({"10010": {"numMacs": 1, "macs": {"02:1a:00:06:00:01": MAC}}}),
    "show evpn es json": json.dumps([SEGMENT, {"esi": "03:00", "flags": ["remote"]}]),
}


class Daemon:
    """Says what it runs with; that of leaf3 is stopped."""

    def __init__(self, path: Path) -> None:
        if "leaf3" in str(path):
            raise OperationFailed("no daemon listens there")
        says = {"bgpd": BGP.format("hunter2"), "zebra": "interface bond1\n", "mgmtd": "interface bond2\n"}
        self.says = says[path.stem]
        self.zebra = ZEBRA if path.stem == "zebra" else {}

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up."""

    def answer_to(self, command: str, _timeout: float) -> str:
        said = {"write terminal": self.says, **self.zebra}[command]
        if said is SILENT:
            raise OperationFailed("zebra does not answer")
        return said


class Node:
    """A namespace in which programs print what was printed once."""

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, words: Sequence[str], stdin: str = "") -> SimpleNamespace:
        leaf = self.name.startswith("leaf")
        if words[0] == "ip":
            bonded = [BOND, LEG] if self.name == "leaf2" else []
            return SimpleNamespace(stdout=json.dumps([TUNNEL, GATEWAY, *bonded] if leaf else [PORT]))
        assert leaf, "a node without tunnels is not asked for their FDB"
        assert (words[0], stdin) == ("bridge", "fdb show\nvlan show\n")
        return SimpleNamespace(stdout=f"{json.dumps(FDB)}\n{json.dumps(VLANS)}\n")


@pytest.fixture
def fabric(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setattr(forwarding_state, "Vty", Daemon)
    return SimpleNamespace(
        topology=TENANT, namespace=Node, router=lambda name: SimpleNamespace(directory=tmp_path / name),
        state=SimpleNamespace(load_qos=dict, digest_key=b""),
    )  # fmt: skip


def test_a_leaf_has_tunnels_gateways_and_whom_it_floods_to(fabric: Any) -> None:
    found = forwarding_of(fabric)["leaf1"]
    tunnel, gateway = found["interfaces"]
    assert tunnel == {
        "name": "vni10010", "mac": "36:ab:15:b6:59:dc", "mtu": 4300, "kind": "vxlan", "addresses": [],
        "vni": 10010, "local": "10.252.0.1", "tos": 1, "vlan": 10,
    }  # fmt: skip
    assert (gateway["vlan"], gateway["addresses"]) == (10, ["10.1.10.1/24"])
    assert (found["fdb"], found["bgp"]) == (FDB, BGP.format("<secret>"))


def test_hosts_and_spines_have_interfaces(fabric: Any) -> None:
    found = forwarding_of(fabric)
    assert found["h1"] == {"interfaces": [{
        "name": "eth1", "mac": "9e:7f:11:33:fd:7b", "mtu": 4300, "kind": "veth",
        "addresses": ["fe80::9c7f:11ff:fe33:fd7b/64"],
    }]}  # fmt: skip
    assert found["spine1"].keys() == {"interfaces", "bgp"}


def test_a_leaf_with_bonds_says_what_its_interfaces_are_configured_with(fabric: Any, tmp_path: Path) -> None:
    """zebra does; and mgmtd, where there is one."""
    found = forwarding_of(fabric)
    assert (found["leaf2"]["bgp"], found["leaf2"]["mgmt"]) == (BGP.format("<secret>"), "interface bond1\n")
    assert "mgmt" not in found["leaf1"]
    (tmp_path / "leaf2").mkdir()
    (tmp_path / "leaf2" / "mgmtd.vty").touch()
    assert forwarding_of(fabric)["leaf2"]["mgmt"] == "interface bond2\n"
    assert {each["name"]: each.get("bond") for each in found["leaf2"]["interfaces"]} == {
        "vni10010": None, "vlan10": None, "bond1": None, "swp2": "bond1",
    }  # fmt: skip


def test_zebra_has_duplicate_addresses_and_segments(fabric: Any) -> None:
    """Without what changes by itself: sequence numbers, timers, and numbers of next hops."""
    found = forwarding_of(fabric)
    assert found["leaf1"]["duplicates"] == {"10010": {"numMacs": 1}}
    assert "segments" not in found["leaf1"], "it has no bond"
    assert found["leaf2"]["segments"] == [
        {"esi": SEGMENT["esi"], "accessPort": "bond1", "vteps": ["10.252.0.2"]},
        {"esi": "03:00", "accessPort": "", "vteps": []},
    ]


def test_without_evpn_zebra_says_nothing(fabric: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ZEBRA, "show evpn mac vni all duplicate json", "\n")
    assert forwarding_of(fabric)["leaf1"]["duplicates"] == {}


@pytest.mark.parametrize("said", [SILENT, '{"10010": {"macs": {}}}', '{"error": "unknown"}', "[1]"])
def test_a_silent_or_strange_zebra_hides_nothing_else(
    fabric: Any, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setitem(ZEBRA, "show evpn mac vni all duplicate json", said)
    assert forwarding_of(fabric)["leaf1"].keys() == {"interfaces", "fdb", "bgp"}


def test_one_that_does_not_answer_says_so(fabric: Any) -> None:
    assert forwarding_of(fabric)["leaf3"] == {"complaint": "no daemon listens there"}


def test_a_fabric_without_an_overlay_has_none() -> None:
    plain = read_topology(library.OWN.parent / "topologies" / "incast.yaml")
    assert forwarding_of(SimpleNamespace(topology=plain)) == {}  # type: ignore[arg-type]


def test_a_phase_keeps_what_has_changed(monkeypatch: pytest.MonkeyPatch, fabric: Any, tmp_path: Path) -> None:
    """All of it first; then the nodes that forward otherwise, also where none does."""
    said = [{"leaf1": {"bgp": "a"}, "h1": {}}, {"leaf1": {"bgp": "b"}, "h1": {}}, {"leaf1": {"bgp": "b"}, "h1": {}}]
    told = iter(said)
    monkeypatch.setattr(recorder, "forwarding_of", lambda _: next(told))
    times = iter((10, 20, 30, 40))
    sampler: Any = SimpleNamespace(ask=lambda _: {"ns": next(times), "failure": "", "gone": False})
    made = Recorder(Folder(tmp_path), fabric, {}, True, sampler)
    for name in ("one", "two", "three"):
        made.phase(name)
    made.with_state = False
    made.phase("")
    assert list(read_lines(Folder(tmp_path).forwarding)) == [
        {"ns": 10, "nodes": said[0]}, {"ns": 20, "nodes": {"leaf1": {"bgp": "b"}}}, {"ns": 30, "nodes": {}},
    ]  # fmt: skip
