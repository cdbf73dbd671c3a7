"""The timeline of an analysis as facts: rates, counts and shares by interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.analysis.results.analysis_facts import FlowOverTime, OverTime, PauseOverTime
from lab.analysis.results.lazy_sequence import LazySequence
from lab.analysis.results.number_format import DIRECTIONS, address, class_or_none, mac, vni_or_none
from lab.analysis.results.timeline import MAX_ROWS, TimelineSeries

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lab.analysis.analyser import Analyser


def over_time(analyser: Analyser, links: Sequence[str], seconds: float) -> OverTime:
    """Return series for each flow with data and each paused port, over ``seconds``; ``links`` are names by number."""
    reader = _Reader(analyser, links, seconds)
    carrying = [flow for flow in range(min(len(analyser.flows), MAX_ROWS)) if reader.has_data(flow)]
    return OverTime(
        interval=analyser.timeline.interval / 1e9,
        flows=LazySequence(lambda place: reader.flow(carrying[place]), len(carrying), keep=0),
        pauses=tuple(reader.pause(row) for row, port in enumerate(analyser.pauses.ports.values()) if port.total),
    )


class _Reader:
    def __init__(self, analyser: Analyser, links: Sequence[str], seconds: float) -> None:
        self._of = analyser
        self._links = links
        self._ports = list(analyser.pauses.ports)
        self._used = int(seconds * 1e9) // analyser.timeline.interval + 1

    def has_data(self, flow: int) -> bool:
        """Return whether the flow carried or requested data."""
        return bool(self._of.flows.sums["payload"][flow] or self._of.messages.counts[flow].any())

    def flow(self, flow: int) -> FlowOverTime:
        key, peer = self._of.flows.key(flow), int(self._of.streams.answers[flow])
        goodput = self._goodput(flow, key.interface)
        return FlowOverTime(
            link=self._links[key.interface],
            vni=vni_or_none(key.vni),
            src=address(key.src),
            dst=address(key.dst),
            qp=key.destqp,
            goodput=goodput,
            peak=max((self._of.flows.goodput(flow), *goodput)),
            marked=self._amounts(TimelineSeries.MARKED, flow),
            resent=self._amounts(TimelineSeries.RESENT, flow),
            naks=self._amounts(TimelineSeries.NAKS, peer),
            cnps=self._amounts(TimelineSeries.CNPS, peer),
        )

    def _goodput(self, flow: int, interface: int) -> tuple[float, ...]:
        """Return the payload of each interval in bit/s, at most the rate of the link if that is known.

        A link that is slower than the average of the flow is not the captured one: it limits nothing.
        """
        scale = 8e9 / self._of.timeline.interval
        amounts, rate = self._amounts(TimelineSeries.PAYLOAD, flow), self._of.rate_of(interface)
        if rate is None or self._of.flows.goodput(flow) > rate:
            return tuple(amount * scale for amount in amounts)
        return tuple(amount * scale for amount in spread(amounts, rate / scale))

    def pause(self, row: int) -> PauseOverTime:
        interface, direction, sender, cls = self._ports[row]
        return PauseOverTime(
            link=self._links[interface],
            direction=DIRECTIONS[direction],
            sender=mac(sender),
            cls=class_or_none(cls),
            paused=tuple(amount / self._of.timeline.interval for amount in self._amounts(TimelineSeries.PAUSED, row)),
        )

    def _amounts(self, channel: TimelineSeries, row: int) -> tuple[int, ...]:
        """Return the amounts up to the end of the capture; empty if they are all 0, or the row does not exist."""
        amounts = self._of.timeline.row(channel, row)[: self._used] if row >= 0 else None
        return () if amounts is None or not amounts.any() else tuple(amounts.tolist())


def spread(amounts: Sequence[float], most: float) -> list[float]:
    """Return bytes by interval with at most ``most`` in each: what exceeds it goes to the intervals beside.

    A packet counts in the interval of its timestamp, but occupies the link before it. So the excess goes to earlier
    intervals. What the first one has no room for goes to later ones, and what the last one has no room for is left
    out: the first packet of a flow was on the link before the first interval.
    """
    earlier, excess = _carried(reversed(amounts), most)
    if not excess:
        return earlier[::-1]
    later = earlier[::-1]
    later[0] += excess
    return _carried(later, most)[0]


def _carried(amounts: Iterable[float], most: float) -> tuple[list[float], float]:
    """Move what exceeds ``most`` to the next intervals; also return what the last one has no room for."""
    found, excess = [], 0.0
    for amount in amounts:
        found.append(min(amount + excess, most))
        excess += amount - found[-1]
    return found, excess
