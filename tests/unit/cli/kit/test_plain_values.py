"""Values of the command line without pydantic: the same as Typer makes them, for those who do not wait for it."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import Annotated, Any

import pytest
import typer

from lab.cli.typer_internals import MisusedCommand, convert_without_pydantic
from lab.kernel.process.process import run
from tests.unit.analysis.captures import pcapng, records
from tests.unit.analysis.stories import swapped

AFTERWARDS = """
import atexit, runpy, sys
atexit.register(lambda: sys.stderr.write("needed" if "pydantic" in sys.modules else "spared"))
runpy.run_module("lab", run_name="__main__")
"""


class Colour(Enum):
    """What may be chosen."""

    RED = "red"
    BLUE = "blue"


def _app(taken: list[Any]) -> typer.Typer:
    app = typer.Typer(add_completion=False)

    @app.command()
    def take(  # noqa: PLR0917 - one of every kind
        place: Path,
        more: Annotated[list[str] | None, typer.Argument()] = None,
        text: str = "by default",
        count: int = 3,
        numbers: Annotated[list[int] | None, typer.Option(min=1)] = None,
        bounded: Annotated[int, typer.Option(min=1, max=5)] = 2,
        share: float = 0.5,
        colour: Colour = Colour.RED,
        there: Annotated[Path | None, typer.Option(exists=True, dir_okay=False)] = None,
        parsed: Annotated[int | None, typer.Option(parser=lambda word: int(word, 16))] = None,
        flag: Annotated[bool | None, typer.Option("--flag/--no-flag", envvar="FLAG_OF_THE_TEST")] = None,
    ) -> None:
        taken[:] = [place, more, text, count, numbers, bounded, share, colour, there, parsed, flag]

    return app


def _answer(words: list[str], *, plainly: bool) -> list[Any] | str:
    taken: list[Any] = []
    command = typer.main.get_command(_app(taken))
    if plainly:
        convert_without_pydantic(command, typer.Context(command))
    try:
        command.main(words, prog_name="take", standalone_mode=False)
    except MisusedCommand as error:
        return error.format_message()
    return taken


@pytest.mark.parametrize(
    "words",
    [
        ["x"],
        ["./x", "one", "two", "--text", "", "--count", "12", "--share", "7"],
        ["x", "--bounded", "5"],
        ["x", "--numbers", "5", "--numbers", "6"],
        ["x", "--colour", "blue"],
        ["x", "--there", sys.executable],
        ["x", "--there", "/nowhere/at/all"],
        ["x", "--there", "/"],
        ["x", "--parsed", "ff"],
        ["x", "--flag"],
        ["x", "--no-flag"],
        [],
    ],
)
def test_every_value_and_every_complaint_without_a_value_is_typers(words: list[str]) -> None:
    assert _answer(words, plainly=True) == _answer(words, plainly=False)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--count", "twelve"], "'--count': 'twelve' is not a whole number"),
        (["--count", "1.5"], "'--count': '1.5' is not a whole number"),
        (["--count", ""], "'--count': '' is not a whole number"),
        (["--count", "9" * 5000], "has too many digits"),
        (["--bounded", "6"], "'--bounded': '6' is out of range: at most 5"),
        (["--bounded", "0"], "'--bounded': '0' is out of range: at least 1"),
        (["--numbers", "5", "--numbers", "0"], "'--numbers': '0' is out of range: at least 1"),
        (["--numbers", "5", "--numbers", "x"], "'--numbers': 'x' is not a whole number"),
        (["--share", "much"], "'--share': 'much' is not a number"),
        (["--parsed", "fg"], "'--parsed': invalid literal for int() with base 16: 'fg'"),
        (["--colour", "green"], "'--colour': 'green' is not one of 'red', 'blue'"),
    ],
)
def test_a_complaint_names_the_value(words: list[str], complaint: str) -> None:
    """Typer prints the message of pydantic, which speaks of inputs and strings and does not name the value."""
    said = _answer(["x", *words], plainly=True)
    assert isinstance(said, str)
    assert complaint in said
    assert "nput should" not in said
    assert "Value error" not in said
    assert len(said) < 200


@pytest.mark.parametrize("value", ["1", "0", "no", ""])
def test_a_flag_of_the_environment_is_typers(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAG_OF_THE_TEST", value)
    assert _answer(["x"], plainly=True) == _answer(["x"], plainly=False)


def test_a_wrong_flag_of_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAG_OF_THE_TEST", "perhaps")
    assert "'perhaps' is neither true nor false" in str(_answer(["x"], plainly=True))


@pytest.mark.parametrize("words", [["analyze"], ["analyze", "--json"], ["dissect", "--summary"]])
def test_who_reads_a_capture_does_not_wait_for_pydantic(words: list[str], tmp_path: Path) -> None:
    file = tmp_path / "story.pcapng"
    file.write_bytes(pcapng(records(swapped()[:20])))
    done = run([sys.executable, "-c", AFTERWARDS, *words, file], check=False)
    assert done.stdout
    assert done.stderr == "spared"
