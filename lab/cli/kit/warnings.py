"""Warnings about topologies that are valid but probably not intended."""

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
    """Print warnings about the file ``source`` on standard error; it is used nevertheless."""
    for advice in (*advise(topology, time_source.reaction()), *rate_advice(topology)):
        warn(f"{source}: warning: {advice}")


def warn(text: str) -> None:
    """Print one warning on standard error."""
    stderr.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)
