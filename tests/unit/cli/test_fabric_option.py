"""``--fabric`` is one option: every command about a fabric that runs has it, means the same, and answers alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

from lab.cli.app import Commands, app
from lab.cli.vm_routing import _ABOUT_A_FABRIC, _RUNS
from lab.errors import UsageError
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng, records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typer._click.core import Command

CAPTURE: Final = "CAPTURE"
WORDS: Final[dict[str, str]] = {
    "path": "h1 h2",
    "exec": "h1 -- true",
    "shell": "h1",
    "vtysh": "leaf1",
    "rdma bw": "h1 h2",
    "rdma lat": "h1 h2",
    "qos set": "leaf1 pfc.rx=false",
    "scenario check": "--cause link-loss --where leaf1",
    "fault inject": "link-loss leaf1--spine1",
    "fault heal": "1",
    "expect": "drops==0",
    "capture": "leaf1 -o - --seconds 1",
    "craft": "pfc --send h1:eth1",
    "record start": "-o run",
    "top": "--stream",
    "dissect": f"{CAPTURE} --filter host==h1",
    "analyze": f"{CAPTURE} --filter host==h1",
}
"""What a command needs besides."""
OF_FILES: Final = {"qos presets", "qos plan", "fault show", "record ls", "record show",
                   "scenario break", "scenario score", "scenario ls",
                   "scenario show", "scenario lint", "scenario run", "scenario judge"}  # fmt: skip
"""About recordings, values and descriptions; ``break`` and ``run`` bring a fabric up by themselves."""


def walk(command: Command, *path: str) -> Iterator[tuple[str, Command]]:
    if isinstance(command, TyperGroup):
        context = typer.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from walk(below, *path, name)
    else:
        yield " ".join(path), command


EVERY: Final = dict(walk(Commands(name="rocelab")))
WITH_FABRIC: Final = [
    path for path, command in EVERY.items() if "--fabric" in {o for p in command.params for o in p.opts}
]


def test_every_command_about_a_fabric_that_runs_has_it() -> None:
    about = {path for path in EVERY if path.split()[0] in _ABOUT_A_FABRIC}
    assert about - OF_FILES == set(WITH_FABRIC) - {"dissect", "analyze"}
    assert {path for path in OF_FILES if path.split()[1] in _RUNS.get(path.split()[0], ())} == {"scenario break"}


@pytest.mark.parametrize("path", WITH_FABRIC)
def test_it_is_declared_alike(path: str) -> None:
    (option,) = [parameter for parameter in EVERY[path].params if "--fabric" in parameter.opts]
    assert option.opts == ["--fabric"]
    assert not option.secondary_opts
    assert not option.required
    assert option.default is None
    assert option.metavar == ("NAME|FILE" if path in {"dissect", "analyze"} else "NAME")
    assert not any("--name" in parameter.opts for parameter in EVERY[path].params)


@pytest.mark.parametrize("path", WITH_FABRIC)
def test_one_that_does_not_run_is_answered_alike(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.pcapng"
    file.write_bytes(pcapng(records([packets.send(1)])))
    monkeypatch.chdir(tmp_path)
    words = WORDS.get(path, "").replace(CAPTURE, str(file)).split()
    end = words.index("--") if "--" in words else len(words)
    argv = [*path.split(), *words[:end], "--fabric", "nosuch", *words[end:]]
    done = CliRunner().invoke(app, argv)
    assert isinstance(done.exception, UsageError), (argv, done.output, done.exception)
    assert str(done.exception).startswith("no fabric nosuch: ")
