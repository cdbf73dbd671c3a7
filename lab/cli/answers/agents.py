"""Answers of tools of ``rocelab mcp`` that no command prints alone."""

from __future__ import annotations

from lab.cli.answers.analysis import Dissect
from lab.cli.answers.base import Answer
from lab.cli.answers.packets import CapturedLink


class NodeOutput(Answer):
    """The output of a program in a node."""

    exit_code: int | None
    """null if the program was ended because its output was too long."""
    output: str
    errors: str
    """Standard error."""
    truncated: bool
    """Whether the output was cut."""


class CapturedPackets(Dissect):  # type: ignore[misc]
    """Packets of links, decoded as by ``rocelab dissect --summary --json``."""

    links: list[CapturedLink]
    """Packets of each link, and those that were lost."""
