"""Corrupt packets, by elimination: a NIC receives them, its RDMA device does not, and no setting of its host differs.

An RDMA device discards a packet with a wrong ICRC without a counter (IBA volume 1, section 9.6). A filter of the host
does the same, so that nothing is concluded until all settings of the host are read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lab.diagnose.causes.setting_kinds import kind_of
from lab.diagnose.conservation.hop_balance import HopKind
from lab.diagnose.symptom import Evidence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.audit.audited import NodeAudit
    from lab.diagnose.diagnosis import Diagnosis, Found

CORRUPT: Final = "link-corrupt"
_DROP: Final = "silent-drop"
_REWRITING: Final = frozenset({"filter-differs", "queue-differs"})
"""Kinds of settings that can change packets anywhere on their way."""
_MOST: Final = 0.5
"""Share, of the highest share of lost packets, below which a NIC only loses what the others' link has corrupted."""
_LINES: Final = 8
"""The maximum number of evidence lines per cause."""


def with_corruption(found: Diagnosis, read: Mapping[str, NodeAudit]) -> Diagnosis:
    """Return the diagnosis with corrupt packets in place of losses behind NICs that no setting explains.

    ``read`` are the settings that were read, by node; the hosts must be among them, in full.
    """
    return replace(found, causes=tuple(_of_corruption(each, found, read) for each in found.causes))


def _of_corruption(cause: Found, found: Diagnosis, read: Mapping[str, NodeAudit]) -> Found:
    behind = {each.place: each for each in found.located if each.evidence.source == HopKind.NIC_RX.value}
    nodes = {place.partition(":")[0] for place in cause.places}
    kinds = [(each.node, kind.cause) for each in found.differing if (kind := kind_of(each))]
    if cause.cause != _DROP or not {*cause.places} <= behind.keys():
        return cause
    if any(name not in read or read[name].unread for name in nodes):
        return cause
    if any(node in nodes or name in _REWRITING for node, name in kinds):
        return cause
    most = max(behind[place].share for place in cause.places)
    places = tuple(place for place in cause.places if behind[place].share >= _MOST * most)
    whole = [
        Evidence(says="settings of its host that differ from its siblings", of=place, source="settings", value=0,
                 at=found.end)
        for place in places
    ]  # fmt: skip
    return replace(
        cause,
        cause=CORRUPT,
        title="packets arrive corrupt: their FCS is right, and their ICRC is wrong",
        places=places,
        evidence=(*cause.evidence, *whole)[:_LINES],
        rival=_DROP,
        fix=f"drain the switches before {' and '.join(places)} one after the other, and replace the one without which"
        " no packet is lost, or else the NIC",
        words="The NIC accepts the packets and its RDMA device discards them, without a counter. No filter, rule or"
        " address of the host differs, so that a wrong ICRC is most likely. A cable does not cause it, because the"
        " FCS is right: bits flip in the buffer of a switch or of the NIC.",
    )
