"""The packets that an injected disturbance really met: by its own counts, which no diagnosis reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.faults.fault_engine import fault_of
from lab.faults.kinds.cable import LinkReorder
from lab.faults.kinds.packet_faults import Impaired

if TYPE_CHECKING:
    from lab.backends.backend import Fabric
    from lab.faults.ledger import Entry


def struck_packets(fabric: Fabric, entry: Entry) -> int | None:
    """Return how many packets a fault has changed, lost, sent twice or held back so far; None if it counts none."""
    fault = fault_of(fabric, entry)
    if isinstance(fault, Impaired):
        return sum(
            each.lost + each.corrupted_frames + each.corrupted_payloads + each.dscp_rewritten + each.ecn_cleared
            + each.duplicated
            for each in fault.truth().values()
        )  # fmt: skip
    if isinstance(fault, LinkReorder):
        return sum(each.reordered for each in fault.truth().values())
    return None
