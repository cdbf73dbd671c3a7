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
        ["x", "--count", "twelve"],
        ["x", "--count", "1.5"],
        ["x", "--bounded", "5"],
        ["x", "--bounded", "6"],
        ["x", "--numbers", "5", "--numbers", "6"],
        ["x", "--numbers", "0"],
        ["x", "--share", "much"],
        ["x", "--colour", "blue"],
        ["x", "--colour", "green"],
        ["x", "--there", sys.executable],
        ["x", "--there", "/nowhere/at/all"],
        ["x", "--there", "/"],
        ["x", "--parsed", "ff"],
        ["x", "--parsed", "fg"],
        ["x", "--flag"],
        ["x", "--no-flag"],
        [],
    ],
)
def test_every_value_and_every_complaint_is_typers(words: list[str]) -> None:
    assert _answer(words, plainly=True) == _answer(words, plainly=False)


@pytest.mark.parametrize("value", ["1", "0", "no", "", "perhaps"])
def test_a_flag_of_the_environment_is_typers(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAG_OF_THE_TEST", value)
    assert _answer(["x"], plainly=True) == _answer(["x"], plainly=False)


@pytest.mark.parametrize("words", [["analyze"], ["analyze", "--json"], ["dissect", "--summary"]])
def test_who_reads_a_capture_does_not_wait_for_pydantic(words: list[str], tmp_path: Path) -> None:
    file = tmp_path / "story.pcapng"
    file.write_bytes(pcapng(records(swapped()[:20])))
    done = run([sys.executable, "-c", AFTERWARDS, *words, file], check=False)
    assert done.stdout
    assert done.stderr == "spared"
