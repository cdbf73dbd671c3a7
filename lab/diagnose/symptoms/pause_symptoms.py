"""Symptoms of PFC: which ports send pauses, which obey them, and which wait for each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.diagnose.facts import LANE_COUNTS
from lab.diagnose.symptom import Evidence, Sign, counted, not_sending
from lab.telemetry.read import measures

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.diagnose.facts import Lane, WindowFacts
    from lab.model.qos.port import PfcQos

FOREVER: Final = 0.98
"""Share of a window. A port that is paused longer counts as paused permanently."""
_FELT: Final = 0.02
"""Share of a window. Shorter pauses have no noticeable effect."""
_AGAIN: Final = 2
"""The minimum number of storms that the watchdog declared over and that returned, to exclude chance."""
_MOSTLY: Final = 0.5
"""Share of a window that a storm with gaps pauses a port, at least."""
_ODD: Final = 0.85
_EITHER: Final = 0.6
"""As many switches have a watchdog as have none: either can be intended."""
_BEGUN: Final = 0.2
"""Share of a window. A shorter pause may simply end after the window, and is not a storm."""


def _towards_hosts(facts: WindowFacts) -> Iterator[Lane]:
    """Yield the lanes of switch ports that lead to a host."""
    for lane in facts.lanes.values():
        if not facts.is_host(lane.port) and facts.is_host(facts.peer(lane.port)):
            yield lane


def paused_for_ever_by_a_host(facts: WindowFacts) -> Iterator[Sign]:
    """A host pauses its leaf repeatedly and never sends XON."""
    for lane in _towards_hosts(facts):
        if lane.pauses_in >= 2 and not lane.resumes_in and lane.paused > _BEGUN:
            host = facts.peer(lane.port)
            seen = [
                _counted(facts, lane, "pauses_in", f"pauses from {host}, and no XON"),
                not_sending(facts, lane),
            ]
            if lane.drops.get("watchdog"):
                seen.append(_dropped(facts, lane, "watchdog"))
            yield Sign(
                place=host,
                evidence=tuple(seen),
                weight=0.95 if lane.paused > FOREVER else 0.8,
                priority=lane.priority,
            )


def paused_bit_by_bit_by_a_host(facts: WindowFacts) -> Iterator[Sign]:
    """A host pauses its leaf and resumes it each time: it receives less than its link delivers."""
    for lane in _towards_hosts(facts):
        if lane.resumes_in and lane.pauses_in and lane.paused > _FELT and lane.resumes_in * 3 >= lane.pauses_in:
            host = facts.peer(lane.port)
            seen = (
                _counted(facts, lane, "pauses_in", f"pauses from {host}"),
                _counted(facts, lane, "resumes_in", "times resumed by XON"),
                not_sending(facts, lane),
            )
            yield Sign(place=host, evidence=seen, weight=0.92, priority=lane.priority)


def a_circle_waits(facts: WindowFacts) -> Iterator[Sign]:
    """Switch ports wait for each other in a cycle: paused all the time, sending nothing, their queues unchanged."""
    stuck = {
        (facts.ports[lane.port].node, lane.priority, facts.ports[facts.peer(lane.port)].node): lane
        for lane in facts.lanes.values()
        if lane.paused > FOREVER
        and not lane.tx_packets
        and lane.shallowest == lane.deepest > 0
        and not facts.is_host(lane.port)
        and facts.peer(lane.port) in facts.ports
    }
    for priority in {priority for _, priority, _ in stuck}:
        waits = {(node, peer): lane for (node, number, peer), lane in stuck.items() if number == priority}
        circle = _circle(set(waits))
        if circle:
            lanes = [waits[edge] for edge in circle]
            seen = tuple(
                Evidence(
                    says=f"paused {lane.paused:.0%} of the time with {lane.deepest / 1000:.0f} KB waiting, "
                    "nothing sent",
                    of=lane.port,
                    source=measures.PAUSED.series(priority),
                    value=lane.paused,
                    at=facts.end,
                )
                for lane in lanes
            )
            for lane in lanes:
                yield Sign(place=lane.port, evidence=seen, weight=0.96, priority=priority)


def _circle(edges: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the edges of a cycle in a graph, in order; empty if there is none."""
    for start, _ in sorted(edges):
        way: list[tuple[str, str]] = []
        if _walk(start, start, edges, way, set()):
            return way
    return []


def _walk(at: str, home: str, edges: set[tuple[str, str]], way: list[tuple[str, str]], seen: set[str]) -> bool:
    for edge in sorted(edge for edge in edges if edge[0] == at):
        if edge[1] == home:
            way.append(edge)
            return True
        if edge[1] not in seen:
            way.append(edge)
            if _walk(edge[1], home, edges, way, seen | {edge[1]}):
                return True
            way.pop()
    return False


def pauses_are_ignored(facts: WindowFacts) -> Iterator[Sign]:
    """A port counts pauses that it does not obey, of a priority that is lossless at either end of the link."""
    for lane in facts.lanes.values():
        if lane.ignored and _is_lossless_at_an_end(facts, lane):
            seen = [_counted(facts, lane, "ignored", f"pauses from {facts.peer(lane.port)} that it does not obey")]
            if config := facts.config(lane.port):
                off = not config.pfc.rx_priorities >> lane.priority & 1
                if facts.current and off:
                    seen.append(
                        Evidence(
                            says="PFC is disabled in its configuration",
                            of=lane.port,
                            source="qos pfc.rx",
                            value=0,
                            at=facts.end,
                        )
                    )
            yield Sign(place=lane.port, evidence=tuple(seen), weight=0.93, priority=lane.priority)


def pauses_of_a_lossy_class(facts: WindowFacts) -> Iterator[Sign]:
    """A port receives pauses of a priority that is lossy at both ends: its peer should not send any."""
    for lane in facts.lanes.values():
        if lane.ignored and not _is_lossless_at_an_end(facts, lane):
            sender = facts.peer(lane.port)
            seen = _counted(facts, lane, "ignored", f"pauses from {sender}, of a class that is lossy at both ends")
            yield Sign(place=sender, evidence=(seen,), weight=0.9, priority=lane.priority)


def _is_lossless_at_an_end(facts: WindowFacts, lane: Lane) -> bool:
    return lane.priority in {*facts.lossless(lane.port), *facts.lossless(facts.peer(lane.port))}


def pfc_differs_at_the_ends(facts: WindowFacts) -> Iterator[Sign]:
    """The PFC configuration of a link's ends differs: one end sends pauses of a priority that the other ignores.

    This needs no traffic. If the priority is lossless at most ports, the sign names the end that lacks it, otherwise
    the end that has it.
    """
    known = {name: config.pfc for name in facts.ports if (config := facts.config(name))} if facts.current else {}
    for number in range(8):
        usual = 2 * sum(pfc.priorities >> number & 1 for pfc in known.values()) > len(known)
        for name, mine in known.items():
            peer = facts.peer(name)
            if peer in known and (says := _differs(mine, known[peer], number, peer, usual=usual)):
                yield Sign(
                    place=name,
                    evidence=(Evidence(says=says, of=name, source="qos pfc", value=0, at=facts.end),),
                    weight=0.9,
                    priority=number,
                )


def _differs(mine: PfcQos, theirs: PfcQos, number: int, peer: str, *, usual: bool) -> str:
    """Return how this end of a link is misconfigured for a priority; "" if it is not, or if the other end is."""
    deaf = theirs.tx_priorities & ~mine.rx_priorities
    mute = theirs.rx_priorities & ~mine.tx_priorities
    alone = (mine.tx_priorities & ~theirs.rx_priorities) | (mine.rx_priorities & ~theirs.tx_priorities)
    if not usual:
        return f"is lossless for priority {number}, and {peer} is not" if alone >> number & 1 else ""
    if deaf >> number & 1:
        return f"does not obey pauses of priority {number}, which {peer} sends"
    return f"sends no pauses of priority {number}, which {peer} would obey" if mute >> number & 1 else ""


def refused_unasked(facts: WindowFacts) -> Iterator[Sign]:
    """A lossless group drops packets for lack of space, and its port sent no pause."""
    for lane in facts.lanes.values():
        if lane.refused and not lane.pauses_out and lane.priority in facts.lossless(lane.port):
            seen = (
                _counted(facts, lane, "refused", "lossless packets dropped for lack of buffer"),
                _counted(facts, lane, "pauses_out", "pauses sent"),
            )
            yield Sign(place=lane.port, evidence=seen, weight=0.8, priority=lane.priority)


def refused_though_obeyed(facts: WindowFacts) -> Iterator[Sign]:
    """A lossless group drops packets for lack of space, although it sent pauses and its peer obeyed them."""
    for lane in facts.lanes.values():
        peer = facts.lane(facts.peer(lane.port), lane.priority)
        if lane.refused and lane.pauses_out and peer.pauses_in and not peer.ignored and peer.tx_packets:
            seen = [
                _counted(facts, lane, "refused", "packets dropped that arrived after its pause"),
                _counted(facts, lane, "pauses_out", f"pauses sent to {peer.port}"),
                not_sending(facts, peer),
            ]
            weight = 0.9
            config = facts.config(lane.port)
            if config:
                room = config.groups[config.priority_to_group[lane.priority]].headroom
                says = f"of {room / 1000:.1f} KB of headroom used, as sampled"
                seen.append(counted(facts, lane, says, measures.HEADROOM_PEAK, lane.headroom))
            yield Sign(place=lane.port, evidence=tuple(seen), weight=weight, priority=lane.priority)


def a_lossless_class_drops(facts: WindowFacts) -> Iterator[Sign]:
    """A queue of a lossless class drops packets because the headroom is full."""
    for lane in facts.lanes.values():
        if lane.drops.get("headroom"):
            yield Sign(
                place=lane.port, evidence=(_dropped(facts, lane, "headroom"),), weight=0.9, priority=lane.priority
            )


def link_pause_frames(facts: WindowFacts) -> Iterator[Sign]:
    """A port receives 802.3x PAUSE frames: its peer uses link-level flow control, which lossless ports ignore."""
    for port in facts.ports.values():
        if port.global_pause:
            seen = Evidence(
                says="802.3x PAUSE frames received",
                of=port.name,
                source="rx_global_pause",
                value=port.global_pause,
                at=facts.end,
            )
            yield Sign(port.peer, (seen,), 0.96)


def frames_that_are_no_pfc(facts: WindowFacts) -> Iterator[Sign]:
    """A port receives MAC control frames with a wrong address or opcode, or PFC frames that enable no priority."""
    for port in facts.ports.values():
        lanes = facts.by_port.get(port.name, ())
        named = sum(lane.pauses_in + lane.resumes_in + lane.ignored for lane in lanes)
        if port.invalid:
            says = "MAC control frames received that are not PFC"
            yield Sign(
                port.peer,
                (Evidence(says=says, of=port.name, source="rx_pfc_invalid", value=port.invalid, at=facts.end),),
                0.96,
            )
        elif port.pfc and not named:
            says = "PFC frames received that enable no priority"
            yield Sign(
                port.peer, (Evidence(says=says, of=port.name, source="rx_pfc", value=port.pfc, at=facts.end),), 0.9
            )


def storm_unseen_by_a_watchdog(facts: WindowFacts) -> Iterator[Sign]:
    """A port is paused permanently and has no working watchdog, while watchdogs work or are enabled elsewhere."""
    stormed = list(paused_for_ever_by_a_host(facts))
    for sign in stormed:
        port = facts.peer(sign.place)
        lane = facts.lane(port, sign.priority or 0)
        if lane.storms or lane.drops.get("watchdog") or lane.paused <= FOREVER or not lane.shallowest:
            continue
        if elsewhere := _watched_elsewhere(facts, port):
            says = "storms detected by its watchdog"
            unseen = Evidence(says=says, of=port, source=measures.STORMS.series(lane.priority), value=0, at=facts.end)
            yield Sign(place=port, evidence=(*sign.evidence, unseen, *elsewhere), weight=0.97, priority=lane.priority)


def watchdog_takes_gaps_for_the_end(facts: WindowFacts) -> Iterator[Sign]:
    """A host pauses a leaf's port most of the time, and its watchdog declares the storm over in the gaps."""
    for lane in _towards_hosts(facts):
        if min(lane.storms, lane.restored) < _AGAIN or lane.resumes_in or lane.paused <= _MOSTLY:
            continue
        gap = facts.seconds * (1 - lane.paused) / max(lane.pauses_in, 1)
        known = facts.config(lane.port) if facts.current else None
        if known and known.pfc.watchdog.restoration > gap:
            continue
        seen = [
            counted(facts, lane, "storms detected by its watchdog", measures.STORMS, lane.storms),
            counted(facts, lane, "storms that it declared over", measures.STORMS_RESTORED, lane.restored),
            _counted(facts, lane, "pauses_in", f"pauses from {facts.peer(lane.port)}, and no XON"),
            not_sending(facts, lane),
        ]
        if known:
            says = f"seconds of restoration time, less than the {gap * 1e3:.0f} ms between two pauses"
            seen.append(
                Evidence(
                    says=says,
                    of=lane.port,
                    source="qos pfc.watchdog.restoration",
                    value=known.pfc.watchdog.restoration,
                    at=facts.end,
                )
            )
        yield Sign(place=lane.port, evidence=tuple(seen), weight=0.97 if known else 0.85, priority=lane.priority)


def watchdog_on_a_sibling_only(facts: WindowFacts) -> Iterator[Sign]:
    """A switch has the watchdog on none of its ports to hosts, while another switch has it on all of them.

    The fewer switches of both are named. Of as many, those whose watchdog was switched on or off in the recording,
    or else those without a watchdog, with less certainty.
    """
    having, lacking = _watched_switches(facts)
    if not having or not lacking:
        return
    changed = {port.partition(":")[0] for port in facts.switched_watchdogs}
    tied = len(having) == len(lacking)
    shown = tied and bool(changed & {*having}) != bool(changed & {*lacking})
    odd = having if len(having) < len(lacking) or (shown and changed & {*having}) else lacking
    for switch in odd:
        seen = _unlike_others(facts, switch, lacking if odd is having else having, watched=odd is having)
        yield Sign(switch, (seen,), _EITHER if tied and not shown else _ODD)


def _unlike_others(facts: WindowFacts, switch: str, others: Sequence[str], *, watched: bool) -> Evidence:
    mine, theirs = ("a", "none") if watched else ("no", "one")
    says = f"its host ports have {mine} PFC watchdog; those of {', '.join(others)} have {theirs}"
    return Evidence(says=says, of=switch, source="qos pfc.watchdog.enabled", value=int(watched), at=facts.end)


def _watched_switches(facts: WindowFacts) -> tuple[list[str], list[str]]:
    """Return the switches with a watchdog on all ports to hosts, and those with none."""
    watched = {
        switch: [config.pfc.watchdog.enabled for port in facts.ports_of(switch)
                 if facts.is_host(port.peer) and (config := facts.config(port.name))]
        for switch in facts.switches if facts.current
    }  # fmt: skip
    known = {switch: ports for switch, ports in watched.items() if ports}
    return [each for each, ports in known.items() if all(ports)], [each for each in known if not any(known[each])]


def _watched_elsewhere(facts: WindowFacts, port: str) -> tuple[Evidence, ...]:
    """Return evidence that other switches have a watchdog: their configuration, or storms in this recording."""
    node = port.partition(":")[0]
    if facts.current:
        having, lacking = _watched_switches(facts)
        return (_unlike_others(facts, node, having, watched=False),) if having and node in lacking else ()
    for lane in facts.lanes.values():
        if lane.storms_so_far and lane.port.partition(":")[0] != node:
            says = "storms detected by the watchdog of a sibling"
            return (
                Evidence(
                    says=says,
                    of=lane.port,
                    source=measures.STORMS.series(lane.priority),
                    value=lane.storms_so_far,
                    at=facts.end,
                ),
            )
    return ()


def _counted(facts: WindowFacts, lane: Lane, what: str, says: str) -> Evidence:
    return counted(facts, lane, says, LANE_COUNTS[what], getattr(lane, what))


def _dropped(facts: WindowFacts, lane: Lane, reason: str) -> Evidence:
    source = measures.drop_counter(reason).replace("{n}", str(lane.priority))
    return Evidence(says=f"dropped: {reason}", of=lane.port, source=source, value=lane.drops[reason], at=facts.end)
