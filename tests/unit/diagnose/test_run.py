"""``rocelab diagnose RUN``: recordings of all sorts, whole and less so, and what it answers to each."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.cli.schemas import adapter
from lab.diagnose.diagnosis import DiagnosisOutcome
from lab.diagnose.extract import collect
from lab.diagnose.run import diagnose_run
from lab.errors import InvalidInput, UsageError
from lab.model.qos.qos_store import dump_node
from lab.telemetry.read.recording import Recording
from lab.telemetry.read.transfers import Transfer
from lab.telemetry.store import recording_folder as files
from tests.unit.diagnose.made_facts import HOSTS, QOS, configured, named
from tests.unit.diagnose.recorded import SENDERS, STEPS, begun, deaf, during, incast, one_sided
from tests.unit.telemetry.made import RDMA, Made

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return one_sided(tmp_path / "run").finished()


def test_a_phase_is_what_it_was(run: Path) -> None:
    recording = Recording.open(run)
    assert diagnose_run(recording, "baseline").outcome is DiagnosisOutcome.CAPACITY
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
    assert diagnose_run(recording, until=times[0]).outcome is DiagnosisOutcome.CAPACITY


def test_transfers_of_a_recording_without_phases_are_diagnosed_by_themselves(tmp_path: Path) -> None:
    """Over all of its eleven seconds, the link to h4 is not full."""
    made = begun(tmp_path / "run")
    for number in range(11 * STEPS):
        if number == 5 * STEPS:
            began = made.ns
        if 5 * STEPS <= number < 6 * STEPS:
            incast(made)
        made.sample()
    quiet = Recording.open(made.finished())
    assert diagnose_run(quiet).outcome is DiagnosisOutcome.UNCHECKED
    for source in SENDERS:
        files.append_line(quiet.folder.transfers, asdict(Transfer(began, source, "h4", "write", 65536, 2, 3, 1.0)))
    found = diagnose_run(Recording.open(quiet.folder.path))
    assert (found.outcome, found.causes[0].cause) == (DiagnosisOutcome.CAPACITY, "incast")
    assert found.end - found.start == pytest.approx(11, abs=0.2)
    assert not any("no transfer" in line for line in found.missing)


@pytest.mark.parametrize(("verb", "ends"), [("write", ("h1:eth1", "h4:eth1")), ("read", ("h4:eth1", "h1:eth1"))])
def test_a_transfer_is_from_the_nic_that_sends_the_data(tmp_path: Path, verb: str, ends: tuple[str, str]) -> None:
    made = begun(tmp_path / "run")
    during(made, "", incast)
    made.counters("h4:eth1")["priority"]["tx_bytes"][3] += 90_000
    made.sample()
    recording = Recording.open(made.finished())
    began = recording.clock.start
    files.append_line(recording.folder.transfers, asdict(Transfer(began, "h1", "h4", verb, 65536, 2, 3, 1.0)))
    recording = Recording.open(recording.folder.path)
    (transfer,) = collect(recording, recording.window()).transfers
    assert (transfer.src, transfer.dst, transfer.qps) == (*ends, 2)
    before = replace(recording.window(), start=began + 2_000_000_000, end=began + 3_000_000_000)
    assert collect(recording, before).transfers == ()


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
    assert '"fabric":["pfc-ecn"]' in text
    file.write_text(text.replace('["l4",', '["l3",').replace('"fabric":["pfc-ecn"]', '"fabric":["lossy"]'))
    assert diagnose_run(Recording.open(run)) == before


def test_a_recording_that_was_cut_says_the_same_or_less(tmp_path: Path) -> None:
    """Wherever its recorder was killed: nothing seen before the fault, then the fault, and never another."""
    path = one_sided(tmp_path / "run").killed()
    log = (path / "log.raw").read_bytes()
    seen = set()
    for percent in (*range(60, 80, 2), 90, 100):  # the traffic begins and the fault follows in the narrow steps
        (path / "log.raw").write_bytes(log[: len(log) * percent // 100])
        found = diagnose_run(Recording.open(path))
        seen.add(named(found)[0])
        assert any("killed" in line for line in found.missing)
    assert {"incast", "pfc-one-sided"} <= seen <= {"unchecked", "incast", "pfc-one-sided"}


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
    assert diagnose_run(recording, "baseline").outcome is DiagnosisOutcome.UNCHECKED
    assert named(diagnose_run(recording, "observe")) == ("ecn-missing-one-leaf", ("leaf2:swp6",))


@pytest.mark.parametrize(("switched", "sure"), [(True, 0.85), (False, 0.6)])
def test_only_a_switched_watchdog_shows_which_of_two_leaves_is_wrong(
    tmp_path: Path, switched: bool, sure: float
) -> None:
    """Another change of a port of leaf1 says nothing about the watchdogs that only leaf2 lacks."""
    made = begun(tmp_path / "run")
    watched = [f"leaf1:swp{number}" for number in (3, 4, 5, 6)]
    there = configured(*watched, watchdog={"enabled": True})["leaf1"]
    if not switched:
        before = {name: {"qos": dump_node(node)} for name, node in {**QOS, "leaf1": there}.items()}
        files.write_json(made.folder.state("before"), before)
        mapped = replace(there.ports["swp3"], dscp_to_priority=(0,) * 64)
        there = replace(there, ports={**there.ports, "swp3": mapped})
    during(made, "baseline", lambda _: None)
    files.append_line(made.folder.configuration, {"ns": made.ns, "nodes": {"leaf1": dump_node(there)}})
    made.ns += 1
    during(made, "observe", lambda _: None)
    causes = diagnose_run(Recording.open(made.finished()), "observe").causes
    (found,) = (each for each in causes if each.cause == "pfc-watchdog-missing")
    assert (found.places, found.confidence) == (("leaf1",) if switched else ("leaf2",), sure)


def test_configuration_that_is_damaged_is_refused(run: Path) -> None:
    files.append_line(Recording.open(run).folder.configuration, {"ns": 1, "nodes": {"leaf2": {"pool": "x"}}})
    with pytest.raises(InvalidInput, match="is damaged"):
        diagnose_run(Recording.open(run))


@pytest.mark.parametrize(
    ("name", "value"),
    [("rate", {"x": 1}), ("rate", None), ("delay", "5us"), ("groups", []), ("dscp_to_priority", ["3"] * 64)],
)
def test_a_value_of_another_type_is_refused(run: Path, name: str, value: Any) -> None:
    node = json.loads(json.dumps(dump_node(QOS["leaf1"])))
    node["ports"]["swp6"][name] = value
    files.append_line(Recording.open(run).folder.configuration, {"ns": 1, "nodes": {"leaf1": node}})
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
        (["RUN", "--probe"], "--probe needs a running fabric"),
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
    assert (found.outcome, found.causes) == (DiagnosisOutcome.UNKNOWN, ())
    assert any("counters that plain links lack" in line for line in found.missing)


def test_of_plain_links_a_switch_that_is_dark_is_known(tmp_path: Path) -> None:
    made = begun(tmp_path / "run")
    during(made, "baseline", incast)
    for number in range(1, 7):
        gone = {"source": "kernel", "kind": "link", "node": "leaf1", "interface": f"swp{number}", "up": False}
        made.event(made.ns + number, **gone, mtu=4200)
    during(made, "observe", deaf)
    found = diagnose_run(plain(made))
    assert (found.causes[0].cause, found.causes[0].places) == ("leaf-dies", ("leaf1",))


def noted(run: Path, text: str, **told: Any) -> Recording:
    """The run with a note of its caller more, as the phase ``observe`` begins."""
    recording = Recording.open(run)
    note = {"ns": recording.phase("observe").start, "kind": "note", "text": text, **told}
    files.append_line(recording.folder.notes, note)
    return Recording.open(run)


def test_work_that_gave_up_is_told_in_the_window_in_which_it_did(run: Path) -> None:
    recording = noted(run, "gave up", pair="h1:h5", said="broke")
    phases = {name: collect(recording, recording.phase(name)).gave_up for name in ("baseline", "observe")}
    assert {name: [(each.pairs, each.said) for each in told] for name, told in phases.items()} == {
        "baseline": [], "observe": [("h1:h5", "broke")],
    }  # fmt: skip


def awaiting(made: Made) -> None:
    """An incast whose receiver counts all packets."""
    incast(made)
    made.devices[HOSTS.index("h4"), RDMA.index("rcvd_pkts")] += 147


def sending(made: Made) -> None:
    """The same, and the RDMA device of h1 counts what it sends."""
    awaiting(made)
    made.devices[HOSTS.index("h1"), RDMA.index("sent_pkts")] += 49


@pytest.mark.parametrize("device_again", [False, True])
@pytest.mark.parametrize(("pair", "failed"), [("h1 -> h4", ["inject", "observe"]), ("h2 -> h4", [])])
def test_a_transfer_that_is_not_awaited_fails_with_its_last_packet(
    tmp_path: Path, pair: str, failed: list[str], device_again: bool
) -> None:
    """Its failure is noted when all transfers end. A transfer that never sent anything has no last packet.

    A device that is created again has sent nothing yet.
    """
    made = begun(tmp_path / "run")
    during(made, "baseline", sending)
    made.phase("inject")
    for happens in (sending, *(awaiting,) * STEPS):
        happens(made)
        made.sample()
    made.phase("")
    made.devices[HOSTS.index("h1"), RDMA.index("sent_pkts")] *= not device_again
    during(made, "observe", awaiting)
    recording = Recording.open(made.finished())
    note = {"ns": recording.phase("observe").end + 10**6, "kind": "note", "text": "gave up", "pair": pair}
    files.append_line(recording.folder.notes, {**note, "said": "Failed status 5"})
    recording = Recording.open(recording.folder.path)
    found = {each.name: collect(recording, each) for each in recording.phases}
    assert [name for name, each in found.items() if each.gave_up] == failed
    outcome = DiagnosisOutcome.UNKNOWN if failed else DiagnosisOutcome.CAPACITY
    assert diagnose_run(recording, "observe").outcome is outcome
    assert diagnose_run(recording, "baseline").outcome is DiagnosisOutcome.CAPACITY


def test_why_probes_did_not_write_is_told_with_what_is_not_known(run: Path) -> None:
    recording = noted(run, "held back", said="h2:eth1 may not send")
    assert "h2:eth1 may not send" in diagnose_run(recording, "observe").missing
    assert "h2:eth1 may not send" not in diagnose_run(recording, "baseline").missing


def test_a_daemon_is_gone_in_each_window_from_its_loss_until_it_is_back(tmp_path: Path) -> None:
    made = begun(tmp_path / "run")
    told = {"source": "routing", "node": "leaf1", "daemon": "bgpd"}
    for phase, kind in (("first", ""), ("lost", "daemon_lost"), ("on", ""), ("back", "daemon_back"), ("last", "")):
        if kind:
            made.event(made.ns + 10**6, kind=kind, **told)
        during(made, phase, incast)
    recording = Recording.open(made.finished())
    gone = {each.name: collect(recording, each).silences for each in recording.phases}
    assert {name for name, found in gone.items() if found} == {"lost", "on", "back"}
    assert {(each.node, each.daemon, each.gone) for found in gone.values() for each in found} == {
        ("leaf1", "bgpd", True)
    }
    assert diagnose_run(recording, "on").causes[0].cause == "daemon-killed"


@pytest.mark.parametrize(
    ("kind", "down", "up"),
    [("bgp", "Active", "Established"), ("ospf", "Init", "Full"), ("ospf6", "Down", "Full"), ("isis", "Down", "Up")],
)
def test_a_session_is_lost_in_each_window_until_it_is_established_again(
    tmp_path: Path, kind: str, down: str, up: str
) -> None:
    """Also where it has never been, as the first look at it tells: that has no state before."""
    made = begun(tmp_path / "run")
    told = {"source": "routing", "kind": kind, "node": "leaf1", "interface": "swp1"}
    states = {"never": (down, ""), "on": (), "up": (up, down), "well": (), "lost": ("Idle", up), "yet": ()}
    for phase, change in states.items():
        if change:
            made.event(made.ns + 10**6, state=change[0], before=change[1], **told)
        during(made, phase, incast)
    recording = Recording.open(made.finished())
    found = {each.name: [change.state for change in collect(recording, each).sessions] for each in recording.phases}
    assert found == {
        "never": [down], "on": [down], "up": [up], "well": [], "lost": ["Idle"], "yet": ["Idle"],
    }  # fmt: skip
    assert diagnose_run(recording, "yet").outcome is DiagnosisOutcome.UNKNOWN
    assert diagnose_run(recording, "well").outcome is DiagnosisOutcome.CAPACITY


@pytest.mark.parametrize("path", [[], None])
def test_a_sweep_that_is_damaged_is_refused(run: Path, path: Any) -> None:
    recording = noted(run, "swept", path=path, port=61000, size=4200, small=[100, 90], large=[10, 0])
    with pytest.raises(InvalidInput, match="is damaged"):
        diagnose_run(recording)


@pytest.mark.parametrize("prefix", ["10.0.0.0/33", "", "{'x': 1}", {"x": "10.0.0.0/31"}])
def test_a_route_to_no_network_is_refused(tmp_path: Path, prefix: Any) -> None:
    """Symptoms compare addresses with it."""
    made = begun(tmp_path / "run")
    made.event(
        made.ns, source="kernel", kind="route", node="leaf1", prefix=prefix, type="unicast", protocol="bgp",
        interfaces=["swp1"],
    )  # fmt: skip
    during(made, "observe", deaf)
    with pytest.raises(InvalidInput, match="is damaged"):
        diagnose_run(Recording.open(made.finished()))


def test_an_rdma_device_that_is_missing_stops_no_diagnosis_of_the_rest(tmp_path: Path) -> None:
    """It is missing before the window begins, and a daemon is gone as well."""
    made = begun(tmp_path / "run")
    made.event(made.ns, source="rdma", kind="device_gone", node="h3", interface="eth1", device="lab.h3")
    during(made, "before", incast)
    made.event(made.ns + 10**6, source="routing", kind="daemon_lost", node="leaf1", daemon="bgpd")
    during(made, "observe", incast)
    found = diagnose_run(Recording.open(made.finished()), "observe")
    assert {(each.cause, each.places) for each in found.causes if each.fault} == {
        ("rdma-device-lost", ("h3:eth1",)), ("daemon-killed", ("leaf1",)),
    }  # fmt: skip
