"""The JSON Schema of every command's answer, against what the commands say."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
from pydantic import TypeAdapter, ValidationError
from typer.core import TyperGroup
from typer.testing import CliRunner

from lab.backends import health
from lab.backends.overlay_health import OverlayHealth
from lab.cli.answers import packets, ports
from lab.cli.app import app
from lab.cli.command_groups import Commands
from lab.cli.fabrics import status
from lab.cli.packets.inject import InjectReport
from lab.cli.schemas import ANSWERS, adapter
from lab.dataplane.port_layout import Drop, EventKind
from lab.errors import InvalidInput, Problem, UsageError
from lab.kernel.netlink.interfaces import InterfaceState
from lab.kernel.packets.inject import SendResult
from lab.model.topology import Role
from lab.rdma import measure, window_counters
from lab.rdma.receive_cap import Arrived
from lab.routing.evpn import Advertised, EvpnRoute, Vni
from lab.routing.show import BgpSession
from lab.routing.wait.adjacency import Neighbour
from lab.vm.checkpoints import checkpoint
from lab.vm.checkpoints.checkpoint import CheckpointInfo
from lab.vm.host.qemu import Accel, Share, Time
from lab.vm.host.vm_state import RunningVm, process_start, state_folder
from lab.vm.image.recipe import Image
from lab.wire import trigger
from tests.unit.dataplane.made_maps import log_event
from tests.unit.model.qos.fabrics import fabric
from tests.unit.running import Running, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@pytest.fixture(autouse=True)
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.setenv("ROCELAB_VM_STATE", str(tmp_path / "vm"))
    monkeypatch.setenv("ROCELAB_CHECKPOINTS", str(tmp_path / "checkpoints"))
    made = run(fabric("pfc-ecn"), tmp_path, monkeypatch)
    monkeypatch.setattr("lab.cli.traffic.congestion.open_maps", lambda _: made.maps)
    return made


@pytest.fixture
def running_vm() -> RunningVm:
    """This process seems to be one."""
    made = RunningVm(
        pid=os.getpid(),
        pid_started=process_start(os.getpid()) or 0,
        accel=Accel.KVM,
        time=Time.HOST,
        cpus=2,
        memory_mib=4096,
        image=Image(Path("/cache/0123456789abcdef")),
        kernel="7.3.4",
        shares=(Share("checkout", Path("/home/ann/rocelab")),),
        started=1.0,
        boot_seconds=4.8,
    )
    state = state_folder()
    state.create()
    state.record.write_text(made.to_json())
    return made


def with_json() -> set[str]:
    """Commands that have --json."""
    context = typer.Context(typer.main.get_command(app))
    return set(_with_json(Commands(name="rocelab"), context, ""))


def _with_json(group: TyperGroup, context: typer.Context, above: str) -> Iterator[str]:
    for name in group.list_commands(context):
        command: Any = group.get_command(context, name)
        if isinstance(command, TyperGroup):
            yield from _with_json(command, context, f"{above}{name} ")
        elif any("--json" in parameter.opts for parameter in command.params):
            yield f"{above}{name}"


def checked(line: str) -> Any:
    """What ``rocelab line --json`` answers, which must be as its schema has it."""
    said = CliRunner().invoke(app, [*line.split(), "--json"])
    assert said.stdout, said.exception
    adapter(max((name for name in ANSWERS if line.startswith(name)), key=len)).validate_json(said.stdout)
    return json.loads(said.stdout)


def test_every_command_that_answers_in_json_has_a_schema() -> None:
    assert {name.partition(" --")[0] for name in ANSWERS} == with_json() | {"error"}


@pytest.mark.parametrize(
    "line",
    ["ls", "inspect", "inspect h1", "counters", "counters --all", "counters --names", "congestion --for 1ms",
     "qos show", "qos show leaf1:swp1", "qos events", "qos presets", "qos presets sonic --rate 1Gbit",
     "qos presets --diff sonic hpcc-thresholds", "qos presets hpcc --rate 1Gbit", "qos plan",
     "qos plan --cc paper", "qos plan --buffer 12MB --rtt 9us",
     "expect drops==0 goodput>1Mbit", "vm status", "vm ls",
     "vm checkpoint ls", "doctor", "craft cnp", "craft write --count 3 --payload hello --vni 10 --bad-icrc",
     "craft pfc --classes 3=65535", "craft read --dmalen 64 --src fd00::1 --vlan 5"],
)  # fmt: skip
def test_answers_are_as_their_schema_has_them(line: str) -> None:
    checked(line)


def test_registers_are_as_the_schema_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(fabric("{fabric: hpcc, nodes: {h2: pfc-ecn}}"), tmp_path, monkeypatch)
    ports = {name: node["ports"]["eth1"] for name, node in checked("qos show host")["nodes"].items()}
    assert ports["h1"]["cc"]["registers"]["rpg_min_rate"] == 4_000_000
    assert ports["h2"]["cc"] is None


def test_files_are_described_as_the_schema_has_it(tmp_path: Path) -> None:
    """With advice, with pods, and without QoS."""
    file = tmp_path / "t.yaml"
    shape = "{shape: clos, pods: 2, superspines: 1, spines_per_pod: 1, leaves_per_pod: 1, hosts_per_leaf: 1}"
    unwise = "{fabric: [pfc-ecn, mine], profiles: {mine: {pfc: {rx: false}}}}"
    for qos in ("", f"qos: {unwise}"):
        file.write_text(f"name: t\ndefaults: {{rate: 100Mbit}}\ngenerate: {shape}\n{qos}\n")
        described = checked(f"topology show {file}")
        assert bool(described["advice"]) == bool(qos)
        assert [node["role"] for node in described["node_list"][:2]] == ["superspine", "spine"]


@pytest.mark.parametrize("kind", EventKind)
def test_every_event_is_as_its_schema_has_it(running: Running, kind: EventKind) -> None:
    log_event(running.maps, 10**9, int(Drop.HEADROOM), running.id("leaf1:swp3"), kind, 3)
    (event,) = checked("qos events")
    assert (event["kind"], event["node"], event["interface"]) == (kind.name.lower(), "leaf1", "swp3")


def test_pauses_and_lost_packets_are_as_their_schema_has_them(running: Running) -> None:
    counters = running.maps.counters
    counters["queue"]["depth_bytes"][running.id("leaf1:swp4"), 3] = 455_000
    counters["group"]["xoff"][running.id("leaf1:swp3"), 3] = 1
    (root,) = checked("congestion --for 1ms")
    assert root["pauses"][0]["behind"] == []
    (lost,) = checked("counters")["unbalanced"]
    assert (lost["interface"], lost["missing_bytes"]) == ("swp4", -455_000)


def test_a_vm_that_is_up_is_as_its_schema_has_it(running_vm: RunningVm) -> None:
    assert checked("vm status")["kernel"] == running_vm.kernel
    assert [each["cpus"] for each in checked("vm ls")] == [running_vm.cpus]


def test_a_checkpoint_is_as_its_schema_has_it() -> None:
    made = checkpoint.save(
        "mine", CheckpointInfo("for a test", "fits", "image", 1.0, automatic=False), lambda _: None
    )
    assert [each["name"] for each in checked("vm checkpoint ls")] == [made.name]


def test_the_health_of_nodes_is_as_its_schema_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told = health.NodeHealth(
        "leaf1", Role.LEAF, {"bgpd": True}, (BgpSession("swp1", "spine1:swp1", "Established", 5, 3.5),),
        {"swp1": "starting"}, {"swp1": InterfaceState("swp1", True, 9000, 1, 1, 1, 1, 0)}, {"x": "ACTIVE"},
        (Neighbour("swp1", "spine1:swp1", "OSPFv2", "Full", 3.5),),
    )  # fmt: skip
    monkeypatch.setattr(status, "examine", lambda _: [told])
    assert checked("status")["healthy"]


def test_errors_are_as_their_schema_has_them() -> None:
    for error in (UsageError("x", "y"), InvalidInput("f", [Problem("a", "b", "c", 1)])):
        adapter("error").validate_json(json.dumps({"error": error.as_data()}))


MEASURED = {
    "time": "virtual",
    "counters": {"h1": {"sent_pkts": 3}},
    "counters_window_s": 1,
    "balance": {**asdict(window_counters.Balance(3, 2, None)), "under_way": 1},
}


def test_what_is_measured_is_as_its_schema_has_it() -> None:
    """As ``rocelab rdma`` puts it together; only a running fabric says these."""
    took = measure.BandwidthResult("h1", "h2", "write", 10**8, 1500, 2.0, 0.0, 65536, 1, 4096, 106)
    arrived = Arrived("h2", 3, 1, 2)
    told = {"pairs": [asdict(took)], "all": asdict(measure.total([took])), "arrivals": [asdict(arrived)], **MEASURED}
    adapter("rdma bw").validate_json(json.dumps(told))
    late = measure.LatencyResult("h1", "h2", "read", 8, 10, 1e-6, 2e-6, 2e-6, 3e-6, 3e-6, 3e-6, 0.0, 4096, 106)
    adapter("rdma lat").validate_json(json.dumps({"pairs": [asdict(late)], **MEASURED}))


def test_what_was_waited_for_is_as_its_schema_has_it() -> None:
    event = trigger.TriggerEvent(trigger.TriggerKind.XOFF, 1, "leaf1:swp3", "in words")
    link = {"link": "leaf1:swp3", "packets": 1, "bytes": 64, "dropped": 0}
    told = {"file": "x.pcapng", "links": [link], "event": asdict(event)}
    adapter("capture").validate_json(json.dumps(told))


def test_fields_are_described_as_the_dataclass_describes_them() -> None:
    described = adapter("rdma bw").json_schema()["$defs"]["BandwidthResult"]["properties"]
    assert described["goodput_bps"]["description"] == "Payload only, bit/s, over all QPs."
    assert "description" not in described["src"]


def test_what_is_sent_has_these_names() -> None:
    assert set(packets.SentAnswer.model_fields) == set(InjectReport(SendResult(1, 2, 3, 4.0), 1, "h1:eth1").facts)


def test_reasons_of_drops_are_numbered_as_the_kernel_does() -> None:
    described = ports.PortEventAnswer.model_fields["value"].description or ""
    assert [number for number in map(str, Drop) if f"{number} " in described] == list(map(str, Drop))


@pytest.mark.parametrize("wrong", [{"fabric": "x"}, {"fabric": "x", "nodes": "2", "seconds": {}}, []])
def test_another_answer_is_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError):
        adapter("up").validate_json(json.dumps(wrong))
    with pytest.raises(ValidationError):
        adapter("up").validate_json('{"fabric": "x", "nodes": 2, "seconds": {}, "restored": false, "more": 1}')


def loose(schema: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """Where a schema takes anything: no type, or a mapping or list that does not tell of what."""
    told, more = schema.get("properties", {}), schema.get("additionalProperties", True)
    untyped = not {"type", "$ref", "anyOf", "const", "enum"} & set(schema)
    mapping = schema.get("type") == "object" and (more is True or not (told or more))
    if untyped or mapping or (schema.get("type") == "array" and not {"items", "prefixItems"} & set(schema)):
        yield place
    below = [*told.items(), *schema.get("$defs", {}).items()]
    below += [("*", each) for key in ("anyOf", "prefixItems") for each in schema.get(key, ())]
    below += [("*", each) for each in (schema.get("items"), more) if isinstance(each, dict)]
    for name, each in below:
        yield from loose(each, f"{place}/{name}")


@pytest.mark.parametrize("command", list(ANSWERS))
def test_no_schema_takes_anything(command: str) -> None:
    assert list(loose(adapter(command).json_schema())) == []


@pytest.mark.parametrize("shallow", [Any, dict[str, Any], list[Any], dict[str, list[Any]], list[Any] | int])
def test_a_schema_that_takes_anything_is_noticed(shallow: Any) -> None:
    assert list(loose(TypeAdapter(shallow).json_schema()))


@pytest.mark.parametrize("command", list(ANSWERS))
def test_schemas_are_printed(command: str) -> None:
    printed = json.loads(CliRunner().invoke(app, ["docs", "--schema", command]).stdout)
    assert printed["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert {"type", "anyOf"} & set(printed)


def test_no_schema_of_a_command_that_is_not_there() -> None:
    refused = CliRunner().invoke(app, ["docs", "--schema", "rdma b"]).exception
    assert str(refused) == "no command 'rdma b' has JSON output: did you mean 'rdma bw'?"


def test_the_overlay_is_as_its_schema_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    route = EvpnRoute(
        2, "10.253.0.1:4", ("28833:10010",), (10010,), "02:1a:00:06:00:01", "", "10.252.0.1", "", 0, "", True
    )
    vni = Vni("leaf1", 10010, "L2", "blue", "vni10010", "10.252.0.1", ("10.252.0.2",), 2, up=True)
    told = OverlayHealth((Advertised("leaf1", route, ("leaf2",)),), (vni,), ())
    monkeypatch.setattr(status, "examine_overlay", lambda _: told)
    answer = checked("status --evpn")
    assert answer["healthy"]
    assert answer["routes"][0]["route"]["vnis"] == [10010]
    shown = CliRunner().invoke(app, ["status", "--evpn"])
    assert shown.exit_code == 0
    assert "28833:10010" in shown.stdout


def test_an_overlay_that_lacks_something_is_told_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    told = OverlayHealth((), (), ("leaf1: vni10010 has no tunnel to 10.252.0.2",))
    monkeypatch.setattr(status, "examine_overlay", lambda _: told)
    shown = CliRunner().invoke(app, ["status", "--evpn"])
    assert shown.exit_code == 1
    assert "leaf1: vni10010 has no tunnel to 10.252.0.2" in shown.stdout
    assert not checked("status --evpn")["healthy"]


def test_a_fabric_without_an_overlay_says_so() -> None:
    refused = CliRunner().invoke(app, ["status", "--evpn"]).exception
    assert isinstance(refused, UsageError)
    assert refused.message == "fabric t has no overlay"
