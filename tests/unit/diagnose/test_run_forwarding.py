"""``rocelab diagnose RUN``: what it makes of routes, links and an overlay's forwarding that a recording has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lab.diagnose.diagnosis import DiagnosisOutcome
from lab.diagnose.overlay_forwarding import forwarding
from lab.diagnose.run import diagnose_run
from lab.errors import InvalidInput
from lab.model.qos.qos_store import dump_node
from lab.telemetry.read.recording import Recording
from lab.telemetry.store import recording_folder as files
from tests.unit.diagnose import made_overlay
from tests.unit.diagnose.made_facts import HOSTS, QOS, TOPOLOGY, named
from tests.unit.diagnose.recorded import begun, during
from tests.unit.telemetry.made import STEP, Made

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def routed(
    path: Path, leaf1: tuple[str, ...], protocol: str, others: Sequence[Any] = (), events: Sequence[Any] = ()
) -> Path:
    """A quiet second of a fabric whose leaves have routes to one another's hosts, leaf1 by these ways, and others."""
    made = Made(path, TOPOLOGY, hosts=HOSTS)
    state: dict[str, dict[str, Any]] = {name: {"qos": dump_node(node), "routes": []} for name, node in QOS.items()}
    for number, host in enumerate(HOSTS):
        prefix, address = f"10.0.0.{2 * number}/31", f"10.0.0.{2 * number + 1}"
        own = {"dst": prefix, "dev": "eth1", "protocol": "kernel", "scope": "link", "prefsrc": address}
        state[host] = {"routes": [own]}
        leaf, ways = ("leaf2", ("swp1", "swp2")) if number < 4 else ("leaf1", leaf1)
        hops = {"nexthops": [{"dev": way} for way in ways]} if len(ways) > 1 else {"dev": ways[0]}
        state[leaf]["routes"].append({"dst": prefix, "protocol": protocol, **hops})
    state["leaf1"]["routes"] += others
    files.write_json(made.folder.state("before"), state)
    for told in events:
        made.event(made.ns, **told)
    during(made, "observe", lambda _: None)
    return made.finished()


@pytest.mark.parametrize("protocol", ["bgp", "ospf"])
def test_ways_are_counted_whoever_found_them(tmp_path: Path, protocol: str) -> None:
    """Of an underlay of OSPF as of BGP: two equal ways are healthy, one of two is named."""
    both = diagnose_run(Recording.open(routed(tmp_path / "both", ("swp1", "swp2"), protocol)), "observe")
    assert both.outcome is DiagnosisOutcome.UNCHECKED
    one = diagnose_run(Recording.open(routed(tmp_path / "one", ("swp1",), protocol)), "observe")
    assert named(one) == ("one-path-only", ("leaf1",))
    assert one.causes[0].confidence == 0.75, "a filter can be at a spine"
    assert "OSPF" in one.causes[0].fix


@pytest.mark.parametrize(
    ("end", "cause"),
    [
        ({"ifname": "swp1", "flags": ["BROADCAST", "UP"], "mtu": 9000}, "link-flap"),
        ({"ifname": "swp1", "flags": ["BROADCAST", "UP", "LOWER_UP"], "mtu": 1500}, "mtu-black-hole"),
        ({"ifname": "br0", "flags": ["BROADCAST", "UP"], "mtu": 1500}, None),
    ],
)
def test_what_a_recording_finds_broken_is_named(tmp_path: Path, end: dict[str, Any], cause: str | None) -> None:
    """A link that had gone, or had its MTU, before anybody looked: no event tells of it, and ``ip link`` does."""
    made = begun(tmp_path / "run")
    state = json.loads(made.folder.state("before").read_text())
    others = [{"ifname": f"swp{n}", "flags": ["UP", "LOWER_UP"], "mtu": 9000} for n in range(2, 7)]
    state["leaf1"]["links"] = [end, *others]
    files.write_json(made.folder.state("before"), state)
    during(made, "observe", lambda _: None)
    found = diagnose_run(Recording.open(made.finished()), "observe")
    assert [(each.cause, each.places) for each in found.causes] == (
        [(cause, ("leaf1:swp1--spine1:swp1",))] if cause else []
    )


FAR = [f"10.0.0.{2 * number}/31" for number in range(4, 8)]
"""Hosts that leaf1 reaches by the spines."""


def told_of(hop: str, **table: int) -> list[dict[str, Any]]:
    """What the kernel of leaf1 tells of routes to them, by one way."""
    return [
        {"source": "kernel", "kind": "route", "node": "leaf1", "prefix": prefix, "interfaces": [hop],
         "type": "unicast", "protocol": "bgp", **table, "gone": False}
        for prefix in FAR
    ]  # fmt: skip


@pytest.mark.parametrize("told", [told_of("vlan4094"), told_of("vlan4094", table=1001), told_of("swp1", table=1001)])
def test_routes_of_a_vrf_are_none_of_the_underlay(tmp_path: Path, told: list[Any]) -> None:
    """Neither those that a recording begins with, nor those told later, by an older rocelab without their table."""
    vrf = [{"dst": prefix, "dev": "vlan10", "protocol": "kernel", "table": "1001"} for prefix in FAR]
    path = routed(tmp_path / "run", ("swp1", "swp2"), "bgp", vrf, told)
    assert diagnose_run(Recording.open(path), "observe").outcome is DiagnosisOutcome.UNCHECKED


@pytest.mark.parametrize("told", [told_of("swp1"), told_of("swp1", table=254)])
def test_routes_that_come_to_the_underlay_count(tmp_path: Path, told: list[Any]) -> None:
    path = routed(tmp_path / "run", ("swp1", "swp2"), "bgp", events=told)
    assert named(diagnose_run(Recording.open(path), "observe")) == ("one-path-only", ("leaf1",))


def tenant(path: Path, *phases: tuple[str, made_overlay.Nodes]) -> Path:
    """A recording of a fabric with an overlay, whose nodes say these things as its phases end."""
    made = Made(path, made_overlay.TOPOLOGY, hosts=["h1", "h2", "h3"])
    state = {name: {"qos": dump_node(node), "routes": []} for name, node in made_overlay.QOS.items()}
    files.write_json(made.folder.state("before"), state)
    for name, said in phases:
        during(made, name, lambda _: None)
        files.append_line(made.folder.forwarding, {"ns": made.ns - STEP, "nodes": said})
    return made.finished()


def test_what_an_overlay_forwards_by_is_that_of_the_phase(tmp_path: Path) -> None:
    """Only nodes that have changed are told of; the others are as they were."""
    healthy, broken = made_overlay.nodes(), made_overlay.nodes()
    made_overlay.of("leaf2", "vni10010", vni=10011)(broken)
    run = tenant(
        tmp_path / "run", ("baseline", healthy), ("observe", {"leaf2": broken["leaf2"]}),
        ("verify", {"leaf2": healthy["leaf2"]}),
    )  # fmt: skip
    recording = Recording.open(run)
    found = {phase: named(diagnose_run(recording, phase)) for phase in ("baseline", "observe", "verify")}
    assert found == {
        "baseline": ("unchecked", ()),
        "observe": ("evpn-vni-mismatch", ("leaf2",)),
        "verify": ("unchecked", ()),
    }


def test_an_overlay_of_which_nothing_was_kept_is_missed(tmp_path: Path) -> None:
    """A recording of an older rocelab has an FDB with tunnels, and does not say what leaves run with."""
    run = tenant(tmp_path / "run", ("observe", {}))
    state = json.loads((run / "state" / "before.json").read_text())
    state["leaf1"]["fdb"] = made_overlay.nodes()["leaf1"]["fdb"]
    files.write_json(run / "state" / "before.json", state)
    assert any("the overlay" in line for line in diagnose_run(Recording.open(run), "observe").missing)


def test_a_node_of_an_overlay_that_does_not_answer_is_missed(tmp_path: Path) -> None:
    said = made_overlay.nodes()
    said["leaf2"] = {"complaint": "no daemon listens"}
    found = diagnose_run(Recording.open(tenant(tmp_path / "run", ("observe", said))), "observe")
    assert any("the forwarding state of leaf2" in line for line in found.missing)
    assert not found.causes


@pytest.mark.parametrize("said", [{"leaf2": {"interfaces": [{"name": "x"}]}}, {"leaf2": {"interfaces": 7}}])
def test_forwarding_that_is_damaged_is_refused(tmp_path: Path, said: Any) -> None:
    with pytest.raises(InvalidInput, match="is damaged"):
        diagnose_run(Recording.open(tenant(tmp_path / "run", ("observe", said))), "observe")


@pytest.mark.parametrize(
    ("lines", "segment"),
    [
        (" evpn mh es-id 7\n evpn mh es-sys-mac 02:1a:00:00:00:02\n", {"bond1": "02:1a:00:00:00:02 7"}),
        (" evpn mh es-id 00:01:02:03:04:05:06:07:08:09\n", {"bond1": "00:01:02:03:04:05:06:07:08:09"}),
        (" evpn mh es-sys-mac 02:1a:00:00:00:02\n", {}),
        (" evpn mh es-id  \n", {}),
    ],
)
def test_a_segment_has_a_number(lines: str, segment: dict[str, str]) -> None:
    said = {"interfaces": [], "mgmt": f"interface swp1\nexit\n!\ninterface bond1\n{lines}exit\n"}
    assert forwarding({"leaf1": said})["leaf1"].segments == segment
