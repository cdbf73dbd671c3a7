"""Typer's private names are in one module, and this version of Typer has them."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from typing import Final

import pytest
import typer
from typer.testing import CliRunner

from lab.cli import typer_internals
from lab.cli.app import app
from lab.errors import UsageError

ROOT: Final = Path(__file__).parents[3]
NAMES: Final = {
    "typer._click.core": ("Command", "Context"),
    "typer._click.exceptions": ("BadParameter", "NoArgsIsHelpError", "UsageError"),
    "typer._click.globals": ("get_current_context",),
    "typer._coercion": ("RuntimeParam", "TypeDescriptor", "build_runtime_param"),
    "typer._param_types": ("coerce_cli_path",),
    "typer.core": ("TyperGroup", "_TyperParameter"),
}
"""What ``lab.cli.typer_internals`` imports."""
PRIVATE: Final = re.compile(
    r"typer\._\w+|\b_protected_args\b|\b_runtime_param\b|\b_coerce_value\b|\b_TyperParameter\b"
)


def lost(module: str, names: tuple[str, ...]) -> str:
    """What an upgrade of Typer has taken away; "" when everything is there."""
    try:
        found = importlib.import_module(module)
    except ImportError:
        return f"Typer {typer.__version__} has no module {module}: adapt lab/cli/typer_internals.py"
    missing = [name for name in names if not hasattr(found, name)]
    return (
        f"{module} of Typer {typer.__version__} has no {missing}: adapt lab/cli/typer_internals.py" if missing else ""
    )


@pytest.mark.parametrize("module", NAMES)
def test_typer_has_the_names_that_rocelab_uses(module: str) -> None:
    assert lost(module, NAMES[module]) == ""


def test_a_name_that_typer_has_lost_is_reported_with_the_file_to_adapt() -> None:
    assert "no module typer._clock: adapt lab/cli/typer_internals.py" in lost("typer._clock", ())
    assert "has no ['Ghost']: adapt" in lost("typer.core", ("Ghost",))


def test_these_are_the_names_that_are_imported() -> None:
    tree = ast.parse(Path(typer_internals.__file__).read_text(encoding="utf-8"))
    imported = {
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {pair for pair in imported if str(pair[0]).startswith("typer")} == {
        (module, name) for module, names in NAMES.items() for name in names
    }


def test_no_other_module_uses_them() -> None:
    own = Path(typer_internals.__file__)
    files = [path for folder in ("lab", "scripts") for path in (ROOT / folder).rglob("*.py") if path != own]
    users = [str(path.relative_to(ROOT)) for path in files if PRIVATE.search(path.read_text(encoding="utf-8"))]
    assert users == []


def test_a_group_keeps_the_words_of_its_subcommand_where_they_are_expected() -> None:
    """``Context._protected_args`` has no public reader."""
    app = typer.Typer()
    app.command("one")(lambda: None)
    app.command("two")(lambda: None)
    group = typer.main.get_command(app)
    context = group.make_context("app", ["one", "--flag", "word"], resilient_parsing=True)
    assert typer_internals.remaining_words(context) == ["one", "--flag", "word"]


def test_the_parser_keeps_the_places_of_words() -> None:
    """It only slices and splits them, and converts values by the hook that ``PlainValue`` replaces."""
    app = typer.Typer(add_completion=False)

    @app.command()
    def take(name: str, more: list[str], output: str = typer.Option("x", "-o", "--output")) -> None:
        """Take one of every kind."""

    command = typer.main.get_command(app)
    typer_internals.convert_without_pydantic(command, typer.Context(command))
    for words, place in (("a b c --output=d", 3), ("a -od b c", 1), ("-o d a b c", 1)):
        typed = [typer_internals.TypedWord(word, number) for number, word in enumerate(words.split())]
        context = command.make_context("take", list(typed))
        assert context.params == {"name": "a", "more": ["b", "c"], "output": "d"}
        assert type(context.params["name"]) is str
        output, *_ = (each for each in command.params if each.name == "output")
        assert [(str(word), word.place) for word in typer_internals.typed_words(context, output)] == [("d", place)]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999", "1e308", "-1e10"])
@pytest.mark.parametrize("words", [("record", "start", "run", "--hz"), ("compare", "a", "b", "--threshold")])
def test_a_number_that_no_clock_counts_to_is_a_usage_error(words: tuple[str, ...], value: str) -> None:
    done = CliRunner().invoke(app, [*words[:-1], f"{words[-1]}={value}"])
    assert done.exit_code == 2
    assert words[-1] in done.output


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999", "1e308", "-1e10", "9999999999"])
@pytest.mark.parametrize(
    "words",
    [
        ("diagnose", "run", "--from"),
        ("compare", "a", "b", "--until"),
        ("capture", "h1", "-o", "f.pcapng", "--seconds"),
    ],
)
def test_a_time_that_no_clock_counts_to_is_a_usage_error(words: tuple[str, ...], value: str) -> None:
    refused = CliRunner().invoke(app, [*words[:-1], f"{words[-1]}={value}"]).exception
    assert isinstance(refused, UsageError)
    assert refused.message.startswith(words[-1])
