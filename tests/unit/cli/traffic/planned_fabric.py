"""The fabric of ``topologies/incast.yaml`` as commands of jobs read it, without anything that runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Final

from lab.kernel.process.netns import Namespace
from lab.model.addressing import plan_addresses
from lab.model.load import load_topology
from lab.model.qos.resolve import resolve
from lab.shipped import shipped

TOPOLOGY: Final = load_topology(shipped("topologies/incast.yaml").read_text(encoding="utf-8"))
FABRIC: Final = SimpleNamespace(
    name="incast",
    state=SimpleNamespace(faults=Path("no-faults")),
    topology=TOPOLOGY,
    plan=plan_addresses(TOPOLOGY),
    qos=resolve(TOPOLOGY),
    namespace=lambda node: Namespace(f"t-{node}"),
)
