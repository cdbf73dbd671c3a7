"""When a diagnosis without a fault is "healthy", and what it says was not checked otherwise."""

from __future__ import annotations

from itertools import permutations
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from lab.audit import snapshot
from lab.audit.audited import NodeAudit, UnreadPart
from lab.audit.objects.kernel_objects import SysctlAudit
from lab.cli.app import app
from lab.diagnose.coverage import talking
from lab.diagnose.diagnosis import DiagnosisOutcome
from lab.diagnose.facts import Ran
from lab.diagnose.ip_stacks import Stack
from lab.diagnose.run import diagnose_run
from lab.model.load import read_topology
from lab.report.diagnosis_part import diagnosed
from lab.scenario import library
from lab.telemetry.read.recording import Recording
from lab.telemetry.store import recording_folder as files
from tests.unit.diagnose.made_facts import TOPOLOGY, facts, writing
from tests.unit.diagnose.recorded import begun, during, incast

if TYPE_CHECKING:
    from pathlib import Path

    from lab.model.topology import Topology

HOSTS = [host.name for host in TOPOLOGY.hosts]
SWITCHES = [switch.name for switch in TOPOLOGY.switches]
PAIRS = [[src, dst, 3, 3, 40_000] for src, dst in permutations(HOSTS, 2)]
AUDITS = {node.name: NodeAudit(node.name, str(node.role)) for node in TOPOLOGY.nodes}
QUIET = ("traffic between hosts: no transfer is recorded",)

OUTSIDE = """
name: outside
nodes: {leaf1: {role: leaf}, h1: {role: host}, h2: {role: host}}
links:
  - ends: [h1, leaf1]
  - ends: [h2, leaf1]
overlay:
  tenants: {red: {l3vni: 4001}}
  networks:
    one: {tenant: red, vlan: 10, l2vni: 10100, subnets: [10.9.1.0/24], gateways: [10.9.1.1], untagged: [h1, h2]}
  border: [{router: h2, asn: 65000, prefixes: [0.0.0.0/0]}]
"""
"""One leaf, and an external router at it."""


def recorded(
    path: Path,
    pairs: list[list[Any]] | None = PAIRS,
    sessions: list[str] = SWITCHES,
    audits: dict[str, NodeAudit] = AUDITS,
    *,
    mute: str = "",
    topology: Topology = TOPOLOGY,
    **parameters: Any,
) -> Recording:
    """A second in which nobody writes, and what was probed and read of it."""
    made = begun(path, [host.name for host in topology.hosts], topology)
    if mute:
        state = files.read_json(made.folder.state("before"))
        assert state is not None
        files.write_json(made.folder.state("before"), state | {mute: {"complaint": "timed out"}})
    for node in sessions:
        made.event(made.ns, source="routing", kind="bgp", node=node, interface="swp1", state="Established", before="")
    if audits:
        nodes = {name: snapshot.dump_node(node) for name, node in audits.items()}
        files.append_line(made.folder.audit, {"ns": made.ns, "fabric": "f", "nodes": nodes, "drift": []})
    if parameters:
        files.write_json(made.folder.facts("params"), parameters)
    if pairs is not None:
        note = {"ns": made.ns + 1, "kind": "note", "text": "swept pairs", "pairs": pairs}
        files.append_line(made.folder.notes, note)
    during(made, "window", lambda _: None)
    return Recording.open(made.finished())


def test_healthy_is_what_was_checked_in_full(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "run")
    found = diagnose_run(recording, "window")
    assert (found.outcome, found.unchecked, found.missing) == (DiagnosisOutcome.HEALTHY, (), QUIET)
    assert CliRunner().invoke(app, ["diagnose", str(recording.folder.path), "--phase", "window"]).exit_code == 0


def test_the_only_switch_of_a_fabric_has_no_sessions_to_report(tmp_path: Path) -> None:
    """Its daemon runs, and no neighbour of it routes: without this a fabric of one switch was never healthy."""
    topology = read_topology(library.OWN.parent / "topologies" / "one-leaf.yaml")
    pairs = [[src.name, dst.name, 3, 3, 40_000] for src, dst in permutations(topology.hosts, 2)]
    audits = {node.name: NodeAudit(node.name, str(node.role)) for node in topology.nodes}
    recording = recorded(tmp_path / "run", pairs, [], audits, topology=topology)
    found = diagnose_run(recording, "window")
    assert (found.outcome, found.unchecked) == (DiagnosisOutcome.HEALTHY, ())


def test_a_switch_whose_only_router_is_outside_has_a_session_to_report(tmp_path: Path) -> None:
    (tmp_path / "outside.yaml").write_text(OUTSIDE, encoding="utf-8")
    topology = read_topology(tmp_path / "outside.yaml")
    found = diagnose_run(recorded(tmp_path / "run", sessions=[], topology=topology), "window")
    assert "the routing sessions of leaf1" in found.unchecked


@pytest.mark.parametrize(
    ("lacking", "line"),
    [
        (
            {"pairs": None},
            f"{len(PAIRS)} of {len(PAIRS)} directed host pairs, h1->h2, h1->h3, h1->h4 and {len(PAIRS) - 3} more",
        ),
        ({"pairs": PAIRS[1:]}, f"1 of {len(PAIRS)} directed host pairs, h1->h2"),
        ({"sessions": SWITCHES[1:]}, f"the routing sessions of {SWITCHES[0]}"),
        ({"audits": {}}, "the settings of all nodes"),
        ({"audits": {name: node for name, node in AUDITS.items() if name != "h2"}}, "the settings of h2"),
        (
            {"audits": AUDITS | {"h1": NodeAudit("h1", "host", unread=(UnreadPart("rdma", "no device"),))}},
            "settings that could not be read: rdma of h1",
        ),
        ({"mute": "h1"}, "the state of h1: it did not answer"),
        (
            {
                "audits": AUDITS
                | {
                    host: NodeAudit(host, "host", sysctls=(SysctlAudit("net.ipv4.conf.all.rp_filter", value),))
                    for host, value in zip(HOSTS, ["1", *["0"] * len(HOSTS)], strict=False)
                }
            },
            "the effect of settings that differ: sysctl net.ipv4.conf.all.rp_filter of h1",
        ),
    ],
    ids=["no-probe", "one-pair", "sessions", "settings", "one-node", "unread", "mute", "differs"],
)
def test_what_was_not_checked_is_named(tmp_path: Path, lacking: dict[str, Any], line: str) -> None:
    recording = recorded(tmp_path / "run", **lacking)
    found = diagnose_run(recording, "window")
    assert (found.outcome, found.unchecked) == (DiagnosisOutcome.UNCHECKED, (line,))
    said = CliRunner().invoke(app, ["diagnose", str(recording.folder.path), "--phase", "window"])
    assert said.exit_code == 3
    assert f"no fault seen, not checked: {line}" in said.stdout


def test_packets_of_a_pair_that_are_missing_are_trouble(tmp_path: Path) -> None:
    first, *others = PAIRS
    found = diagnose_run(recorded(tmp_path / "run", pairs=[[*first[:3], 1, None], *others]), "window")
    assert found.outcome is DiagnosisOutcome.UNKNOWN
    assert [(each.of, each.says, each.value) for each in found.unexplained] == [
        ("h1", "of 3 small packets to h2 arrived", 1)
    ]


def test_of_a_scenario_its_own_transfers_are_what_should_talk(tmp_path: Path) -> None:
    """Nor does it record settings: one whose hosts talk is healthy, as it was before."""
    recording = recorded(tmp_path / "run", pairs=[PAIRS[0]], audits={}, scenario="incast")
    assert diagnose_run(recording, "window").unchecked[0].startswith(f"{len(PAIRS) - 1} of {len(PAIRS)}")
    note = {"ns": recording.clock.start, "kind": "note", "text": "traffic", "pairs": ["h1:h2"]}
    files.append_line(recording.folder.notes, note)
    found = diagnose_run(Recording.open(recording.folder.path), "window")
    assert found.unchecked == ("1 of 2 directed host pairs, h2->h1",)
    others = [[src, dst, 3, 3, 40_000] for src, dst in (("h1", "h2"), ("h2", "h1"))]
    both = recorded(tmp_path / "both", pairs=others, audits={}, scenario="incast")
    files.append_line(both.folder.notes, note)
    assert diagnose_run(Recording.open(both.folder.path), "window").outcome is DiagnosisOutcome.HEALTHY


def test_settings_are_those_at_the_end_of_the_window(tmp_path: Path) -> None:
    """They could be read in the window, and not later."""
    recording = recorded(tmp_path / "run")
    unread = NodeAudit("h1", "host", unread=(UnreadPart("rdma", "no device"),))
    later = {
        "ns": recording.window("window").end + 1,
        "fabric": "f",
        "nodes": {"h1": snapshot.dump_node(unread)},
        "drift": [],
    }
    files.append_line(recording.folder.audit, later)
    assert diagnose_run(Recording.open(recording.folder.path), "window").outcome is DiagnosisOutcome.HEALTHY


def test_a_transfer_of_which_nothing_arrives_proves_nothing() -> None:
    """h1 sends to h5 only, whatever it was to send to h6."""
    lanes = {"h1:eth1": {"tx_packets": 9, "tx_bytes": 20_000}, "h5:eth1": {"rx_packets": 9}}
    made = facts(lanes, transfers=writing("h1:h5", "h1:h6"))
    pairs = {("h1", "h5"), ("h1", "h6")}
    assert talking([made], pairs) == {("h1", "h5")}


def test_a_ping_to_a_host_of_several_nics_proves_none_of_them() -> None:
    """It may have been answered by any."""
    stack = Stack(macs={}, own=frozenset({"10.9.9.9"}), networks={})
    made = facts({}, stacks={"h5": stack}, ran=(Ran(1.0, "h1", ("ping", "10.9.9.9"), 0, ""),))
    assert talking([made], {("h1", "h5")}) == {("h1", "h5")}
    assert not talking([made], {("h1:eth1", "h5:eth1"), ("h1:eth1", "h5:eth2")})


def test_a_full_link_is_no_fault_and_what_was_not_checked_is_listed(tmp_path: Path) -> None:
    made = begun(tmp_path / "run")
    during(made, "window", incast)
    folder = made.finished()
    said = CliRunner().invoke(app, ["diagnose", str(folder)])
    assert said.exit_code == 0
    first, second, *_ = said.stdout.splitlines()
    assert first.endswith("no fault: capacity")
    assert second.startswith("not checked: ")
    assert second.endswith("the settings of all nodes")
    page = "\n".join(diagnosed(SimpleNamespace(diagnosis=diagnose_run(Recording.open(folder)))))  # type: ignore[arg-type]
    assert "Not checked: " in page
