"""Locate wrong ICRCs: the ICRCs of a flow are right before the switch or cable that corrupts its packets."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lab.analysis.results.analysis_facts import IcrcErrors
from lab.analysis.results.number_format import address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.analysis.flows.flow_sums import Flows


class IcrcChecks:
    """ICRCs by flow: ``checked``, and ``wrong`` ones of these."""

    def __init__(self) -> None:
        self.checked, self.wrong = Counter[int](), Counter[int]()

    def add(self, flow: int, *, right: bool) -> None:
        """Add a checked ICRC."""
        self.checked[flow] += 1
        self.wrong[flow] += not right


def icrc_errors(checks: IcrcChecks, flows: Flows, links: Sequence[str]) -> tuple[IcrcErrors, ...]:
    """Return the flows with wrong ICRCs, by link; ``links`` are interface names by number."""
    bad = [flow for flow, wrong in checks.wrong.items() if wrong and flow >= 0]
    alike = {flow: members for members in (flows.alike() if bad else ()) for flow in members}
    return tuple(_error(checks, flows, links, flow, alike.get(flow, [flow])) for flow in bad)


def _error(checks: IcrcChecks, flows: Flows, links: Sequence[str], flow: int, alike: Sequence[int]) -> IcrcErrors:
    key = flows.key(flow)
    way = sorted(alike, key=lambda member: int(flows.seen[member, 0]))
    before = [other for other in way[: way.index(flow)] if checks.checked[other] and not checks.wrong[other]]
    return IcrcErrors(
        link=links[key.interface],
        src=address(key.src),
        dst=address(key.dst),
        qp=key.destqp,
        wrong=checks.wrong[flow],
        checked=checks.checked[flow],
        after=links[flows.key(before[-1]).interface] if before else None,
    )
