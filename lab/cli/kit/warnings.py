"""Warnings: what a topology may say, and hardly means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.cli.kit.output import stderr
from lab.kernel.process import time_source
from lab.model.qos.advice import advise
from lab.model.qos.capacity import rate_advice

if TYPE_CHECKING:
    from pathlib import Path

    from lab.model.topology import Topology


def print_advice(topology: Topology, source: Path) -> None:
    """Say on standard error what is unwise in the file ``source``; it is used all the same."""
    for advice in (*advise(topology, time_source.reaction()), *rate_advice(topology)):
        warn(f"{source}: warning: {advice}")


def warn(text: str) -> None:
    """Print one warning on standard error."""
    stderr.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)
