"""Requests for faults, and the errors of invalid ones."""

from pathlib import Path
from typing import Any

import pytest

from lab.backends import registry
from lab.backends.backend import Fabric
from lab.errors import UsageError
from lab.faults.fault_request import FaultRequest, parse_words, understand
from lab.faults.kinds.routing import OnePath
from lab.kernel.netlink import neighbours
from lab.model.load import load_topology
from lab.shipped import shipped
from tests.unit.running import run

SHIPPED = shipped("topologies")
TOPOLOGY = load_topology(
    "name: wishes\nqos: pfc-ecn\ngenerate: {shape: leaf-spine, spines: 1, leaves: 1, hosts_per_leaf: 2}\n"
)


EVERYWHERE = "roles: {leaf: own, spine: own, host: own}"


@pytest.fixture
def fabric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fabric:
    return Fabric(run(TOPOLOGY, tmp_path, monkeypatch).state, TOPOLOGY, registry.backend(registry.DEFAULT))


def test_parameters_are_read_as_people_write_them(fabric: Fabric) -> None:
    loss = understand(
        fabric, FaultRequest("link-loss", "h1", {"probability": "0.1%", "opcode": "cnp", "priority": "3,4"})
    )
    assert loss.p.probability == pytest.approx(0.001)
    assert loss.p.opcode == frozenset({0x81})
    assert loss.p.priority == (3, 4)
    storm = understand(fabric, FaultRequest("pause-storm", "h1", {"every": "2ms"}))
    assert (storm.p.every, storm.p.priority) == (0.002, (3,))
    lines = understand(fabric, FaultRequest("frr-config", "leaf1", {"lines": "router bgp; no neighbor swp1 bfd ;"}))
    assert lines.p.lines == ("router bgp", "no neighbor swp1 bfd")


@pytest.mark.parametrize(
    ("kind", "place", "parameters", "told"),
    [
        ("link-dawn", "h1", {}, "there is no kind of fault 'link-dawn': did you mean 'link-down'?"),
        ("nonsense", "h1", {}, "there is no kind of fault 'nonsense': rocelab fault ls --kinds"),
        ("link-down", "h9", {}, "link-down: no node or tier 'h9' in fabric wishes: there is h1 to h2"),
        ("link-down", "h1", {"x": 1}, "link-down: x: is no parameter; it has none"),
        ("link-mtu", "h1", {}, "link-mtu: mtu: is missing; give mtu=...: see rocelab fault show link-mtu"),
        ("link-mtu", "h1", {"mtu": 500}, "link-mtu: mtu: 500 bytes is out of range; choose 1280 bytes to 9216 bytes"),
        (
            "link-loss",
            "h1",
            {"probability": "2", "opcode": "cnpp"},
            (
                "link-loss: opcode: 'cnpp' is no opcode; did you mean 'cnp'?\n"
                "link-loss: probability: 200% is out of range; choose 2.4e-08% to 100%"
            ),
        ),
        (
            "link-loss",
            "h1",
            {"probability": "x"},
            "link-loss: probability: 'x' is no share; write it like 0.1% or 0.001",
        ),
        ("pause-storm", "h1", {"priority": "9"}, "pause-storm: priority.0: '9' is out of range; choose 0 to 7"),
        (
            "malformed-pfc",
            "h1",
            {"what": "y"},
            "malformed-pfc: what: 'y' is not known; choose address, opcode, vector, no-class",
        ),
        ("frr-config", "leaf1", {"lines": " ; "}, "frr-config: lines: says nothing; write it like"),
        (
            "wrong-address",
            "h1",
            {"address": "10.0.0"},
            "wrong-address: address: '10.0.0' is no address; write it like",
        ),
    ],
)
def test_what_cannot_be_is_told_with_the_remedy(
    fabric: Fabric, kind: str, place: str, parameters: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError) as refused:
        understand(fabric, FaultRequest(kind, place, parameters))
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["mtu"], "'mtu' is no parameter: write it like probability=1%"),
        (["=3"], "'=3' is no parameter: write it like probability=1%"),
        (["a=1", "a=2"], "parameter a is given twice: leave one out"),
    ],
)
def test_words_are_assignments(words: list[str], told: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_words(words)
    assert str(refused.value) == told
    assert parse_words(["a=1", "b=x=y"]) == {"a": "1", "b": "x=y"}


@pytest.mark.parametrize(
    ("qos", "priority", "told"),
    [
        ("", "3", "fabric wishes has no lossless ports: write `qos: lab` into its topology"),
        ("qos: pfc-ecn", "4,5", "leaf1:swp2 has no PFC for priority 4,5: give priority=3"),
        (
            f"qos: {{fabric: pfc-ecn, {EVERYWHERE}, profiles: {{own: {{pfc: {{priorities: []}}}}}}}}",
            "3",
            "leaf1:swp2 has no PFC for priority 3: rocelab qos set leaf1:swp2 pfc.priorities=3",
        ),
        ("qos: pfc-ecn", "3,4", ""),
        ("qos: {fabric: pfc-ecn, profiles: {own: {pfc: {rx: false}}}, nodes: {leaf1: own}}", "3", ""),
    ],
)
def test_a_storm_of_pauses_needs_a_port_with_pfc(
    qos: str, priority: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port that ignores pauses on purpose can show that it does."""
    monkeypatch.setattr(neighbours, "mac_address", lambda *_: "02:00:00:00:00:01")
    topology = load_topology(
        f"name: wishes\n{qos}\ngenerate: {{shape: leaf-spine, spines: 1, leaves: 1, hosts_per_leaf: 2}}\n"
    )
    running = Fabric(run(topology, tmp_path, monkeypatch).state, topology, registry.backend(registry.DEFAULT))
    storm = understand(running, FaultRequest("pause-storm", "h1", {"priority": priority}))
    if told:
        with pytest.raises(UsageError) as refused:
            storm.look()
        assert told in str(refused.value)
    else:
        assert "frame" in storm.look()


UNDERLAYS = {"ebgp": "bgpd", "ospf": "ospfd", "isis": "isisd"}


def of_underlay(underlay: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fabric:
    topology = load_topology(
        f"name: wishes\nrouting: {{underlay: {underlay}}}\n"
        "generate: {shape: leaf-spine, spines: 3, leaves: 2, hosts_per_leaf: 1}\n"
    )
    return Fabric(run(topology, tmp_path, monkeypatch).state, topology, registry.backend(registry.DEFAULT))


@pytest.mark.parametrize("kind", ["daemon-killed", "daemon-stopped"])
@pytest.mark.parametrize(("underlay", "daemon"), UNDERLAYS.items())
def test_the_daemon_that_learns_the_routes_is_hit_by_default(
    kind: str, underlay: str, daemon: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric = of_underlay(underlay, tmp_path, monkeypatch)
    assert f"{daemon} of leaf1" in understand(fabric, FaultRequest(kind, "leaf1")).claims()
    assert "zebra of leaf1" in understand(fabric, FaultRequest(kind, "leaf1", {"daemon": "zebra"})).claims()


def test_with_an_overlay_bgp_is_hit_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topology = load_topology((SHIPPED / "l2vni.yaml").read_text(encoding="utf-8"))
    assert topology.has_bgp
    running = Fabric(run(topology, tmp_path, monkeypatch).state, topology, registry.backend(registry.DEFAULT))
    assert "bgpd of leaf1" in understand(running, FaultRequest("daemon-killed", "leaf1")).claims()


def test_one_path_of_isis_makes_the_other_uplinks_dearer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = of_underlay("isis", tmp_path, monkeypatch)
    leaf = understand(fabric, FaultRequest("one-path", "leaf1"))
    assert isinstance(leaf, OnePath)
    assert [line[:2] for line in leaf.typed()] == [
        ("interface swp2", "isis metric 11"), ("interface swp3", "isis metric 11"),
    ]  # fmt: skip
    spine = understand(fabric, FaultRequest("one-path", "spine1"))
    assert isinstance(spine, OnePath)
    with pytest.raises(UsageError, match=r"spine1 is no leaf: name a leaf"):
        spine.typed()
