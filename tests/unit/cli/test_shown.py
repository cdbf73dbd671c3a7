"""Every command that README and the pages show is one that rocelab takes, with these options; short ones are run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import typer
from typer.core import TyperGroup

from lab.cli.app import app
from lab.cli.typer_internals import MisusedCommand
from lab.errors import LabError
from tests.shown import PAGES, README, ROOT, blocks, commands, headers, wheel_commands

if TYPE_CHECKING:
    from pathlib import Path

_GLOBAL = {"--vm", "--no-vm", "--debug"}
_CALL = re.compile(r"(sudo )?rocelab ")
_LEFT_OPEN = re.compile(r"\.\.\.|\[-")
"""Lines that show what can be there, and not what is typed."""
_SHORT = (
    "rocelab docs", "rocelab --help", "rocelab scenario ls", "rocelab fault ls --kinds", "rocelab doctor",
    "rocelab topology ", "rocelab examples ", "rocelab docs ",
)  # fmt: skip
"""Commands that need neither a fabric nor the VM."""


def refusal(line: str) -> str:
    """What Typer has against a command line; nothing of it is run, and files need not be there."""
    words = shlex.split(re.split(r" (?:>>?|[|&]) | &$", line)[0], comments=True)
    words = words[words.index("rocelab") + 1 :]
    while words and words[0] in _GLOBAL:
        words.pop(0)
    command = typer.main.get_command(app)
    context = typer.Context(command, info_name="rocelab", resilient_parsing=True)
    if words[:1] in (["--help"], ["--version"], []):
        return ""
    try:
        while isinstance(command, TyperGroup) and words:
            name, *words = words
            found = command.get_command(context, name)
            if found is None:
                return f"no command {name}"
            command = found
            if not isinstance(command, TyperGroup):
                command.make_context(name, list(words), parent=None)
            else:
                context = typer.Context(command, info_name=name, parent=context, resilient_parsing=True)
    except (MisusedCommand, LabError) as error:
        return "" if "does not exist" in str(error) else str(error)
    return ""


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.stem)
def test_every_command_shown_is_taken(page: Path) -> None:
    shown = [line for line in commands(page.read_text(encoding="utf-8")) if _CALL.match(line)]
    refused = {line: said for line in shown if not _LEFT_OPEN.search(line) and (said := refusal(line))}
    assert refused == {}


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.stem)
def test_fabrics_are_brought_up_where_rdma_works(page: Path) -> None:
    """Without ``--vm``, ``up`` is an error on most machines: their kernel has no RDMA in namespaces."""
    shown = [line for line in commands(page.read_text(encoding="utf-8")) if line.startswith("rocelab up ")]
    assert [line for line in shown if "--backend containerlab" not in line] == []


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.stem)
def test_a_capture_in_the_background_ends_before_it_is_read(page: Path) -> None:
    """A file of the VM is copied back when the capture ends."""
    for block in blocks(page.read_text(encoding="utf-8")):
        begun = [line for line in block if line.startswith("rocelab capture ") and line.endswith("&")]
        assert not begun or (all("--seconds" in line for line in begun) and "wait" in block), block


def test_an_option_that_is_not_there_is_noticed() -> None:
    assert refusal("rocelab --vm rdma bw h1 h4 --duration 2") == ""
    assert "--durations" in refusal("rocelab rdma bw h1 h4 --durations 2")
    assert refusal("rocelab frobnicate")


def test_the_readme_has_commands_and_is_a_door() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    shown = commands(text)
    assert {"./scripts/setup", ". .venv/bin/activate", "rocelab doctor"} <= set(shown)
    assert len(shown) > 15
    assert headers(text)


def test_the_page_about_installation_has_what_a_newcomer_types() -> None:
    """The long test of a wheel types these."""
    shown = wheel_commands()
    assert [line for line in shown if line.startswith("rocelab --vm up ")]
    assert {"rocelab record start first", "rocelab report first"} <= set(shown)


def short(text: str) -> list[str]:
    """Those of its commands that are run here, in their order."""
    return [line for block in blocks(text) for line in block if line.startswith(_SHORT)]


@pytest.mark.parametrize("page", ["README.md", "lab/docs/quickstart.md"])
def test_short_commands_work_as_shown(page: str, tmp_path: Path) -> None:
    """In an empty folder, with the command of this environment on the PATH."""
    environment = {**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}  # noqa: PTH120
    lines = short((ROOT / page).read_text(encoding="utf-8"))
    assert lines
    for line in lines:
        done = subprocess.run(
            shlex.split(line), cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (line, done.stderr)
        assert done.stdout or done.stderr
