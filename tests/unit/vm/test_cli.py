"""``--vm`` sends the command line away as it was typed, except for itself; ``rocelab vm`` stays on the host."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from typer.testing import CliRunner

from lab.cli import app
from lab.cli.command_line import CommandLine
from lab.cli.kit import vm_call
from lab.cli.machine import vm
from lab.errors import OperationFailed
from lab.vm.checkpoints.auto_checkpoint import Touch
from lab.vm.host import vm_lifecycle
from lab.vm.host.qemu import Time
from lab.vm.host.vm_state import RunningVm
from tests.command_line import parsed


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Command lines that went to the VM, which answers each with exit code 3."""
    commands: list[list[str]] = []

    def send(command: list[str], _line: CommandLine) -> int:
        commands.append(command)
        return 3

    monkeypatch.setattr("lab.cli.kit.vm_call.send", send)
    monkeypatch.setenv("ROCELAB_VM_STATE", str(tmp_path))
    monkeypatch.delenv("ROCELAB_VM", raising=False)
    monkeypatch.delenv("ROCELAB_IN_VM", raising=False)
    return commands


def rocelab(monkeypatch: pytest.MonkeyPatch, *words: str) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["rocelab", *words])
    monkeypatch.setattr("lab.cli.app.signal.signal", lambda *_: None)
    with pytest.raises(SystemExit) as end:
        app.main()
    return end.value.code


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["--vm", "up", "a b.yaml"], ["rocelab", "up", "a b.yaml"]),
        (["--debug", "--vm", "ls", "--json"], ["rocelab", "--debug", "ls", "--json"]),
        (["--vm", "exec", "h1", "--", "x", "--vm"], ["rocelab", "exec", "h1", "--", "x", "--vm"]),
        (["--vm", "scenario", "run", "x"], ["rocelab", "scenario", "run", "x"]),
    ],
)
def test_command_goes_to_the_vm(
    monkeypatch: pytest.MonkeyPatch, sent: list[list[str]], words: list[str], command: list[str]
) -> None:
    assert rocelab(monkeypatch, *words) == 3
    assert sent == [command]


@pytest.mark.parametrize("line", ["up --help", "rdma bw h1 --help", "exec --help"])
def test_no_vm_is_started_to_help(
    monkeypatch: pytest.MonkeyPatch, sent: list[list[str]], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rocelab(monkeypatch, "--vm", *line.split()) == 0
    assert not sent
    assert "Usage: rocelab" in capsys.readouterr().out


@pytest.mark.parametrize("line", ["exec h1 ls --help", "exec h1 -- ls --help"])
def test_help_of_a_program_is_that_of_the_node(
    monkeypatch: pytest.MonkeyPatch, sent: list[list[str]], line: str
) -> None:
    assert rocelab(monkeypatch, "--vm", *line.split()) == 3
    assert sent == [["rocelab", *line.split()]]


@pytest.mark.parametrize("line", ["no-such-command", "up", "up x --no-such-option", "rdma bw h1 h4 --qps many"])
def test_no_vm_is_started_for_a_command_line_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch, sent: list[list[str]], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rocelab(monkeypatch, "--vm", *line.split()) == 2
    assert not sent
    assert capsys.readouterr().err.startswith("error: ")


def test_variable_does_what_the_option_does(monkeypatch: pytest.MonkeyPatch, sent: list[list[str]]) -> None:
    monkeypatch.setenv("ROCELAB_VM", "1")
    assert rocelab(monkeypatch, "ls") == 3
    assert sent == [["rocelab", "ls"]]


def test_vm_commands_stay_on_the_host(
    monkeypatch: pytest.MonkeyPatch, sent: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert rocelab(monkeypatch, "--vm", "vm", "status", "--json") == 0
    assert not sent
    assert json.loads(capsys.readouterr().out)["up"] is False


def test_inside_the_vm_the_option_does_nothing(
    monkeypatch: pytest.MonkeyPatch, sent: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROCELAB_IN_VM", "1")
    assert rocelab(monkeypatch, "--vm", "no-such-command") == 2
    assert not sent
    assert "there is no command" in capsys.readouterr().err


def test_inside_the_vm_there_is_no_vm(
    monkeypatch: pytest.MonkeyPatch, sent: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROCELAB_IN_VM", "1")
    assert rocelab(monkeypatch, "vm", "up") == 2
    assert not sent
    assert "this is the VM" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "took", "told"),
    [
        ("up x.yaml", (Time.VIRTUAL, 219.4), "vm: took 219 s by your clock"),
        ("--debug scenario run x", (Time.VIRTUAL, 10), "vm: took 10 s by your clock"),
        ("up x.yaml", (Time.VIRTUAL, 9), ""),
        ("up x.yaml", (Time.HOST, 219), ""),
        ("exec h1 -- mtr h2", (Time.VIRTUAL, 219), ""),
    ],
)
def test_how_long_a_command_took_in_virtual_time_is_reported(
    running: RunningVm, capsys: pytest.CaptureFixture[str], line: str, took: tuple[Time, float], told: str
) -> None:
    vm_call._report_wait(parsed(line), replace(running, time=took[0]), took[1])
    printed = capsys.readouterr().err
    assert printed.startswith(told)
    assert bool(printed) == bool(told)


@pytest.mark.parametrize(
    ("words", "terminal", "attended"),
    [
        ("rocelab up x.yaml", True, False),
        ("rocelab counters --watch", True, True),
        ("rocelab counters --watch", False, True),
        ("rocelab counters", True, False),
        ("rocelab qos events --follow", False, True),
        ("rocelab top --stream --hz 20", False, True),
        ("rocelab capture h1 --seconds 10", False, True),
        ("rocelab craft pfc --pace 100 --send h4:eth1", False, True),
        ("rocelab rdma bw h1 h4", True, False),
        ("rocelab rdma bw exec capture", True, False),
        ("rocelab exec h1 ping h2", False, False),
        ("rocelab exec h1 ping h2", True, True),
        ("rocelab record shell", True, True),
        ("bash", True, True),
        ("bash -l", False, False),
        ("pytest tests/vm", True, False),
    ],
)
def test_a_second_lasts_a_second_for_a_command_that_somebody_attends(
    monkeypatch: pytest.MonkeyPatch, words: str, terminal: bool, attended: bool
) -> None:
    monkeypatch.setattr(vm_call, "on_terminal", lambda: terminal)
    argv = words.split()
    line = parsed(argv[1:]) if argv[0] == "rocelab" else None
    assert vm_call.is_attended(argv, line) is attended


@pytest.mark.parametrize(
    ("words", "sent", "files", "attended"),
    [
        ("--debug --vm capture h1 -o x.pcapng", "--debug capture h1 -o x.pcapng", [("x.pcapng", (5,))], True),
        ("--vm --debug craft cnp -op.pcapng", "--debug craft cnp -op.pcapng", [("p.pcapng", (4,))], True),
        ("--vm up x.yaml", "up x.yaml", [("x.yaml", (2,))], False),
        ("vm run -- rocelab --debug capture h1 -o x", "--debug capture h1 -o x", [("x", (5,))], True),
        ("vm run -- rocelab --vm up x.yaml", "--vm up x.yaml", [("x.yaml", (3,))], False),
        ("vm run -- rocelab no-such-command", "no-such-command", [], False),
    ],
)
def test_files_and_attendance_come_from_the_parsed_command_line(  # noqa: PLR0917 - one case
    running: RunningVm,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: str,
    sent: str,
    files: list[tuple[str, tuple[int, ...]]],
    attended: bool,
) -> None:
    calls: list[tuple[list[str], list[tuple[str, tuple[int, ...] | None]], bool]] = []

    def call(*given: Any, attended: bool) -> int:
        _, _, command, named, _ = given
        calls.append((command, [(file.text, file.places) for file in named], attended))
        return 3

    monkeypatch.setenv("ROCELAB_VM_STATE", str(tmp_path))
    monkeypatch.delenv("ROCELAB_VM", raising=False)
    monkeypatch.delenv("ROCELAB_IN_VM", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").touch()  # it is looked for before a VM is started
    monkeypatch.setattr(vm_call, "call", call)
    monkeypatch.setattr("lab.vm.host.vm_lifecycle.up", lambda *_: running)
    monkeypatch.setattr("lab.vm.host.vm_lifecycle.touch", lambda *_: Touch("", "", done=False))
    assert rocelab(monkeypatch, *words.split()) == 3
    ((command, named, was_attended),) = calls
    assert (command, named, was_attended) == (["rocelab", *sent.split()], files, attended)


def test_an_up_that_a_checkpoint_holds_is_told_so(
    running: RunningVm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands: list[list[str]] = []

    def call(*given: Any, attended: bool) -> int:  # noqa: ARG001 - as the real one
        commands.append(given[2])
        return 3

    works: list[str] = []

    def touch(_running: object, work: str, *_: object) -> Touch:
        works.append(work)
        return Touch(work, "", done=bool(work))

    monkeypatch.setenv("ROCELAB_VM_STATE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").touch()  # it is looked for before a VM is started
    monkeypatch.setattr(vm_call, "call", call)
    monkeypatch.setattr("lab.vm.host.vm_lifecycle.up", lambda *_: running)
    monkeypatch.setattr("lab.vm.host.vm_lifecycle.touch", touch)
    for line in ("up x.yaml", "ls", "status"):
        assert vm_call.send(parsed(line).argv, parsed(line)) == 3
    assert [bool(work) for work in works] == [True, False, False]
    assert commands == [["rocelab", "up", "x.yaml", "--restored"], ["rocelab", "ls"], ["rocelab", "status"]]


def test_scores_are_fetched_after_a_scenario_has_run_in_the_vm(
    running: RunningVm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folders: list[Path] = []
    monkeypatch.setenv("ROCELAB_VM_STATE", str(tmp_path))
    monkeypatch.setattr(vm_call, "call", lambda *_, attended: 3 + attended)
    monkeypatch.setattr("lab.vm.host.vm_lifecycle.up", lambda *_: running)
    monkeypatch.setattr("lab.vm.host.vm_lifecycle.touch", lambda *_: Touch("", "", done=False))
    monkeypatch.setattr("lab.cli.incidents.scores.collect", folders.append)
    for line in ("scenario check --cause link-loss --where leaf1", "status"):
        assert vm_call.send(parsed(line).argv, parsed(line)) == 3
    assert folders == [running.guest_cache]


@pytest.mark.parametrize(
    ("words", "up", "told"),
    [
        ((), [], "VM was not up\n"),
        (("--name", "hid"), [], "VM hid was not up\n"),
        (("--name", "hid"), ["", "hide"], "VM hid was not up; up: the VM without a name, --name hide\n"),
    ],
)
def test_a_mistyped_name_of_a_vm_to_stop_is_shown_with_those_that_are_up(
    words: tuple[str, ...], up: list[str], told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A VM that is down already is no error, so that scripts can clean up."""
    monkeypatch.setenv("ROCELAB_VM_STATE", str(tmp_path / "vm"))
    monkeypatch.setattr("lab.cli.machine.vm.all_running", lambda: dict.fromkeys(up))
    done = CliRunner().invoke(vm.app, ["down", *words])
    assert (done.exit_code, done.stdout) == (0, told)


def test_no_vm_is_started_for_a_topology_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Building and starting one can take minutes. One that is up answers by itself."""
    started: list[object] = []

    def up(*_: object) -> NoReturn:
        started.append(1)
        raise OperationFailed("would start")

    monkeypatch.setenv("ROCELAB_VM_STATE", str(tmp_path))
    monkeypatch.setattr(vm_lifecycle, "up", up)
    monkeypatch.chdir(tmp_path)
    assert rocelab(monkeypatch, "--vm", "up", "mine.yaml") == 2
    assert "there is no file mine.yaml" in capsys.readouterr().err
    assert started == []
    Path("mine.yaml").write_text("name: mine", encoding="utf-8")
    assert rocelab(monkeypatch, "--vm", "up", "mine.yaml") == 1
    assert started == [1]
