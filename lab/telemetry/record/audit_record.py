"""The records of ``state/audit.jsonl``: all settings of all nodes, and how they differ from the fabric's plan."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lab.audit import snapshot
from lab.audit.baseline import load_baseline
from lab.audit.difference import compare
from lab.audit.reader import audit
from lab.errors import LabError

if TYPE_CHECKING:
    from lab.audit.audited import FabricAudit, NodeAudit
    from lab.backends.backend import Fabric


def audit_record(fabric: Fabric, earlier: FabricAudit | None = None) -> tuple[FabricAudit, dict[str, Any]]:
    """Return the current state of a fabric, and its record. With ``earlier``, the record has changed nodes only.

    ``drift`` has the differences from the plan; it is null for a fabric without a plan, and while a challenge hides a
    fault, which they would show.
    """
    found = audit(fabric)
    known = {} if earlier is None else earlier.nodes
    nodes = {
        name: snapshot.dump_node(node)
        for name, node in found.nodes.items()
        if name not in known or _has_changed(node, known[name])
    }
    return found, {"fabric": found.fabric, "nodes": nodes, "drift": _drift(fabric, found)}


def _has_changed(now: NodeAudit, then: NodeAudit) -> bool:
    """Return whether a setting differs, also of a learned object, or a part answers that did not, or vice versa."""
    return now.unread != then.unread or now.settings() != then.settings()


def _drift(fabric: Fabric, found: FabricAudit) -> list[dict[str, Any]] | None:
    if fabric.state.challenge.exists():
        return None
    try:
        return [asdict(each) for each in compare(found, load_baseline(fabric))]
    except LabError:
        return None
