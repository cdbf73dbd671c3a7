"""``rocelab import``: convert the labs of other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.fabrics.topology import Force, Output, write_new
from lab.cli.kit.output import print_note

app = typer.Typer(no_args_is_help=True)


@app.callback()
def import_lab() -> None:
    """Convert the lab of another program into a topology file."""


@app.command()
def containerlab(
    file: Annotated[Path, typer.Argument(help="A topology file of containerlab.", show_default=False)],
    output: Output = None,
    force: Force = False,
) -> None:
    """Convert a containerlab lab: nodes of kind linux, with FRR as switches. Report what was left out."""
    from lab.export import from_lab  # noqa: PLC0415 - as models in topology

    text, notes = from_lab.import_lab(file)
    write_new(text, output, force=force)
    for note in notes:
        print_note(f"left out: {note}")
