"""Every command explains itself, and what the README names is there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

from lab.cli.app import app
from lab.cli.command_groups import Commands
from lab.cli.command_registry import COMMANDS

README = Path(__file__).parents[3] / "README.md"
_SHOWN = re.compile(r"^(?:\$ |# )?(?:sudo )?rocelab ((?:--?\w[\w-]* )*)(\w[\w-]*)(?: (\w[\w-]*))?", re.MULTILINE)


def commands(name: str) -> Iterator[tuple[str, ...]]:
    """A command of the table, and those below it."""
    context = typer.Context(typer.main.get_command(app))
    command = Commands(name="rocelab").get_command(context, name)
    assert command is not None
    yield (name,)
    if isinstance(command, TyperGroup):
        yield from ((name, below) for below in command.list_commands(context))


def shown(text: str) -> list[tuple[str, str]]:
    """The calls of rocelab in the code blocks of ``text``: command, and the word after it."""
    blocks = text.split("```")[1::2]
    return [(name, below) for block in blocks for _, name, below in _SHOWN.findall(block)]


def unknown_commands(text: str) -> list[str]:
    """What ``text`` shows that the command line has not got."""
    missing = []
    for name, below in shown(text):
        if name not in COMMANDS:
            missing.append(name)
            continue
        known = {path[1] for path in commands(name) if len(path) > 1}
        if known and below and below not in known:
            missing.append(f"{name} {below}")
    return missing


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_explains_itself(name: str) -> None:
    for path in commands(name):
        said = CliRunner().invoke(app, [*path, "--help"], prog_name="rocelab")
        assert said.exit_code == 0, said.output
        assert f"rocelab {' '.join(path)}" in said.stdout


@pytest.mark.parametrize("name", list(COMMANDS))
def test_no_help_loses_words_as_markup(name: str) -> None:
    """In help texts [words] are styles, and vanish: what is to be read is escaped."""
    context = typer.Context(typer.main.get_command(app))
    command = Commands(name="rocelab").get_command(context, name)
    below = [command]
    if isinstance(command, TyperGroup):
        below = [command.get_command(context, each) for each in command.list_commands(context)]
    for parameter in (parameter for one in below if one is not None for parameter in one.params):
        assert not re.search(r"(?<!\\)\[(?!/|bold)", getattr(parameter, "help", None) or ""), parameter


@pytest.mark.parametrize(
    ("words", "default"),
    [
        ("rdma bw", "[default: 5s]"),
        ("rdma bw", "[default: the largest]"),
        ("topology new clos", "[default: 1Gbit]"),
        ("topology new clos", "[default: the name of the -o file, otherwise my-fabric]"),
        ("counters", "[default: every port]"),
        ("craft", "[default: (3=65535)]"),
        ("craft", "[default: (rc)]"),
    ],
)
def test_help_tells_defaults(words: str, default: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    said = CliRunner().invoke(app, [*words.split(), "--help"]).stdout
    assert default in said


def test_the_examples_of_craft_can_be_crafted() -> None:
    said = CliRunner().invoke(app, ["craft", "--help"], env={"COLUMNS": "200"}).stdout
    examples = re.findall(r"craft ((?:[a-z-]+)(?: --[a-z-]+(?: [^ -][^ ]*)?)+)", said.split("Options")[0])
    assert len(examples) >= 9
    for example in examples:
        words = re.sub(r" --(?:send|pace) [^ ]+", "", example).split()
        done = CliRunner().invoke(app, ["craft", *words])
        assert done.exit_code == 0, (example, done.output)


def test_the_list_of_commands_explains_each() -> None:
    said = CliRunner().invoke(app, ["--help"])
    assert said.exit_code == 0
    for name in COMMANDS:
        row = next(line for line in said.stdout.splitlines() if re.match(rf"\W*{name}\s", line))
        assert len(row.strip(" │").split()) > 2, f"{name} has no summary"


def test_the_readme_names_commands_that_exist() -> None:
    text = README.read_text(encoding="utf-8")
    assert {"doctor", "up", "rdma", "down"} <= {name for name, _ in shown(text)}
    assert unknown_commands(text) == []


def test_a_command_that_does_not_exist_is_noticed() -> None:
    right = "$ rocelab --vm up x.yaml\nsudo rocelab vm up\n"
    text = f"rocelab is prose\n```\n{right}$ rocelab frobnicate now\nrocelab vm explode\n```\nrocelab too\n"
    assert unknown_commands(text) == ["frobnicate", "vm explode"]
