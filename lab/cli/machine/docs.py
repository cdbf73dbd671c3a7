"""``rocelab docs``: the documentation in Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from lab.cli.kit.output import print_json, stdout, table
from lab.errors import UsageError
from lab.model.values.suggest import suggest

PAGES: Final = Path(__file__).parents[2] / "docs"


def topics() -> list[str]:
    """Return the names of all pages."""
    return sorted(page.stem for page in PAGES.glob("*.md"))


def docs(
    topic: Annotated[
        str | None, typer.Argument(help="The page. \\[default: list all pages]", autocompletion=topics)
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="Print the JSON Schema of a command's --json output."),
    ] = None,
) -> None:
    """Show a page of the documentation, or list all pages."""
    if schema is not None:
        _print_schema(schema)
    elif topic is None:
        rows = [(each, _text(each).partition("\n")[0].removeprefix("# ")) for each in topics()]
        stdout.print(table("rocelab docs TOPIC", ("topic", "title"), rows))
    elif topic not in topics():
        raise UsageError(f"no page about {topic}", suggest(topic, topics(), "rocelab docs lists all pages"))
    elif stdout.is_terminal:
        from rich.markdown import Markdown  # noqa: PLC0415 - slow to import, and not needed to list or pipe pages

        stdout.print(Markdown(_text(topic)))
    else:
        typer.echo(_text(topic), nl=False)


def _print_schema(command: str) -> None:
    from lab.cli.schemas import ANSWERS, adapter  # noqa: PLC0415 - pydantic is slow to import

    if command not in ANSWERS:
        remedy = suggest(command, ANSWERS, f"there is {', '.join(ANSWERS)}")
        raise UsageError(f"no command {command!r} has JSON output", remedy)
    described = adapter(command).json_schema()
    print_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **described})


def _text(topic: str) -> str:
    return (PAGES / f"{topic}.md").read_text(encoding="utf-8")
