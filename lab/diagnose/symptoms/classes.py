"""Symptoms of class mismatches: the two ends of a link count the same packets in different classes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from lab.diagnose.symptom import Evidence, Sign
from lab.model.qos.presets import ROCE_DSCP
from lab.telemetry.read import measures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.diagnose.facts import Lane, WindowFacts
    from lab.model.qos.port import PortQos

_MANY: Final = 50
"""The minimum number of packets in a different class."""
_REWRITTEN: Final = 0.7
"""The link is certain, the reason is not: a filter at one of its ends, or what is between them."""
_TOLD: Final = 0.8
"""Share of a class's surplus at one end of a link that the other end must have in other classes."""


def mismatched(facts: WindowFacts) -> Iterator[tuple[str, str]]:
    """Yield (sender, receiver) for each link whose ends count a lossless class differently."""
    for name, port in facts.ports.items():
        if port.peer not in facts.ports:
            continue
        differences = {
            priority: facts.lane(port.peer, priority).rx_packets - facts.lane(name, priority).tx_packets
            for priority in range(8)
        }
        lossless = {*facts.lossless(name), *facts.lossless(port.peer)}
        moved = max((abs(differences[priority]) for priority in lossless), default=0)
        more = sum(count for count in differences.values() if count > 0)
        less = -sum(count for count in differences.values() if count < 0)
        if moved >= _MANY and min(more, less) > _TOLD * moved:
            yield name, port.peer


def mapped_otherwise(facts: WindowFacts) -> Iterator[Sign]:
    """A switch or a NIC is an end of all links whose two ends count packets in different classes.

    Links are left out if the configuration of both ends is known, and neither maps packets otherwise than most ports.
    """
    links = [link for link in mismatched(facts) if not _map_alike(facts, link)]
    if not links:
        return
    ends = Counter(_mapper(facts, end) for link in links for end in set(link))
    most = max(ends.values())
    guilty = [place for place, count in ends.items() if count == most]
    by_configuration = [place for place in guilty if _differs(facts, place)] if facts.current else []
    for place in by_configuration or guilty:
        seen = [
            evidence
            for link in links
            for evidence in _told(facts, *link)
            if place in {_mapper(facts, end) for end in link}
        ]
        if by_configuration:
            seen.append(_other_map(facts, place))
        yield Sign(place, tuple(seen[:6]), 0.97 if by_configuration else 0.95 if len(guilty) == 1 else 0.5)


def rewritten_on_a_link(facts: WindowFacts) -> Iterator[Sign]:
    """The ends of a link count packets in different classes, and map them alike: their DSCP changes on the way."""
    for sender, receiver in mismatched(facts):
        if _map_alike(facts, (sender, receiver)):
            yield Sign(f"{sender}--{receiver}", tuple(_told(facts, sender, receiver)), _REWRITTEN)


def changes_on_a_link(facts: WindowFacts) -> Iterator[Sign]:
    """The two ends of a link count packets in different classes, whatever the reason."""
    yield from mapped_otherwise(facts)
    yield from rewritten_on_a_link(facts)


def _map_alike(facts: WindowFacts, link: tuple[str, str]) -> bool:
    known = facts.current and all(facts.config(end) for end in link)
    return known and not any(_differs(facts, _mapper(facts, end)) for end in link)


def map_differs(facts: WindowFacts) -> Iterator[Sign]:
    """The DSCP map in the configuration of a switch or a NIC differs from the most common one."""
    if facts.current:
        configured = (f"{node}:{interface}" for node, qos in facts.qos.items() for interface in qos.ports)
        for place in dict.fromkeys(_mapper(facts, port) for port in configured):
            if _differs(facts, place):
                yield Sign(place, (_other_map(facts, place),), 0.7)


def _other_map(facts: WindowFacts, place: str) -> Evidence:
    return Evidence(
        says="its DSCP map differs from the others", of=place, source="qos map.dscp", value=1, at=facts.end
    )


def _mapper(facts: WindowFacts, port: str) -> str:
    """Return the place that maps a port's packets: a host's NIC itself, or the whole switch."""
    return port if facts.is_host(port) else port.partition(":")[0]


def sent_in_a_lossy_class(facts: WindowFacts) -> Iterator[Sign]:
    """A NIC sends its RDMA device's packets in classes that are lossless on no port."""
    lossless = {number for port in facts.ports for number in facts.lossless(port)}
    for nic, counters in facts.devices.items() if lossless else ():
        lanes = [facts.lane(port.name, n) for port in facts.links_of(nic) for n in range(8)]
        sent = counters.get("sent_pkts", 0)
        kept = sum(lane.tx_packets for lane in lanes if lane.priority in lossless)
        lossy = [lane for lane in lanes if lane.priority not in lossless and lane.tx_packets > _TOLD * sent]
        if lossy and sent >= _MANY and kept < (1 - _TOLD) * sent:
            priority = lossy[0].priority
            says, counter = f"packets sent in priority {priority}", measures.TX_PACKETS.series(priority)
            seen = (
                Evidence(
                    says="packets sent by its RDMA device", of=nic, source="sent_pkts", value=sent, at=facts.end
                ),
                Evidence(
                    says="packets sent in lossless classes",
                    of=nic,
                    source="tx_prioN_packets",
                    value=kept,
                    at=facts.end,
                ),
                Evidence(says=says, of=lossy[0].port, source=counter, value=lossy[0].tx_packets, at=facts.end),
            )
            yield Sign(nic, seen, 0.9)


def a_job_uses_a_lossy_class(facts: WindowFacts) -> Iterator[Sign]:
    """A job's traffic class has a DSCP whose priority is lossless at no rank's NIC, and its packets are in it."""
    for job in facts.jobs if any(map(facts.lossless, facts.ports)) else ():
        tclass = job.about.tclass if job.about else None
        nics = [f"{each.node}:{each.interface}" for each in job.ranks]
        if tclass is None or not all(_is_lossy(facts, nic, tclass) for nic in nics):
            continue
        for nic in nics:
            lane = _own_lane(facts, nic, tclass)
            if lane.tx_packets < _MANY:
                continue
            says = f"the traffic class of job {job.name}: DSCP {tclass >> 2}, priority {lane.priority}, not lossless"
            counter = measures.TX_PACKETS.series(lane.priority)
            seen = (
                Evidence(says=says, of=nic, source="jobs.jsonl", value=tclass, at=facts.end),
                Evidence(
                    says=f"packets sent in priority {lane.priority}", of=nic, source=counter, value=lane.tx_packets,
                    at=facts.end,
                ),
            )  # fmt: skip
            sure = 0.95 if facts.config(nic) else 0.6
            yield Sign(place=nic, evidence=seen, weight=sure, priority=lane.priority)


def _own_lane(facts: WindowFacts, nic: str, tclass: int) -> Lane:
    """Return the lane of a traffic class at a NIC; without its configuration, the one that sent most packets."""
    config = facts.config(nic)
    if config:
        return facts.lane(nic, config.priority_of(tclass >> 2))
    return max((facts.lane(nic, priority) for priority in range(8)), key=lambda lane: lane.tx_packets)


def _is_lossy(facts: WindowFacts, nic: str, tclass: int) -> bool:
    """Return whether a NIC puts this traffic class into a priority without PFC.

    Without its configuration it does if it sends most packets in one, and the DSCP is not the usual one of RoCE.
    """
    known = facts.config(nic) is not None or tclass >> 2 != ROCE_DSCP
    return known and _own_lane(facts, nic, tclass).priority not in facts.lossless(nic)


def _differs(facts: WindowFacts, place: str) -> bool:
    maps = Counter(_priorities(port) for qos in facts.qos.values() for port in qos.ports.values())
    if len(maps) < 2:
        return False
    common = maps.most_common(1)[0][0]
    node, _, interface = place.partition(":")
    ports = facts.qos[node].ports if node in facts.qos else {}
    return any(_priorities(qos) != common for name, qos in ports.items() if interface in {"", name})


def _priorities(port: PortQos) -> tuple[int, ...]:
    """Return the priority of each DSCP; the same for all if a port trusts the PCP, which untagged packets lack."""
    return tuple(port.priority_of(dscp) for dscp in range(len(port.dscp_to_priority)))


def _told(facts: WindowFacts, sender: str, receiver: str) -> Iterator[Evidence]:
    for port, measure in ((sender, measures.TX_PACKETS), (receiver, measures.RX_PACKETS)):
        counts = {n: getattr(facts.lane(port, n), measure.name) for n in range(8)}
        priority, count = max(counts.items(), key=lambda each: each[1])
        source = measure.series(priority)
        yield Evidence(
            says=f"{measure.title} in priority {priority}", of=port, source=source, value=count, at=facts.end
        )
