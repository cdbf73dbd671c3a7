"""How packets look on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.cli.kit.output import stdout
from lab.terminal_text import printable
from lab.wire.pcapng import Direction

if TYPE_CHECKING:
    from lab.wire.explain.explanation import ExplainedHeader, FrameExplanation

DIRECTIONS: Final = {Direction.UNKNOWN: "", Direction.INBOUND: "in", Direction.OUTBOUND: "out"}
"""Which way a packet went at the interface that saw it."""


def summary_line(number: int, time: str, where: str, text: str) -> str:
    """A packet in a line: its number from 1, its time, interface and direction, description."""
    return f"{number:>6}  {time:>13}  {printable(where):<16}  {printable(text)}\n"


def print_headers(told: FrameExplanation, taught: set[str] | None = None) -> None:
    """Each header, each field with its value and meaning, and why there is no more of a packet.

    A header whose name is not in ``taught`` comes with its figure and why it matters, and is in it from then on.
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
