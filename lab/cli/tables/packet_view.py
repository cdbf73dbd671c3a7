"""Packets on the terminal: a line each, or header by header."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.cli.kit.output import stdout
from lab.terminal_text import printable
from lab.wire.pcapng import Direction

if TYPE_CHECKING:
    from lab.wire.explain.explanation import ExplainedHeader, FrameExplanation

DIRECTIONS: Final = {Direction.UNKNOWN: "", Direction.INBOUND: "in", Direction.OUTBOUND: "out"}
"""Symbols for the direction of a packet at its interface."""


def summary_line(number: int, time: str, where: str, text: str) -> str:
    """Return a packet as a line: number from 1, time, interface and direction, description."""
    return f"{number:>6}  {time:>13}  {printable(where):<16}  {printable(text)}\n"


def print_headers(told: FrameExplanation, taught: set[str] | None = None) -> None:
    """Print each header with its fields, values and meanings, and why decoding stopped.

    Headers whose names are not in ``taught`` are printed with their figure and purpose, and added to it.
    """
    for header in told.headers:
        stdout.print(f"  {header.name}", style="bold", markup=False, highlight=False)
        if taught is not None and header.name not in taught:
            taught.add(header.name)
            _teach(header)
        width = max(10, *(len(field.name) for field in header.fields))
        for field in header.fields:
            line = f"    {field.name:<{width}} {field.value:<24} {field.meaning}".rstrip()
            stdout.print(line, markup=False, highlight=False, soft_wrap=True)
    if told.fault:
        stdout.print(f"  stops here: {told.fault}", style="red", markup=False, highlight=False, soft_wrap=True)


def _teach(header: ExplainedHeader) -> None:
    if header.why:
        stdout.print(f"    {header.why}", style="italic", markup=False, highlight=False, soft_wrap=True)
    for line in header.figure:
        stdout.print(f"    {line}", style="dim", markup=False, highlight=False, soft_wrap=True)
