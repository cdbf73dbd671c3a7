"""``--vm`` sends the command line away as it was typed, except for itself; ``rocelab vm`` stays on the host."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lab.cli import app
from lab.cli.machine import vm
from lab.vm.host.qemu import Time
from lab.vm.host.vm_state import RunningVm


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Command lines that went to the VM, which answers each with exit code 3."""
    commands: list[list[str]] = []

    def send(command: list[str], name: str | None = None) -> int:  # noqa: ARG001
        commands.append(command)
        return 3

    monkeypatch.setattr(vm, "send", send)
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
        (["--vm", "no-such-command"], ["rocelab", "no-such-command"]),
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
    ("words", "took", "told"),
    [
        (["rocelab", "up", "x.yaml"], (Time.VIRTUAL, 219.4), "vm: took 219 s by your clock"),
        (["rocelab", "--debug", "scenario", "run", "x"], (Time.VIRTUAL, 10), "vm: took 10 s by your clock"),
        (["rocelab", "up", "x.yaml"], (Time.VIRTUAL, 9), ""),
        (["rocelab", "up", "x.yaml"], (Time.HOST, 219), ""),
        (["rocelab", "exec", "h1", "--", "mtr", "h2"], (Time.VIRTUAL, 219), ""),
        (["pytest"], (Time.VIRTUAL, 219), ""),
    ],
)
def test_who_waited_for_virtual_time_learns_how_long(
    running: RunningVm, capsys: pytest.CaptureFixture[str], words: list[str], took: tuple[Time, float], told: str
) -> None:
    vm._tell_time(words, replace(running, time=took[0]), took[1])
    said = capsys.readouterr().err
    assert said.startswith(told)
    assert bool(said) == bool(told)
