"""``rocelab examples``: list and copy the topologies and scenarios that come with rocelab."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from lab.cli.kit.output import JsonFlag, print_json, stdout, table
from lab.errors import UsageError
from lab.model.values.suggest import suggest
from lab.result_files import write_results
from lab.shipped import shipped

app = typer.Typer(no_args_is_help=True, help="The topologies and scenarios that come with rocelab.")

_KINDS: Final = {"topologies": "*.yaml", "scenarios": "*.py"}


def example_names() -> list[str]:
    """Complete the examples, for example ``topologies/incast.yaml``."""
    return [
        f"{kind}/{file.name}"
        for kind, pattern in _KINDS.items()
        for file in sorted(shipped(kind).glob(pattern))
        if not file.name.startswith("_")
    ]


def about(name: str) -> str:
    """Return the first sentence of an example."""
    lines = shipped(name).read_text(encoding="utf-8").splitlines()
    return lines[0].strip('#" ') if lines else ""


@app.command("ls")
def list_(as_json: JsonFlag = False) -> None:
    """List the example topologies and scenarios."""
    rows = [(name, about(name)) for name in example_names()]
    if as_json:
        print_json([{"name": name, "about": told} for name, told in rows])
    else:
        stdout.print(table("examples", ("name", "description"), rows))


@app.command()
def copy(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Names that rocelab examples ls lists. \\[default: all]",
            autocompletion=example_names,
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The folder to copy to.")] = Path(),
) -> None:
    """Copy examples into topologies/ and scenarios/ of a folder; existing files are not overwritten."""
    known = example_names()
    for name in names or known:
        if name not in known:
            raise UsageError(f"there is no example {name}", suggest(name, known, "rocelab examples ls lists all"))
    targets = {name: output / name for name in names or known}
    there = [str(target) for target in targets.values() if target.exists() or target.is_symlink()]
    if there:
        raise UsageError(f"{there[0]} already exists", "choose another folder with -o, or name the other examples")
    write_results(
        {target: shipped(name).read_bytes() for name, target in targets.items()},
        "name another folder with -o",
        folders={target.parent for target in targets.values()},
    )
    for target in targets.values():
        typer.echo(f"wrote {target}", err=True)
