"""The command registry against the commands: every entry is true, and every command has one."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest
from typer.core import TyperGroup

from lab.cli.command_entry import TargetByOption
from lab.cli.command_registry import COMMANDS, all_functions, find_command, walk
from lab.cli.schemas import ANSWERS, adapter
from tests.command_line import ROCELAB, every_command, parsed

ROOT: Final = Path(__file__).parents[3]
EVERY: Final = dict(every_command())
ENTRIES: Final = dict(walk())
PAGES: Final = " ".join(
    word
    for page in (ROOT / "README.md", *(ROOT / "lab/docs").glob("*.md"))
    for word in page.read_text(encoding="utf-8").split()
)


def options(path: str) -> set[str]:
    return {option for parameter in EVERY[path].params for option in parameter.opts}


def test_the_registry_has_the_commands_that_there_are() -> None:
    assert set(ENTRIES) == set(EVERY)
    assert isinstance(ROCELAB, TyperGroup)


def test_each_function_is_there() -> None:
    for name, function in all_functions():
        module, _, attribute = function.partition(":")
        assert hasattr(import_module(f"lab.cli.{module}"), attribute), name


@pytest.mark.parametrize("path", ENTRIES)
def test_a_command_has_help_and_is_documented(path: str) -> None:
    assert len((EVERY[path].help or "").split()) > 2
    assert re.search(rf"\brocelab (?:--?[\w-]+ )*{path}\b", PAGES), f"no page names rocelab {path}"


@pytest.mark.parametrize("path", ENTRIES)
def test_a_command_with_json_has_models_of_its_answers(path: str) -> None:
    entry = ENTRIES[path]
    assert ("" in entry.answers) == ("--json" in options(path))
    assert set(entry.answers) - {""} <= options(path)
    for option in entry.answers:
        assert adapter(f"{path} {option}".rstrip()).json_schema()


def test_no_answer_is_of_a_command_that_is_not_there() -> None:
    assert {name.partition(" --")[0] for name in ANSWERS} - {"error"} <= set(ENTRIES)


@pytest.mark.parametrize("path", ENTRIES)
def test_parameters_that_an_entry_names_are_the_command_s(path: str) -> None:
    entry = ENTRIES[path]
    named = {entry.attended_option} - {""}
    if isinstance(entry.target, TargetByOption):
        named.add(entry.target.parameter)
    assert named <= {parameter.name for parameter in EVERY[path].params}
    if {"--watch", "--follow"} & options(path):
        assert entry.attended_option, "its user watches: a second must last a second"


@pytest.mark.parametrize("path", ENTRIES)
def test_what_follows_a_run_in_the_vm_takes_the_folder(path: str) -> None:
    if function := ENTRIES[path].after_vm:
        module, _, name = function.partition(":")
        assert len(inspect.signature(getattr(import_module(f"lab.cli.{module}"), name)).parameters) == 1


def test_groups_have_no_options_of_their_own() -> None:
    """The words of a command begin behind its name: see ``CommandLine.arguments``."""
    for path in EVERY:
        command = ROCELAB
        for name in path.split()[:-1]:
            assert isinstance(command, TyperGroup)
            below = command.get_command(command.make_context("rocelab", [], resilient_parsing=True), name)
            assert below is not None
            assert [parameter.name for parameter in below.params] == []
            command = below


def test_only_up_is_kept_as_a_checkpoint() -> None:
    """``auto_checkpoint.work_of`` hashes the words and files of an ``up``."""
    assert [path for path, entry in ENTRIES.items() if entry.checkpointed] == ["up"]
    for line in ("ls", "down up", "no-such-command up", ""):
        assert not parsed(line).entry.checkpointed


def test_entries_are_found_by_their_path() -> None:
    assert find_command(["vm", "checkpoint", "ls"]) is ENTRIES["vm checkpoint ls"]
    assert find_command(["fault"]) is COMMANDS["fault"]
    assert find_command(["fault", "nosuch"]) is find_command(["nosuch"]) is None
    assert find_command([]) is None
