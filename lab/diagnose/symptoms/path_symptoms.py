"""Symptoms of paths: missing next hops, unused uplinks, and lost links and sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.diagnose.routes_used import next_hops, remote_prefixes, way
from lab.diagnose.symptom import Evidence, Sign, counted
from lab.telemetry.read import measures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.diagnose.facts import Lane, SessionChange, WindowFacts

_IDLE: Final = 0.01
"""Share of the bytes of an ECMP group. An uplink with less is idle."""
_BUSY: Final = 0.3
"""Share of a link's rate above which a link is busy."""
_FULL: Final = 0.9
_SHOWN: Final = 3
"""The maximum number of addresses with fewer next hops that are evidence."""
_SOURCE: Final = 0.2
"""Share of an uplink's bytes above which a port is a source of its traffic."""
_ANSWER: Final = 160
"""Bytes. All acknowledgements are shorter: 62 on the wire over IPv4, 132 over IPv6 in VXLAN."""
_CHANCE: Final = 1e-3
"""Probability below which it is no chance that all QPs take the same path."""
_PLACE_UNKNOWN: Final = 0.75
"""The confidence of missing paths without a setting that takes them away: it can be at the far end of a session."""


def fewer_next_hops_than_siblings(facts: WindowFacts) -> Iterator[Sign]:
    """A switch has fewer next hops for remote prefixes than a sibling that is cabled to the same switches."""
    if facts.down:
        return
    widths = {
        switch: max((len(hops) for hops in remote_prefixes(facts, switch).values()), default=0)
        for switch in facts.switches
    }
    for switch, width in widths.items():
        uplinks = _uplinks(facts, switch)
        siblings = [
            other for other in facts.switches if other != switch and _cabled(facts, other) == _cabled(facts, switch)
        ]
        most = max((widths[other] for other in siblings), default=0)
        if len(uplinks) < 2:
            continue
        if 0 < width < most and not _is_next_to_all(facts, switch):
            prefix, hops = next(iter(remote_prefixes(facts, switch).items()))
            says = f"next hops of {prefix}, by {' and '.join(hops)}; siblings have {most}"
            seen = [Evidence(says=says, of=switch, source="ip route", value=width, at=facts.end)]
        else:
            seen = list(_narrow_addresses(facts, switch, siblings))[:_SHOWN]
        if not seen:
            continue
        seen += [
            counted(facts, lane, "bytes sent", measures.TX_BYTES, lane.tx_bytes)
            for lane in (facts.lane(port, facts.lossless(port)[0]) for port in uplinks if facts.lossless(port))
        ]
        yield Sign(switch, tuple(seen), _PLACE_UNKNOWN)


def _narrow_addresses(facts: WindowFacts, switch: str, siblings: list[str]) -> Iterator[Evidence]:
    """Yield the hosts' addresses to which a switch has fewer next hops than a sibling: a route to one address."""
    for address in facts.addresses.values():
        mine = _remote_hops(facts, switch, address)
        most = max((len(_remote_hops(facts, other, address)) for other in siblings), default=0)
        if 0 < len(mine) < most and not _is_next_to(facts, switch, address, mine):
            says = f"next hops to {address}, by {' and '.join(mine)}; siblings have {most}"
            yield Evidence(says=says, of=switch, source="ip route", value=len(mine), at=facts.end)


def _is_next_to_all(facts: WindowFacts, switch: str) -> bool:
    """Return whether a switch uses all its links to the leaves of all hosts of others, as a spine does."""
    hops = {address: _remote_hops(facts, switch, address) for address in facts.addresses.values()}
    return all(_is_next_to(facts, switch, address, mine) for address, mine in hops.items() if mine)


def _is_next_to(facts: WindowFacts, switch: str, address: str, hops: tuple[str, ...]) -> bool:
    """Return whether next hops are all links of a switch to the leaf of an address.

    A sibling whose link to the leaf has a higher cost takes a detour, for which there may be more next hops.
    """
    nics = [nic for nic, mine in facts.addresses.items() if mine == address]
    leaves = {_node(facts.peer(port.name)) for nic in nics for port in facts.links_of(nic)}
    direct = {port.rpartition(":")[2] for port in _uplinks(facts, switch) if _node(facts.peer(port)) in leaves}
    return bool(direct) and direct <= {*hops}


def _remote_hops(facts: WindowFacts, switch: str, address: str) -> tuple[str, ...]:
    """Return the next hops from a switch to an address by its uplinks; empty if one of them is another interface.

    That is the port of its own host, a bridge with that port, or a tunnel, which is no path of the fabric.
    """
    hops, uplinks = next_hops(facts.routes.get(switch, {}), address), _uplinks(facts, switch)
    return hops if all(f"{switch}:{hop}" in uplinks for hop in hops) else ()


def _cabled(facts: WindowFacts, switch: str) -> set[str]:
    """Return the switches that a switch is cabled to."""
    return {_node(port) for port in map(facts.peer, _uplinks(facts, switch))}


def _uplinks(facts: WindowFacts, switch: str) -> list[str]:
    """Return the ports of a switch that lead to other switches."""
    return [port.name for port in facts.ports_of(switch) if port.peer and not facts.is_host(port.peer)]


def _groups(facts: WindowFacts) -> Iterator[tuple[str, list[Lane]]]:
    """Yield each switch's ECMP groups, as lanes of the lossless class with the most bytes."""
    for switch in facts.switches:
        groups = {hops for hops in remote_prefixes(facts, switch).values() if len(hops) > 1}
        for hops in groups:
            ports = [f"{switch}:{interface}" for interface in hops]
            classes = {number for port in ports if port in facts.ports for number in facts.lossless(port)}
            lanes = [[facts.lane(port, number) for port in ports] for number in classes]
            if lanes:
                yield switch, max(lanes, key=lambda each: sum(lane.tx_bytes for lane in each))


def _unused(facts: WindowFacts) -> Iterator[tuple[str, list[Lane], Lane]]:
    """Yield switches with an ECMP group, its lanes, and the one uplink that carries nearly all traffic."""
    for switch, lanes in _groups(facts):
        total = sum(lane.tx_bytes for lane in lanes)
        busiest = max(lanes, key=lambda lane: lane.tx_bytes)
        others = total - busiest.tx_bytes
        if others < _IDLE * total and facts.load(busiest) > _BUSY and not any(lane.paused > 0.9 for lane in lanes):
            yield switch, lanes, busiest


def many_flows_on_one_uplink(facts: WindowFacts) -> Iterator[Sign]:
    """One uplink of an ECMP group carries all traffic, although enough QPs leave the switch to spread by chance."""
    for switch, lanes, _ in _unused(facts):
        through = _through(facts, lanes)
        qps = sum(qps for _, qps in through)
        pairs = len(through)
        if not _are_many(qps, lanes):  # without transfers the number of flows is not known
            continue
        known = Evidence(
            says=f"QPs of {pairs} pairs leave through it", of=switch, source="transfers", value=qps, at=facts.end
        )
        yield Sign(switch, (*_shares(facts, lanes), known), 0.93)


def _are_many(qps: int, group: list[Lane]) -> bool:
    """Return whether QPs are too many to take one path of an ECMP group by chance.

    The hash places each QP independently of the others (RFC 2992): the first takes any path.
    """
    return qps > 0 and float(len(group)) ** (1 - qps) < _CHANCE


def few_flows_on_one_uplink(facts: WindowFacts) -> Iterator[Sign]:
    """One uplink of an ECMP group is full with a few QPs of several hosts, while another is idle.

    The QPs of a training job fill it for a part of each step only.
    """
    for switch, lanes, busiest in _unused(facts):
        through = _through(facts, lanes)
        qps = sum(qps for _, qps in through)
        if _are_many(qps, lanes) or len(through) < 2:
            continue
        if not _is_limited(facts, busiest) and not _rings_meet(facts, busiest):
            continue
        known = [
            Evidence(says=f"goes {src} to {dst}", of=switch, source="transfers", value=1, at=facts.end)
            for (src, dst), _ in through
        ]
        yield Sign(
            place=busiest.port,
            evidence=(*_shares(facts, lanes), *known),
            weight=0.93,
            priority=busiest.priority,
        )


def _is_limited(facts: WindowFacts, lane: Lane) -> bool:
    """Return whether an uplink is full, and several ports of its switch send pauses or bring in much of its traffic.

    With congestion control, senders slow down before anything is paused.
    """
    switch = facts.ports[lane.port].node
    lanes = [facts.lane(port.name, lane.priority) for port in facts.ports_of(switch)]
    pausing = sum(each.pauses_out > 0 for each in lanes)
    sources = sum(each.rx_bytes > _SOURCE * lane.tx_bytes for each in lanes)
    return facts.load(lane) > _FULL and max(pausing, sources) > 1


def _rings_meet(facts: WindowFacts, lane: Lane) -> bool:
    """Return whether QPs of several ranks of training jobs pass an uplink, and their packets wait there."""
    ranks = {
        (job.name, qp.rank)
        for job in facts.jobs
        for qp in (job.about.qps if job.about else ())
        if lane.port in qp.path
    }
    switch = facts.ports[lane.port].node
    return len(ranks) > 1 and bool(lane.depth) and (facts.pauses_others(switch, lane.priority) or lane.marked > 0)


def _through(facts: WindowFacts, group: list[Lane]) -> list[tuple[tuple[str, str], int]]:
    """Return the transfers that may leave by each port of an ECMP group, with their QPs.

    If a link is down elsewhere, the group has fewer ports for a part of the addresses.
    """
    ports = {lane.port for lane in group}
    ways = (({*dict(way(facts, each.src, each.dst))}, each) for each in facts.transfers)
    return [((each.src, each.dst), each.qps) for taken, each in ways if ports <= taken]


def _shares(facts: WindowFacts, lanes: list[Lane]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            says="bytes sent on one of its equal-cost paths",
            of=lane.port,
            source=measures.TX_BYTES.series(lane.priority),
            value=lane.tx_bytes,
            at=facts.end,
        )
        for lane in lanes
    )


def a_link_goes_down(facts: WindowFacts) -> Iterator[Sign]:
    """A link went down in the window."""
    told: dict[str, list[Evidence]] = {}
    for change in facts.links:
        if not change.up and facts.peer(change.port):
            link = "--".join(sorted((change.port, facts.peer(change.port))))
            told.setdefault(link, []).append(
                Evidence(says="went down", of=change.port, source="ip monitor link", value=1, at=change.seconds)
            )
    for link, seen in told.items():
        lost = [_lost(each) for each in facts.sessions if each.port in link.split("--") and not each.is_up]
        yield Sign(link, (*seen[:4], *lost[:2]), 0.96)


def a_link_is_down(facts: WindowFacts) -> Iterator[Sign]:
    """A link went down in the window, or is down throughout it."""
    yield from a_link_goes_down(facts)
    changed = {change.port for change in facts.links}
    links: dict[str, list[Evidence]] = {}
    for port in sorted(facts.down):
        if (peer := facts.peer(port)) and not changed & {port, peer}:
            link = "--".join(sorted((port, peer)))
            links.setdefault(link, []).append(
                Evidence(says="is down for the whole window", of=port, source="ip link", value=0, at=facts.end)
            )
    for link, seen in links.items():
        yield Sign(link, tuple(seen), 0.96)


def a_tree_lost_a_link(facts: WindowFacts) -> Iterator[Sign]:
    """A link between two bridges is or went down: the spanning tree waits before another replaces it."""
    switches = set(facts.switches) if facts.bridged else set()
    for sign in a_link_is_down(facts):
        if {_node(end) for end in sign.place.split("--")} <= switches:
            yield sign


def a_leaf_is_dark(facts: WindowFacts) -> Iterator[Sign]:
    """All links of a switch with hosts are or went down."""
    leaves = {facts.peer(port.name).partition(":")[0] for port in facts.ports.values() if port.host}
    return (sign for sign in _dark(facts) if sign.place in leaves)


def a_spine_is_dark(facts: WindowFacts) -> Iterator[Sign]:
    """All links of a switch without hosts are or went down."""
    leaves = {sign.place for sign in a_leaf_is_dark(facts)}
    return (sign for sign in _dark(facts) if sign.place not in leaves)


def _dark(facts: WindowFacts) -> Iterator[Sign]:
    """Yield signs of switches with several links that are all down, or went down."""
    down = {sign.place: sign for sign in a_link_is_down(facts)}
    for switch in facts.switches:
        cabled = [port for port in facts.ports_of(switch) if port.peer]
        lost = [sign for place, sign in down.items() if {port.name for port in cabled} & set(place.split("--"))]
        if len(lost) == len(cabled) > 1:
            yield Sign(switch, tuple(sign.evidence[0] for sign in lost), 0.98)


def flows_move_beside_a_link(facts: WindowFacts) -> Iterator[Sign]:
    """A link without lossless requests goes down; receivers then miss packets that no port dropped.

    Acknowledgements on the link do not matter: losing one makes no receiver miss a request.
    """
    missed = {nic: count for nic, each in facts.devices.items() if (count := each.get("out_of_seq_request", 0))}
    if not missed or any(lane.dropped for lane in facts.lanes.values()):
        return
    for sign in a_link_goes_down(facts):
        divided = [end for end in sign.place.split("--") if _is_idle_beside_busy(facts, end)]
        for end in divided[:1]:
            yield Sign(
                sign.place,
                (
                    sign.evidence[0],
                    Evidence(
                        says="packets sent in lossless classes in the whole window",
                        of=end,
                        source="tx_prioN_packets",
                        value=0,
                        at=facts.end,
                    ),
                    *(
                        Evidence(
                            says="packets out of sequence, none dropped",
                            of=nic,
                            source="out_of_seq_request",
                            value=n,
                            at=facts.end,
                        )
                        for nic, n in missed.items()
                    ),
                ),
                0.98,
            )


def _is_idle_beside_busy(facts: WindowFacts, end: str) -> bool:
    """Return whether a switch's port carried only acknowledgements, and two of the switch's uplinks are in use."""
    if facts.is_host(end):
        return False
    lanes = _lossless(facts, end)
    carried = [sum(lane.tx_packets for lane in _lossless(facts, other)) for other in _uplinks(facts, _node(end))]
    answers = all(lane.rx_bytes < _ANSWER * lane.rx_packets or not lane.rx_packets for lane in lanes)
    return not any(lane.tx_packets for lane in lanes) and answers and sum(map(bool, carried)) >= 2


def _lossless(facts: WindowFacts, port: str) -> list[Lane]:
    """Return the lanes of the priorities for which a port has PFC."""
    return [facts.lane(port, priority) for priority in facts.lossless(port)]


def _node(port: str) -> str:
    return port.partition(":")[0]


def no_route_goes_by_it(facts: WindowFacts) -> Iterator[Sign]:
    """A port to another switch is a next hop of none of its switch's routes to remote hosts."""
    for switch in facts.switches:
        far = remote_prefixes(facts, switch)
        used = {f"{switch}:{interface}" for hops in far.values() for interface in hops}
        for port in _uplinks(facts, switch) if far else ():
            if port not in used:
                seen = Evidence(
                    says=f"of {len(far)} remote prefixes use it",
                    of=port,
                    source="ip route",
                    value=0,
                    at=facts.end,
                )
                yield Sign(port, (seen,))


def a_session_is_lost(facts: WindowFacts) -> Iterator[Sign]:
    """A routing session is down: BGP, or an adjacency of OSPF or IS-IS."""
    for each in facts.sessions:
        if not each.is_up:
            yield Sign(each.port, (_lost(each),))


def _lost(session: SessionChange) -> Evidence:
    """Return the evidence of a session that is down: the same for all symptoms, so that a cause lists it once."""
    return Evidence(
        says=f"{session.title} became {session.state}",
        of=session.port,
        source=session.kind,
        value=1,
        at=session.seconds,
    )
