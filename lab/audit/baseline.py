"""The plan of a fabric: the state that rocelab built, or that a lab had when it was adopted.

``rocelab up`` keeps it when the fabric has converged, before the faults that its file declares are injected.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from lab.audit import snapshot
from lab.audit.objects.routing_objects import BFD_UP, ESTABLISHED
from lab.audit.reader import audit
from lab.backends.adopted.adopted_lab import AdoptedBackend
from lab.errors import InvalidInput, OperationFailed, Problem
from lab.kernel.process import files

if TYPE_CHECKING:
    from lab.audit.audited import FabricAudit
    from lab.backends.backend import Fabric
    from lab.kernel.process.locks import Waiting


def keep_baseline(fabric: Fabric, waiting: Waiting | None = None) -> None:
    """Store the current state of a fabric as its plan. Waits as ``lifecycle.up`` does; UsageError if it is gone."""
    found = audit(fabric) if fabric.backend.name == AdoptedBackend.name else settled(audit(fabric))
    with fabric.state.reading(waiting), files.replaced(fabric.state.baseline) as fresh:
        fresh.write_text(json.dumps(snapshot.dump(found)), encoding="utf-8")


def settled(found: FabricAudit) -> FabricAudit:
    """Return a state with all sessions up, as they are planned: BFD begins seconds after BGP has converged."""
    return replace(
        found,
        nodes={
            name: replace(
                node,
                bgp=tuple(replace(each, state=ESTABLISHED) for each in node.bgp),
                bfd=tuple(replace(each, status=BFD_UP) for each in node.bfd),
            )
            for name, node in found.nodes.items()
        },
    )


def load_baseline(fabric: Fabric) -> FabricAudit:
    """Return the plan of a fabric. Raises OperationFailed if it has none, InvalidInput if it is damaged."""
    try:
        return snapshot.restore(json.loads(fabric.state.baseline.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise OperationFailed(
            f"fabric {fabric.name} has no plan to compare with: another version of rocelab built it",
            "rocelab down, then rocelab up",
        ) from None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        damaged = Problem("", "is damaged", "bring the fabric down and up again")
        raise InvalidInput(f"<stored plan of {fabric.name}>", [damaged]) from error
