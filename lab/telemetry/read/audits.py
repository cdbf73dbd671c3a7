"""The settings of all nodes at the moments at which a recording has them (``state/audit.jsonl``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lab.audit import snapshot
from lab.audit.audited import FabricAudit, NodeAudit
from lab.audit.difference import Difference
from lab.telemetry.store.recording_folder import read_records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.telemetry.store.recording_folder import Folder


@dataclass(frozen=True, slots=True)
class AuditMoment:
    """All settings of all nodes at one time."""

    ns: int
    """CLOCK_MONOTONIC in nanoseconds."""
    state: FabricAudit
    drift: tuple[Difference, ...] | None
    """The differences from the fabric's plan; None for a fabric without a plan."""


def read_audits(folder: Folder) -> tuple[AuditMoment, ...]:
    """Return the moments of a recording in their order; empty for scenarios and old recordings.

    InvalidInput if the file is damaged.
    """
    found: list[AuditMoment] = []
    nodes: dict[str, NodeAudit] = {}
    for ns, fabric, changed, drift in read_records(folder.audit, _line):
        nodes = {**nodes, **changed}
        found.append(AuditMoment(ns, FabricAudit(fabric, nodes), drift))
    return tuple(found)


def audit_at(moments: Sequence[AuditMoment], ns: int) -> AuditMoment | None:
    """Return the last settings of a recording until a time, or else its first ones; None if it has none."""
    return next((each for each in reversed(moments) if each.ns <= ns), moments[0] if moments else None)


def _line(line: Mapping[str, Any]) -> tuple[int, str, dict[str, NodeAudit], tuple[Difference, ...] | None]:
    """Return the time, the fabric, the nodes that changed, and the differences from the plan."""
    nodes = {name: snapshot.restore_node({**node, "name": name}) for name, node in line["nodes"].items()}
    drift = None if line["drift"] is None else tuple(map(_difference, line["drift"]))
    return int(line["ns"]), str(line["fabric"]), nodes, drift


def _difference(recorded: Mapping[str, Any]) -> Difference:
    """Return a recorded difference; TypeError if a part of it is no text."""
    if not all(isinstance(each, str) for each in recorded.values()):
        raise TypeError("a part of a difference is no text")
    return Difference(**recorded)
