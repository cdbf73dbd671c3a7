"""Locate losses: between the last link that captured a packet and the first that did not.

A link had not seen a packet before its retransmission if a gap there was still open, or if the retransmission was new
there. Gaps among retransmitted packets count, too. Links are in the order in which a flow passed them.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from lab.analysis.decode.opcode_tables import ACKS, SEQUENCE_ERROR
from lab.analysis.results.loss_facts import Loss
from lab.analysis.results.number_format import address
from lab.analysis.transport.naks import IMPLIED
from lab.wire.headers import PSN_MASK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.analysis.analyser import Analyser
    from lab.analysis.transport.psn_tracker import PsnGap, Resend

_Way: TypeAlias = "list[_Place]"
_REFUSED = frozenset(ACKS) - {ACKS[SEQUENCE_ERROR]}
"""Answers after which packets are resent that were not lost."""
_NEVER = 2**63
_UNDER_WAY = 10_000_000
"""ns that a packet may take from the first link to the last."""


class _Place(NamedTuple):
    """A link on the path of a flow, with its gaps and retransmission episodes."""

    flow: int
    link: str
    gaps: list[PsnGap]
    resends: list[Resend]

    def gap(self, psn: int, time: int) -> PsnGap | None:
        """Return the gap that contains ``psn`` and was open at ``time``."""
        for gap in reversed(self.gaps):
            if gap.time <= time and psn - gap.psn & PSN_MASK < gap.count:
                return gap if self.again(psn, gap.time, time) is None else None
        return None

    def again(self, psn: int, begin: int, end: int) -> Resend | None:
        """Return the episode that retransmitted ``psn`` from ``begin`` to before ``end``."""
        coming = (again for again in self.resends if psn - again.psn & PSN_MASK < again.packets)
        return next((again for again in coming if begin <= again.time < end), None)

    def lacked(self, resend: Resend, end: int) -> bool:
        """Return whether the packet that ``resend`` retransmitted before ``end`` had not passed this link."""
        if self.gap(resend.psn, resend.time) is not None:
            return True
        return self.again(resend.psn, resend.time, end) is None


def losses(of: Analyser, links: Sequence[str]) -> tuple[Loss, ...]:
    """Return every recorded loss of flows that two or more links captured, in order of time."""
    events = of.events
    known = [(flow, resend) for flow, resend in events.resends if resend.end + _UNDER_WAY <= events.known_until]
    troubled = {flow for flow, _ in known}
    alike = of.flows.alike() if troubled else []
    ways = [flows for flows in alike if not troubled.isdisjoint(flows)]
    gaps: dict[int, list[PsnGap]] = defaultdict(list)
    resends: dict[int, list[Resend]] = defaultdict(list)
    for flow, gap in sorted([*events.gaps(), *events.gaps_again()], key=_time) if ways else ():
        gaps[flow].append(gap)
    for flow, resend in known:
        resends[flow].append(resend)
    responses = _Responses(of, links, alike)
    found: list[Loss] = []
    for flows in ways:
        flows.sort(key=lambda flow: int(of.flows.seen[flow, 0]))
        way = [_Place(f, links[of.flows.key(f).interface], gaps[f], resends[f]) for f in flows]
        if len({place.link for place in way}) > 1:
            found += _of_way(of, way, responses)
    return tuple(sorted(found, key=lambda loss: (loss.time, loss.src, loss.dst, loss.qp, loss.psn)))


def _time(event: tuple[int, PsnGap]) -> int:
    return event[1].time


def _of_way(of: Analyser, way: _Way, responses: _Responses) -> Iterator[Loss]:
    """Yield a loss for each episode at the link nearest to the requester that saw any."""
    near = next(place for place in way if place.resends)
    for index, resend in enumerate(near.resends):
        if resend.cause in _REFUSED:
            continue
        later = (again.time for again in near.resends[index + 1 :] if again.psn == resend.psn)
        key = of.flows.key(near.flow)
        response = resend.cause == IMPLIED
        if response:
            since = near.resends[index - 1].time if index else 0
            after, before = responses.around(near.flow, resend, since)
            count, waited = 1, resend.time - resend.since
        else:
            after, before, count, waited = _lost(way, resend, next(later, _NEVER))
        yield Loss(
            src=address(key.src),
            dst=address(key.dst),
            qp=key.destqp,
            psn=resend.psn,
            count=count,
            after=after,
            before=before,
            answer=resend.cause,
            response=response,
            time=(resend.time - (of.first or 0)) / 1e9,
            waited=waited / 1e9,
            resent=resend.packets,
        )


def _lost(way: _Way, resend: Resend, end: int) -> tuple[str | None, str | None, int, int]:
    """Return the links on both sides of the loss, the number of lost PSNs, and ns since its first sign."""
    silence = resend.time - resend.since
    for before, place in zip([None, *(place.link for place in way)], way, strict=False):
        if not place.lacked(resend, end):
            continue
        gap = place.gap(resend.psn, resend.time)
        if gap is None:
            return before, place.link, 1, silence
        mended = place.again(resend.psn, resend.time, end)
        shown = (resend if mended is None else mended).time - gap.time
        return before, place.link, gap.count - (resend.psn - gap.psn & PSN_MASK), shown
    return way[-1].link, None, 1, silence


class _Responses:
    """Finds the links at which READ responses went missing, by flow."""

    def __init__(self, of: Analyser, links: Sequence[str], alike: Sequence[list[int]]) -> None:
        self._of, self._links, self._alike = of, links, alike
        self._missed: dict[int, list[PsnGap]] = defaultdict(list)
        for flow, gap in of.events.missed():
            self._missed[flow].append(gap)

    def around(self, flow: int, resend: Resend, since: int) -> tuple[str | None, str | None]:
        """Return the links around the loss that caused ``resend``; ``since`` is the time of the episode before."""
        of = self._of
        peer = int(of.streams.peer[of.streams.of[flow]])
        way = sorted(self._of_peer(peer), key=lambda f: int(of.flows.seen[f, 0])) if peer >= 0 else []
        names = [self._links[of.flows.key(member).interface] for member in way]
        until = resend.time + _UNDER_WAY
        for before, member, link in zip([None, *names], way, names, strict=False):
            gaps = (gap for gap in self._missed.get(member, ()) if since < gap.time <= until)
            if any(resend.psn - gap.psn & PSN_MASK < max(gap.count, 1) for gap in gaps):
                return before, link
        return (names[-1] if names else None), None

    def _of_peer(self, peer: int) -> list[int]:
        """Return the flows of a stream, with and without tunnels."""
        members = self._of.streams.members(peer)
        return self._together.get(members[0], members)

    @cached_property
    def _together(self) -> dict[int, list[int]]:
        return {flow: flows for flows in self._alike for flow in flows}
