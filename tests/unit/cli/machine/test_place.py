"""Commands about a running fabric run where it does, if nobody says where."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from lab.cli import vm_routing
from lab.cli.app import app
from lab.cli.kit.host_names import parse_filter
from lab.errors import OperationFailed, UsageError
from lab.vm.host.qemu import Accel, Share, Time
from lab.vm.host.vm_state import RunningVm, StateFolder, process_start
from lab.vm.image.recipe import Image, checkout
from tests.command_line import parsed
from tests.unit.model.qos.fabrics import fabric
from tests.unit.running import run

if TYPE_CHECKING:
    from lab.model.topology import Topology

CAPTURE = Path("none.pcapng")
"""A capture that names no host."""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateFolder:
    """A VM that is up, as far as its record tells; the process is this one. No fabric is anywhere."""
    monkeypatch.delenv("ROCELAB_VM")
    monkeypatch.delenv("ROCELAB_IN_VM", raising=False)
    monkeypatch.setenv("ROCELAB_VM_STATE", str(tmp_path / "vm"))
    monkeypatch.setattr("lab.backends.fabric_state.FABRICS", tmp_path / "fabrics")
    state = StateFolder(tmp_path / "vm")
    state.create()
    pid = os.getpid()
    running = RunningVm(
        pid=pid,
        pid_started=process_start(pid) or 0,
        accel=Accel.TCG,
        time=Time.VIRTUAL,
        cpus=1,
        memory_mib=1024,
        image=Image(tmp_path / "image"),
        kernel="7.3",
        shares=(Share("checkout", checkout()),),
        started=1.0,
        boot_seconds=1.0,
    )
    state.record.write_text(running.to_json(), encoding="utf-8")
    return state


@pytest.fixture
def topology() -> Topology:
    return fabric("pfc-ecn")


def follows(line: str) -> bool:
    return vm_routing.runs_in_vm(parsed(line))


def test_without_a_fabric_here_it_is_the_vms(machine: StateFolder) -> None:
    assert machine.running()
    for line in ("counters h1", "--debug status", "exec h1 -- ls", "craft cnp --send h1:eth1", "down", "qos show"):
        assert follows(line), line
    for line in ("up x.yaml", "ls", "doctor", "craft cnp", "analyze f", "down --all", "", "vm up"):
        assert not follows(line), line
    assert follows("exec h1 -- ls --help")
    assert follows("record start first")
    assert follows("record stop")
    assert not follows("record show first")
    assert not follows("record ls")
    assert not follows("qos plan")
    assert not follows("qos presets --diff sonic nvidia")


@pytest.mark.parametrize(
    "line",
    [
        "counters --all",
        "qos set --all pfc.rx=false",
        "fault heal --all",
        "counters --all --fabric x",
        "down --fabric x",
    ],
)
def test_all_is_of_the_fabric_wherever_it_runs(machine: StateFolder, line: str) -> None:
    """Only ``down --all`` is about this machine."""
    assert machine.running()
    assert follows(line)
    assert not follows("down --all")


def test_values_of_options_are_no_recordings(
    machine: StateFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders with the name of the command, of a fabric, of a number: only RUN names a recording."""
    for name in ("diagnose", "incast", "7", "recordings/x"):
        (tmp_path / "cd" / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "cd")
    assert machine.running()
    for line in ("diagnose", "diagnose --fabric incast", "diagnose --seconds 7", "diagnose --fabric x"):
        assert follows(line), line
    for line in ("diagnose incast", "diagnose --phase incast recordings/x", "diagnose x", "diagnose ./incast"):
        assert not follows(line), line


def test_options_are_understood_however_they_are_typed(machine: StateFolder) -> None:
    assert machine.running()
    for line in ("craft cnp --send=h1:eth1", "craft --send h1:eth1 cnp", "rdma bw h1 h4 --pair=h2:h4"):
        assert follows(line), line
    for line in ("craft cnp --output=--send", "craft cnp --dst h1 -o x.pcapng", "record --help", "record"):
        assert not follows(line), line


def test_with_a_fabric_here_only_others_are_the_vms(
    machine: StateFolder, topology: Topology, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(topology, tmp_path, monkeypatch)
    assert machine.running()
    assert not follows("counters h1")
    assert not follows(f"counters h1 --fabric {topology.name}")
    assert follows("counters h1 --fabric other")


@pytest.mark.parametrize("what", ["no record", "ended", "another checkout", "inside"])
def test_without_a_vm_everything_runs_here(
    machine: StateFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str
) -> None:
    running = machine.running()
    assert running
    if what == "no record":
        machine.record.unlink()
    elif what == "inside":
        monkeypatch.setenv("ROCELAB_IN_VM", "1")
    else:
        ended = replace(running, pid_started=1)
        elsewhere = replace(running, shares=(Share("checkout", tmp_path),))
        machine.record.write_text((ended if what == "ended" else elsewhere).to_json())
    assert not follows("counters h1")
    assert vm_routing.ask_vm("ls") is None


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    commands: list[list[str]] = []

    def send(command: list[str], _line: object) -> int:
        commands.append(command)
        return 3

    monkeypatch.setattr("lab.cli.kit.vm_call.send", send)
    return commands


@pytest.mark.parametrize(
    ("words", "variable", "goes"),
    [(["counters"], "", True), (["--no-vm", "counters"], "", False), (["counters"], "0", False)],
)
@pytest.mark.usefixtures("machine")
def test_who_says_where_is_obeyed(
    sent: list[list[str]], monkeypatch: pytest.MonkeyPatch, words: list[str], variable: str, goes: bool
) -> None:
    monkeypatch.setenv("ROCELAB_VM", variable)
    result = CliRunner().invoke(app, words)
    assert sent == ([["rocelab", "counters"]] if goes else [])
    assert result.exit_code == (3 if goes else 1)
    assert goes or isinstance(result.exception, UsageError)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, Any]]:
    """What the VM answers to a command line."""
    known: dict[str, tuple[int, Any]] = {}

    def ask(_state: StateFolder, _running: RunningVm, command: list[str]) -> tuple[int, bytes]:
        code, data = known[" ".join(command)]
        return code, json.dumps(data).encode()

    monkeypatch.setattr("lab.vm.calls.call.ask", ask)
    return known


def test_ls_has_both(
    machine: StateFolder,
    answers: dict[str, tuple[int, Any]],
    topology: Topology,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run(topology, tmp_path, monkeypatch)
    assert machine.running()
    there = {"fabric": "other", "state": "up", "nodes": 3, "place": "VM"}
    answers["rocelab ls --json"] = (0, [there])
    here = {"fabric": topology.name, "state": "up", "nodes": 0, "place": "here"}
    for words, expected in ((["ls", "--json"], [here, there]), (["--no-vm", "ls", "--json"], [here])):
        assert json.loads(CliRunner().invoke(app, words).stdout) == expected


def test_hosts_of_a_fabric_in_the_vm_are_known_to_filters(
    machine: StateFolder, answers: dict[str, tuple[int, Any]]
) -> None:
    assert machine.running()
    node = {"name": "h1", "addresses": ["10.0.0.1"]}
    answers["rocelab ls --json"] = (0, [{"fabric": "other"}])
    answers["rocelab inspect --json"] = (0, {"nodes": [node]})
    assert parse_filter("host h1", None, CAPTURE) == parse_filter("host 10.0.0.1", None, CAPTURE)
    with pytest.raises(UsageError, match="no node 'h2' in the fabric: there is h1"):
        parse_filter("host h2", None, CAPTURE)
    with pytest.raises(UsageError, match="no fabric x"):
        parse_filter("host h1", "x", CAPTURE)
    answers["rocelab inspect --json"] = (1, {})
    with pytest.raises(OperationFailed, match="the VM does not answer rocelab inspect"):
        parse_filter("host h1", None, CAPTURE)
    answers["rocelab ls --json"] = (0, [])
    with pytest.raises(UsageError, match="no fabric is running to look up 'h1'"):
        parse_filter("host h1", None, CAPTURE)


def test_usage_errors_of_the_vm_are_reported(machine: StateFolder, answers: dict[str, tuple[int, Any]]) -> None:
    assert machine.running()
    answers["rocelab ls --json"] = (0, [{"fabric": "one"}, {"fabric": "two"}])
    error = UsageError("2 fabrics run", "say which with --fabric: one, two")
    answers["rocelab inspect --json"] = (2, {"error": error.as_data()})
    with pytest.raises(UsageError, match="2 fabrics run: say which with --fabric: one, two"):
        parse_filter("host h1", None, CAPTURE)
    unreadables: list[Any] = [{"error": {}}, "Usage: rocelab inspect"]
    for unreadable in unreadables:
        answers["rocelab inspect --json"] = (2, unreadable)
        with pytest.raises(UsageError, match="the VM rejects rocelab inspect"):
            vm_routing.ask_vm("inspect")
