"""``rocelab diagnose RUN``: recordings of all sorts, whole and less so, and what it answers to each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from lab.cli.main import app
from lab.cli.schemas import adapter
from lab.dataplane.layout import Drop
from lab.diagnose.answer import Outcome
from lab.diagnose.run import diagnose_run
from lab.errors import InvalidInput, UsageError
from lab.model.qos.store import dump_node
from lab.telemetry import folder as files
from lab.telemetry.recording import Recording
from tests.unit.diagnose import made_overlay
from tests.unit.diagnose.made_facts import HOSTS, QOS, TOPOLOGY, configured, named
from tests.unit.telemetry.made import RDMA, STEP, Made

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

STEPS = 20
"""Samples of a phase: a second."""
SENDERS = ("h1", "h2", "h3")


def incast(made: Made) -> None:
    """Three hosts write to h4 for a twentieth of a second, and are paused."""
    queue = made.counters("leaf1:swp6")
    queue["priority"]["tx_bytes"][3] += 640_000
    queue["priority"]["tx_packets"][3] += 147
    queue["queue"]["depth_bytes"][3] = 250_000
    queue["queue"]["ecn_marked"][3] += 80
    made.counters("h4:eth1")["priority"]["rx_packets"][3] += 147
    for number, host in enumerate(SENDERS):
        port, nic = made.counters(f"leaf1:swp{number + 3}"), made.counters(f"{host}:eth1")
        for record, direction in ((nic, "tx"), (port, "rx")):
            record["priority"][f"{direction}_bytes"][3] += 204_000
            record["priority"][f"{direction}_packets"][3] += 49
        port["priority"]["tx_pause"][3] += 2
        port["priority"]["tx_resume"][3] += 2
        nic["priority"]["rx_pause"][3] += 2
        nic["priority"]["rx_resume"][3] += 2
        nic["priority"]["paused_ns"][3] += 30_000_000


def deaf(made: Made) -> None:
    """The same with hosts that do not obey: leaf1 has no room, and drops."""
    incast(made)
    for number, host in enumerate(SENDERS):
        nic = made.counters(f"{host}:eth1")["priority"]
        nic["rx_pause"][3] -= 2
        nic["rx_resume"][3] -= 2
        nic["paused_ns"][3] -= 30_000_000
        nic["rx_pause_ignored"][3] += 2
        made.counters(f"leaf1:swp{number + 3}")["group"]["drop_packets"][3] += 5
    made.counters("leaf1:swp6")["queue"]["drop_packets"][3][Drop.HEADROOM] += 15
    made.devices[HOSTS.index("h4"), RDMA.index("out_of_seq_request")] += 5


def begun(path: Path, hosts: list[str] | None = None) -> Made:
    """A recording of the fabric incast, with the state that it began with."""
    made = Made(path, TOPOLOGY, hosts=HOSTS if hosts is None else hosts)
    state = {name: {"qos": dump_node(node), "routes": []} for name, node in QOS.items()}
    files.write_json(made.folder.state("before"), state)
    return made


def during(made: Made, name: str, happens: Any) -> None:
    """A phase of a second."""
    made.phase(name)
    for _ in range(STEPS):
        happens(made)
        made.sample()
    made.phase("")


def one_sided(path: Path) -> Made:
    """A healthy incast, then one of hosts that are deaf; not yet ended."""
    made = begun(path)
    during(made, "baseline", incast)
    during(made, "observe", deaf)
    return made


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return one_sided(tmp_path / "run").finished()


def test_a_phase_is_what_it_was(run: Path) -> None:
    recording = Recording.open(run)
    assert diagnose_run(recording, "baseline").outcome is Outcome.CAPACITY
    assert named(diagnose_run(recording, "observe")) == ("pfc-one-sided", ("h1:eth1", "h2:eth1", "h3:eth1"))


def test_the_whole_run_has_what_one_of_its_phases_shows(run: Path) -> None:
    found = diagnose_run(Recording.open(run))
    assert [each.cause for each in found.causes] == ["pfc-one-sided", "incast"]
    assert found.causes[0].since == pytest.approx(1.1, abs=0.1)


def test_times_choose_as_a_phase_does(run: Path) -> None:
    recording = Recording.open(run)
    phase = recording.phase("observe")
    times = [(ns - recording.clock.start) / 1e9 for ns in (phase.start, phase.end)]
    assert named(diagnose_run(recording, "", *times)) == named(diagnose_run(recording, "observe"))
    assert diagnose_run(recording, until=times[0]).outcome is Outcome.CAPACITY


@pytest.mark.parametrize("times", [(5.0, 4.0), (99.0, None), (-1.0, None), (None, 0.0)])
def test_times_that_it_has_not(run: Path, times: tuple[float | None, float | None]) -> None:
    with pytest.raises(UsageError, match="has nothing from"):
        diagnose_run(Recording.open(run), "", *times)


def test_what_was_injected_is_not_read(run: Path) -> None:
    """A truth that says something else, and is damaged, changes nothing; nor does what a scenario typed."""
    before = diagnose_run(Recording.open(run))
    folder = Recording.open(run).folder
    folder.truth.parent.mkdir()
    folder.truth.write_text("not even JSON\nin two lines\n")
    files.append_line(folder.notes, {"ns": 1, "kind": "note", "text": "command", "argv": ["rocelab", "qos", "set"]})
    assert diagnose_run(Recording.open(run)) == before


def test_what_the_file_of_the_topology_meant_is_not_read(run: Path) -> None:
    """Only nodes and cables are."""
    before = diagnose_run(Recording.open(run))
    file = run / "topology.json"
    text = file.read_text()
    assert '["l4",' in text
    assert '"fabric":["lab"]' in text
    file.write_text(text.replace('["l4",', '["l3",').replace('"fabric":["lab"]', '"fabric":["lossy"]'))
    assert diagnose_run(Recording.open(run)) == before


def test_a_recording_that_was_cut_says_the_same_or_less(tmp_path: Path) -> None:
    """Wherever its recorder was killed: healthy before the fault, then the fault, and never another."""
    path = one_sided(tmp_path / "run").killed()
    log = (path / "log.raw").read_bytes()
    seen = set()
    for share in (0.6, 0.7, 0.8, 0.9, 1.0):
        (path / "log.raw").write_bytes(log[: int(len(log) * share)])
        found = diagnose_run(Recording.open(path))
        seen.add(named(found)[0])
        assert any("killed" in line for line in found.missing)
    assert {"incast", "pfc-one-sided"} <= seen <= {"healthy", "incast", "pfc-one-sided"}


def test_without_rdma_devices_and_state_it_is_the_same_and_says_what_it_lacks(tmp_path: Path) -> None:
    made = begun(tmp_path / "run", hosts=[])
    made.folder.state("before").unlink()

    def unheard(made: Made) -> None:
        incast(made)
        made.counters("h1:eth1")["priority"]["rx_pause_ignored"][3] += 2

    during(made, "observe", unheard)
    found = diagnose_run(Recording.open(made.finished()), "observe")
    assert named(found) == ("pfc-one-sided", ("h1:eth1",))
    assert {"routes", "the configuration of the devices"} <= set(found.missing)
    assert any("RDMA" in line for line in found.missing)


def test_configuration_is_that_of_the_phase(tmp_path: Path) -> None:
    """What a port has now tells a profile that is not bound; what it had at the beginning does not."""
    made = begun(tmp_path / "run")
    during(made, "baseline", lambda _: None)
    changed = configured("leaf2:swp6", ecn={"enabled": False})["leaf2"]
    files.append_line(made.folder.configuration, {"ns": made.ns, "nodes": {"leaf2": dump_node(changed)}})
    made.ns += 1
    during(made, "observe", lambda _: None)
    recording = Recording.open(made.finished())
    assert diagnose_run(recording, "baseline").outcome is Outcome.HEALTHY
    assert named(diagnose_run(recording, "observe")) == ("ecn-missing-one-leaf", ("leaf2:swp6",))


def test_configuration_that_is_damaged_is_refused(run: Path) -> None:
    files.append_line(Recording.open(run).folder.configuration, {"ns": 1, "nodes": {"leaf2": {"pool": "x"}}})
    with pytest.raises(InvalidInput, match="is damaged"):
        diagnose_run(Recording.open(run))


def test_a_recording_without_samples_is_refused(tmp_path: Path) -> None:
    with pytest.raises((UsageError, InvalidInput), match="no samples"):
        diagnose_run(Recording.open(begun(tmp_path / "run").finished()))


def test_the_command_answers_as_its_schema_has_it(run: Path) -> None:
    said = CliRunner().invoke(app, ["diagnose", str(run), "--phase", "observe", "--json"])
    assert said.exit_code == 1
    adapter("diagnose").validate_json(said.stdout)
    answer = json.loads(said.stdout)
    assert answer["outcome"] == "fault"
    assert answer["causes"][0]["cause"] == "pfc-one-sided"
    evidence = {(line["of"], line["source"]): line["value"] for line in answer["causes"][0]["evidence"]}
    assert evidence["h1:eth1", "rx_prio3_pause_ignored"] == 2 * STEPS


def test_the_command_tells_people(run: Path) -> None:
    said = CliRunner().invoke(app, ["diagnose", str(run), "--phase", "observe"]).stdout
    assert "1. pfc-one-sided at h1:eth1, h2:eth1, h3:eth1, priority 3" in said
    assert "not headroom-too-small? rocelab counters h1:eth1 leaf1:swp3" in said
    assert "fix: rocelab qos set" in said
    healthy = CliRunner().invoke(app, ["diagnose", str(run), "--phase", "baseline"])
    assert healthy.exit_code == 0
    assert "no fault: capacity" in healthy.stdout


def test_one_that_cannot_tell_ends_with_3(tmp_path: Path) -> None:
    made = begun(tmp_path / "run")

    def retry(made: Made) -> None:
        made.devices[0, RDMA.index("completer_retry_err")] += 1

    during(made, "observe", retry)
    said = CliRunner().invoke(app, ["diagnose", str(made.finished())])
    assert said.exit_code == 3
    assert "not accounted for" in said.stdout


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["nowhere/at-all"], "no recording nowhere/at-all"),
        (["RUN", "--phase", "never"], "no phase never"),
        (["RUN", "--probe"], "--probe is about a fabric that runs"),
        (["RUN", "--phase", "observe", "--from", "1"], "--phase and times are both given"),
    ],
)
def test_bad_input_is_one_line(run: Path, words: list[str], line: str) -> None:
    said = CliRunner().invoke(app, ["diagnose", *(str(run) if word == "RUN" else word for word in words)])
    assert isinstance(said.exception, UsageError)
    assert line in str(said.exception)


def plain(made: Made) -> Recording:
    """A recording as of a fabric of plain links: nothing there counts priorities or pauses."""
    path = made.finished()
    about = json.loads((path / "recording.json").read_text())
    about["tables"] = {"interfaces": about["tables"]["ports"]}
    (path / "recording.json").write_text(json.dumps(about))
    (path / "counters" / "ports.parquet").rename(path / "counters" / "interfaces.parquet")
    return Recording.open(path)


def test_of_plain_links_it_is_not_known_whether_all_is_well(tmp_path: Path) -> None:
    found = diagnose_run(plain(one_sided(tmp_path / "run")))
    assert (found.outcome, found.causes) == (Outcome.UNKNOWN, ())
    assert any("what plain links do not count" in line for line in found.missing)


def test_of_plain_links_a_switch_that_is_dark_is_known(tmp_path: Path) -> None:
    made = begun(tmp_path / "run")
    during(made, "baseline", incast)
    for number in range(1, 7):
        gone = {"source": "kernel", "kind": "link", "node": "leaf1", "interface": f"swp{number}", "up": False}
        made.event(made.ns + number, **gone, mtu=4200)
    during(made, "observe", deaf)
    found = diagnose_run(plain(made))
    assert (found.causes[0].cause, found.causes[0].places) == ("leaf-dies", ("leaf1",))


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
    assert both.outcome is Outcome.HEALTHY
    one = diagnose_run(Recording.open(routed(tmp_path / "one", ("swp1",), protocol)), "observe")
    assert named(one) == ("one-path-only", ("leaf1",))
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
    assert diagnose_run(Recording.open(path), "observe").outcome is Outcome.HEALTHY


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
        "baseline": ("healthy", ()),
        "observe": ("evpn-vni-mismatch", ("leaf2",)),
        "verify": ("healthy", ()),
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
    assert any("what leaf2 forwards by" in line for line in found.missing)
    assert not found.causes


@pytest.mark.parametrize("said", [{"leaf2": {"interfaces": [{"name": "x"}]}}, {"leaf2": {"interfaces": 7}}])
def test_forwarding_that_is_damaged_is_refused(tmp_path: Path, said: Any) -> None:
    with pytest.raises(InvalidInput, match="is damaged"):
        diagnose_run(Recording.open(tenant(tmp_path / "run", ("observe", said))), "observe")


@pytest.mark.parametrize("path", [[], None])
def test_a_sweep_that_is_damaged_is_refused(run: Path, path: Any) -> None:
    recording = Recording.open(run)
    told = {"path": path, "port": 61000, "size": 4200, "small": [100, 90], "large": [10, 0]}
    note = {"ns": recording.phase("observe").start, "kind": "note", "text": "swept", **told}
    files.append_line(recording.folder.notes, note)
    with pytest.raises(InvalidInput, match="is damaged"):
        diagnose_run(Recording.open(run))
