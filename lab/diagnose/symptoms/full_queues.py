"""Symptoms of full queues: capacity shared fairly, capacity shared unfairly, and victim flows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.diagnose.routes_used import way
from lab.diagnose.symptom import Evidence, Sign, counted, not_sending
from lab.diagnose.symptoms.pause_symptoms import FOREVER
from lab.telemetry.read import measures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.diagnose.facts import Lane, StartedTransfer, WindowFacts

_FULL: Final = 0.9
"""Share of its rate, without framing overhead, from which on a link is full."""
_STOPPED: Final = 0.2
"""Share of the time that a sender must be paused to be affected."""
_ROOM: Final = 0.6
"""Share of a link's rate below which it has spare capacity."""
_UNFAIR: Final = 1.6
"""Ratio of the throughput of near to far senders, if each switch between them divides by port."""
_FEWEST_OTHERS: Final = 2
"""Links of other hosts that a slow one is compared with."""
_OBEYED: Final = 0.05
"""Share of the time. A queue that is paused no longer fills by itself."""


def _bottlenecks(facts: WindowFacts) -> Iterator[Lane]:
    """Yield lanes of full links whose switch is not paused, and pauses senders or marks packets.

    Several lanes may fill a link together. It limits each of them whose queue is never empty, or marks packets.
    """
    for lane in facts.lanes.values():
        if facts.is_host(lane.port) or lane.paused > _OBEYED or facts.port_load(lane.port) < _FULL:
            continue
        if facts.load(lane) < _FULL and not (lane.marked or lane.shallowest):
            continue
        if facts.pauses_others(facts.ports[lane.port].node, lane.priority) or lane.marked:
            yield lane


def a_link_is_full(facts: WindowFacts) -> Iterator[Sign]:
    """A link is fully used, and further senders are paused or their packets marked."""
    for lane in _bottlenecks(facts):
        yield Sign(place=lane.port, evidence=_full(facts, lane), weight=0.9, priority=lane.priority)


def _full(facts: WindowFacts, lane: Lane) -> tuple[Evidence, ...]:
    rate, load, whole = facts.rate(lane.port) / 1e6, facts.load(lane), facts.port_load(lane.port)
    seen = counted(facts, lane, f"of its {rate:.0f} Mb/s sent", measures.TX_BYTES, round(load, 3))
    others = Evidence(
        says=f"of its {rate:.0f} Mb/s sent in all priorities", of=lane.port, source=measures.TX_BYTES.series("*"),
        value=round(whole, 3), at=facts.end,
    )  # fmt: skip
    return (
        seen,
        *(() if load >= _FULL else (others,)),
        counted(facts, lane, "bytes of average queue depth", measures.QUEUE_BYTES, round(lane.depth)),
    )


def slower_than_its_siblings(facts: WindowFacts) -> Iterator[Sign]:
    """A link between switches is slower than others of both switches, or its ends have different rates.

    The rates are those of the configuration. The expected rate of a switch whose links are all slow is not known.
    """
    trunks = [port for port in facts.ports.values() if not port.host and port.peer and not facts.is_host(port.peer)]
    fastest: dict[str, float] = {}
    for port in trunks:
        fastest[port.node] = max(facts.rate(port.name), fastest.get(port.node, 0.0))
    for port in trunks if facts.current else ():
        ends = {end: facts.rate(end) for end in (port.name, port.peer)}
        siblings = [fastest.get(end.partition(":")[0], 0.0) for end in ends]
        below = all(rate < sibling for rate, sibling in zip(ends.values(), siblings, strict=True))
        if port.name < port.peer and all(ends.values()) and (below or len(set(ends.values())) > 1):
            seen = (
                Evidence(says=f"Mb/s link rate; the fastest port of its siblings has {sibling / 1e6:g}",
                         of=end, source="qos rate", value=round(rate / 1e6, 3), at=facts.end)
                for (end, rate), sibling in zip(ends.items(), siblings, strict=True)
            )  # fmt: skip
            yield Sign(f"{port.name}--{port.peer}", tuple(seen), 0.9)


def slower_than_other_hosts(facts: WindowFacts) -> Iterator[Sign]:
    """One host's link is slower than all others of hosts, is not so in the topology, and holds traffic up.

    Several slow links are more likely a limit that was set.
    """
    links = {
        (port.name, port.peer): min(facts.rate(port.name), facts.rate(port.peer))
        for port in facts.ports.values()
        if port.host and port.peer
    }
    usual = max(links.values(), default=0.0)
    slow = [ends for ends, rate in links.items() if rate < usual]
    if not facts.current or len(slow) != 1 or len(links) <= _FEWEST_OTHERS or not links[slow[0]]:
        return
    (ends,) = slow
    waiting = [lane for end in ends for lane in facts.by_port.get(end, ()) if _holds_up(facts, lane)]
    if waiting and links[ends] != facts.planned_rates.get(ends[0]):
        told = f"Mb/s link rate; links of other hosts have {usual / 1e6:g}"
        seen = [
            Evidence(says=told, of=end, source="qos rate", value=round(facts.rate(end) / 1e6, 3), at=facts.end)
            for end in ends
        ]
        more = counted(facts, waiting[0], "bytes of average queue depth", measures.QUEUE_BYTES, waiting[0].depth)
        yield Sign("--".join(sorted(ends)), (*seen, more), 0.9)


def _holds_up(facts: WindowFacts, lane: Lane) -> bool:
    """Return whether a lane fills its link, or has a queue for which its switch pauses senders or marks packets."""
    if facts.load(lane) >= _FULL:
        return True
    node, _, _ = lane.port.partition(":")
    return lane.depth > 0 and (lane.marked > 0 or facts.pauses_others(node, lane.priority))


def _sender(facts: WindowFacts, nic: str, priority: int) -> Lane:
    """Return the lane by which a NIC sends; for a bond, that of its busiest member."""
    lanes = [facts.lane(port.name, priority) for port in facts.links_of(nic)]
    return max(lanes, key=lambda lane: lane.tx_bytes) if lanes else facts.lane(nic, priority)


def the_near_get_more(facts: WindowFacts) -> Iterator[Sign]:
    """Senders near to a receiver get a multiple of the throughput of senders behind more switches."""
    for lane in _bottlenecks(facts):
        end = facts.peer(lane.port)
        if not facts.is_host(end):
            continue
        receiver = facts.nic_of(end)
        far: dict[int, list[Lane]] = {}
        for src in _writers(facts, receiver, lane.priority):
            hops = max((hops for _, hops in way(facts, src, receiver)), default=0)
            far.setdefault(hops, []).append(_sender(facts, src, lane.priority))
        if len(far) < 2 or not all(each.tx_bytes for lanes in far.values() for each in lanes):
            continue
        near, behind = far[min(far)], far[max(far)]
        mean = [sum(each.tx_bytes for each in lanes) / len(lanes) for lanes in (near, behind)]
        if (
            mean[0] < _UNFAIR * mean[1]
            or not all(each.paused > _STOPPED for each in behind)
            or len(behind) + len(near) < 3
        ):
            continue
        seen = tuple(
            Evidence(says="Mb/s sent to it", of=each.port, source=measures.TX_BYTES.series(each.priority),
                     value=round(facts.sent_bps(each) / 1e6, 1), at=facts.end)
            for _, lanes in sorted(far.items()) for each in lanes
        )  # fmt: skip
        yield Sign(place=lane.port, evidence=(*seen, *_full(facts, lane)), weight=0.92, priority=lane.priority)


def _writers(facts: WindowFacts, nic: str, priority: int) -> list[str]:
    """Return the NICs that send to a NIC, from the known transfers.

    Without known transfers, return all NICs that send, if the given one is the only NIC that receives.
    """
    known = [each.src for each in facts.transfers if each.dst == nic]
    if known or facts.transfers:
        return known
    lanes = {port.name: facts.lane(port.name, priority) for port in facts.ports.values() if port.host and port.peer}
    sent = {facts.nic_of(port) for port, lane in lanes.items() if lane.tx_bytes > 20 * lane.rx_bytes}
    got = {facts.nic_of(port) for port, lane in lanes.items() if lane.rx_bytes > 20 * lane.tx_bytes}
    return sorted(sent) if got == {nic} else []


def paused_for_the_sake_of_others(facts: WindowFacts) -> Iterator[Sign]:
    """A host is paused although its own path has no full queue: a full queue elsewhere is the reason."""
    roots = [lane for lane in _bottlenecks(facts) if facts.is_host(facts.peer(lane.port))]
    everything = {lane.port for lane in _bottlenecks(facts)}
    for transfer in facts.transfers:
        for root in roots:
            lane = _sender(facts, transfer.src, root.priority)
            if (
                lane.paused < _STOPPED
                or lane.paused > FOREVER
                or not _is_free(facts, transfer, root.priority, everything)
            ):
                continue
            if any(
                each.src == transfer.src and each.dst == facts.nic_of(facts.peer(root.port))
                for each in facts.transfers
            ):
                continue
            rate = facts.sent_bps(lane) / 1e6
            seen = (
                not_sending(facts, lane),
                counted(facts, lane, f"Mb/s sent to {transfer.dst}", measures.TX_BYTES, round(rate, 1)),
                *_full(facts, root),
            )
            yield Sign(place=lane.port, evidence=seen, weight=0.93, priority=lane.priority)
            break


def _is_free(facts: WindowFacts, transfer: StartedTransfer, priority: int, full: set[str]) -> bool:
    """Return whether no queue on a transfer's own path is full, and its last link has spare capacity."""
    ports = [port for port, _ in way(facts, transfer.src, transfer.dst)]
    last = [port for port in ports if facts.is_host(facts.peer(port))]
    return (
        bool(last) and not full & set(ports) and all(facts.load(facts.lane(port, priority)) < _ROOM for port in last)
    )
