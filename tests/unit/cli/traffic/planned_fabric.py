"""Fabrics of shipped topologies as commands of jobs read them, without anything that runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Final

from lab.kernel.process.netns import Namespace
from lab.model.addressing import plan_addresses
from lab.model.load import load_topology
from lab.model.qos.resolve import resolve
from lab.shipped import shipped


def planned(name: str) -> SimpleNamespace:
    """The fabric of a shipped topology."""
    topology = load_topology(shipped(f"topologies/{name}.yaml").read_text(encoding="utf-8"))
    return SimpleNamespace(
        name=name,
        state=SimpleNamespace(faults=Path("no-faults")),
        topology=topology,
        plan=plan_addresses(topology),
        qos=resolve(topology),
        namespace=lambda node: Namespace(f"t-{node}"),
    )


FABRIC: Final = planned("incast")
TOPOLOGY: Final = FABRIC.topology
