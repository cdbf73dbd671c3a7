"""Extract the facts of a window from a recording.

The sources are counters, events, routes, each device's own configuration, commands that users ran with their output,
and the transfers that were started. The extraction never reads injected faults, a scenario's inputs, or the intent of
the topology file. It uses only nodes, roles and cables of the topology file.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lab.diagnose.conservation.accounts import accounts
from lab.diagnose.facts import (
    LANE_COUNTS,
    PORT_COUNTS,
    ArpProbe,
    GaveUp,
    Lane,
    LinkEvent,
    PortFacts,
    Ran,
    SessionChange,
    Silence,
    StartedTransfer,
    Swept,
    SweptPair,
    WindowFacts,
)
from lab.diagnose.ip_stacks import stacks
from lab.diagnose.overlay_forwarding import forwarding
from lab.errors import InvalidInput, UsageError
from lab.model.hosts import parse_pair
from lab.telemetry.read import measures
from lab.telemetry.read.measures import DROP_REASONS
from lab.telemetry.read.recorded_jobs import recorded_jobs
from lab.telemetry.store.recording_folder import invalid
from lab.telemetry.store.session_states import TITLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.diagnose.overlay_forwarding import Forwarding
    from lab.model.qos.port import NodeQos
    from lab.telemetry.read.recorded_jobs import RecordedJob
    from lab.telemetry.read.recording import RecordedEvent, Recording
    from lab.telemetry.read.series import RecordingPhase
    from lab.telemetry.read.views import PortView

_NS: Final = 10**9
_PRIORITIES: Final = range(8)
_MAIN_TABLE: Final = 254
_DAEMONS: Final = frozenset({"bgp", "ospf"})
_LEARNT: Final = 20
"""The metric of routes that zebra installs, which is the same for all protocols."""


def collect(recording: Recording, window: RecordingPhase) -> WindowFacts:
    """Return the facts of a window. Raises UsageError without samples, InvalidInput if a file is damaged."""
    try:
        return _collected(recording, window)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        said = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise invalid(recording.folder.path, f"is damaged: {said}") from error


def _collected(recording: Recording, window: RecordingPhase) -> WindowFacts:
    if not len(recording.samples["ns"]):
        raise UsageError(f"{recording.name} has no samples to diagnose", "record again, for longer")
    start = recording.clock.start
    missing: list[str] = []
    plain = all(recording.port(port).plain for port in recording.ports)
    qos, current = _configuration(recording, window, missing)
    state = _state(recording)
    links = (*_links_before(recording, state), *_link_changes(recording, window.end))
    lost = _lost_devices(recording, window.end)
    facts = WindowFacts(
        start=(window.start - start) / _NS,
        end=(window.end - start) / _NS,
        ports=dict(_ports(recording, window, plain)),
        lanes=dict(_lanes(recording, window)),
        devices={device: _device(recording, device, window) for device in recording.devices if device not in lost},
        without_device=lost,
        addresses=_addresses(recording, state),
        routes=_routes(recording, state, window, missing),
        links=tuple(each for each in links if each.seconds >= (window.start - start) / _NS),
        mtus=_mtus(links, (window.start - start) / _NS),
        down=frozenset(port for port, up in {each.port: each.up for each in links}.items() if not up),
        readdressed=_readdressed(recording, window.end),
        sessions=tuple(_session_changes(recording, window)),
        silences=tuple(_silences(recording, window)),
        ran=tuple(_ran(recording, window)),
        swept=tuple(_swept(recording, window)),
        swept_pairs=tuple(_swept_pairs(recording, window)),
        gave_up=tuple(_gave_up(recording, window)),
        asked=tuple(_asked(recording, window)),
        stacks=stacks(state, recording, window.end),
        qos=qos,
        forwarding=_overlay(recording, state, window, missing),
        bridged=recording.topology.overlay is not None and recording.topology.overlay.plain,
        plain=plain,
        current=current,
    )
    missing += [f"the state of {node}: it did not answer" for node, known in state.items() if "complaint" in known]
    if facts.plain:
        missing.append("counters that plain links lack: classes, pauses, marks and drops (`qos: lab` in a topology)")
    if not recording.devices:
        missing.append("counters of RDMA devices: retransmissions are unknown")
    if facts.bridged:
        missing.append("the spanning tree: blocked ports and the root (`rocelab status`)")
    if recording.incomplete:
        missing.append(f"events after {recording.seconds:.1f} s: {recording.why}")
    notes = recording.events(source="caller", kind="note", during=window)
    missing += [str(note.data["said"]) for note in notes if note.data.get("text") == "held back"]
    peers = {port.name: port.peer for port in facts.ports.values() if port.peer}
    lossless = {nic: facts.lossless(nic) for nic in facts.devices}
    jobs = tuple(_jobs(recording, window))
    facts = replace(facts, jobs=jobs)
    hops = () if plain else accounts(recording, window, peers, lossless)
    transfers = tuple(_transfers(recording, window, facts))
    if not transfers:
        missing.append("traffic between hosts: no transfer is recorded")
    return replace(facts, transfers=transfers, hops=hops, missing=tuple(missing))


def _ports(recording: Recording, window: RecordingPhase, plain: bool) -> Iterator[tuple[str, PortFacts]]:
    topology = recording.topology
    peers = {str(end): str(link.other(end)) for link in topology.links for end in link.ends}
    hosts = {host.name for host in topology.hosts}
    for name in recording.ports:
        port = recording.port(name)
        if port.plain and not plain:
            continue
        counts = {
            field: round(port.value(measure, window))
            for field, measure in PORT_COUNTS.items()
            if not port.plain and port.counts(measure)
        }
        yield name, PortFacts(name, peers.get(name, ""), name.partition(":")[0] in hosts, **counts)


def _lanes(recording: Recording, window: RecordingPhase) -> Iterator[tuple[tuple[str, int], Lane]]:
    for name in recording.ports:
        port = recording.port(name)
        for priority in _PRIORITIES if not port.plain else ():
            if not _is_idle(port, priority):
                yield (name, priority), _lane(port, priority, window)


def _is_idle(port: PortView, priority: int) -> bool:
    """Return whether all counters of a priority stayed at zero. This is faster than reading every series."""
    asked = (measures.TX_PACKETS, measures.RX_PACKETS, measures.XOFF_RX, measures.XOFF_IGNORED, measures.XOFF_TX,
             measures.OFFERED_PACKETS, measures.REFUSED)  # fmt: skip
    return not any(port.series(measure, priority).last for measure in asked)


def _lane(port: PortView, priority: int, window: RecordingPhase) -> Lane:
    counts = {field: round(port.value(measure, window, priority)) for field, measure in LANE_COUNTS.items()}
    depth = port.depth(priority).during(window)
    storms = port.series(measures.STORMS, priority)
    drops = {
        reason: count for reason in DROP_REASONS if (count := port.drops(priority, reason).during(window).delta())
    }
    return Lane(
        port.name,
        priority,
        **counts,
        paused=port.value(measures.PAUSED, window, priority),
        depth=float(depth.values.mean()) if len(depth) else 0.0,
        deepest=depth.max,
        shallowest=int(depth.values.min()) if len(depth) else 0,
        spread=int(np.quantile(depth.values, 0.9) - np.quantile(depth.values, 0.1)) if len(depth) else 0,
        drops=drops,
        headroom=round(port.value(measures.HEADROOM_PEAK, window, priority)),
        storms_so_far=storms.between(storms.clock.start, window.end).delta(),
    )


def _lost_devices(recording: Recording, until: int) -> dict[str, float]:
    """Return the NICs that lost their RDMA device by a time, and when."""
    found: dict[str, float] = {}
    for event in recording.events(source="rdma", kind="device_gone"):
        if event.ns <= until:
            found.setdefault(f"{event.node}:{event.interface}", event.seconds)
    return found


def _device(recording: Recording, device: str, window: RecordingPhase) -> dict[str, int]:
    known = recording.rdma(device)
    return {name: known.counter(name).during(window).delta() for name, gauge in known.counters.items() if not gauge}


def _configuration(
    recording: Recording, window: RecordingPhase, missing: list[str]
) -> tuple[Mapping[str, NodeQos], bool]:
    """Return the devices' configuration in the window and True, or the initial configuration and False."""
    try:
        return recording.qos_at(window.end)
    except InvalidInput:
        raise
    except UsageError:
        missing.append("the configuration of the devices")
        return {}, False


def _overlay(
    recording: Recording, state: Mapping[str, Any], window: RecordingPhase, missing: list[str]
) -> dict[str, Forwarding]:
    """Return the forwarding state of an overlay's nodes at the end of the window; empty without an overlay."""
    said = recording.forwarding_at(window.end)
    found = forwarding(said)
    missing += [f"the forwarding state of {node}: it did not answer" for node in said if node not in found]
    tunnelled = any("dst" in entry for node in state.values() for entry in node.get("fdb", ()))
    if tunnelled and not said:
        missing.append("the overlay: tunnels, gateways and the BGP configuration")
    return found


def _state(recording: Recording) -> Mapping[str, Any]:
    try:
        return recording.state("before")
    except InvalidInput:
        raise
    except UsageError:
        return {}


def _addresses(recording: Recording, state: Mapping[str, Any]) -> dict[str, str]:
    """Return the address from which each host's kernel sends by a NIC: prefsrc of the link's route."""
    found: dict[str, str] = {}
    hosts = {host.name for host in recording.topology.hosts}
    for node, known in state.items():
        for route in known.get("routes", ()) if node in hosts else ():
            if (
                route.get("protocol") == "kernel"
                and route.get("scope") == "link"
                and {"dev", "prefsrc"} <= route.keys()
            ):
                found.setdefault(f"{node}:{route['dev']}", str(route["prefsrc"]))
    return found


def _routes(
    recording: Recording, state: Mapping[str, Any], window: RecordingPhase, missing: list[str]
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the next hops' interfaces by switch and prefix: the initial routes, updated by the kernel's events.

    Of several routes to a prefix, the one with the lowest metric is used. A blackhole or unreachable route has no
    next hops.
    """
    known: dict[str, dict[str, dict[str, tuple[int, tuple[str, ...]]]]] = {}
    for switch in recording.topology.switches:
        mine = known.setdefault(switch.name, {})
        for route in state.get(switch.name, {}).get("routes", ()):
            if prefix := _prefix(route):
                metric, maker = int(route.get("metric", 0)), str(route.get("protocol", ""))
                hops = _outgoing(route) if route.get("type", "unicast") == "unicast" else ()
                others = mine.setdefault(prefix, {})
                others[maker] = min(others.get(maker, (metric, hops)), (metric, hops), key=lambda each: each[0])
    if not state:
        missing.append("routes")
    cabled = {str(end) for link in recording.topology.links for end in link.ends}
    for event in recording.events(source="kernel", kind="route"):
        if event.ns <= window.end and event.node in known and _is_main(event, cabled):
            _change(known[event.node].setdefault(str(event.data["prefix"]), {}), event)
    return {
        switch: {
            prefix: min(routes.values(), key=lambda each: each[0])[1] for prefix, routes in prefixes.items() if routes
        }
        for switch, prefixes in known.items()
    }


def _change(routes: dict[str, tuple[int, tuple[str, ...]]], event: RecordedEvent) -> None:
    """Apply a kernel event to the routes to a prefix, which are keyed by protocol."""
    maker = str(event.data.get("protocol", ""))
    if event.data.get("gone"):
        routes.pop(maker, None)
        return
    hops = tuple(event.data.get("interfaces", ())) if event.data.get("type") == "unicast" else ()
    learnt = routes.get(maker, (_LEARNT if maker in _DAEMONS else 0, ()))[0]
    routes[maker] = (int(event.data.get("metric", learnt)), hops)


def _is_main(event: RecordedEvent, cabled: set[str]) -> bool:
    """Return whether a route is in the main table.

    Old recordings do not contain the table. There, a route counts as main if all of its next hops are cabled ports,
    which those of a VRF are not.
    """
    if "table" in event.data:
        return int(event.data["table"]) == _MAIN_TABLE
    return all(f"{event.node}:{hop}" in cabled for hop in event.data.get("interfaces", ()))


def _prefix(route: Mapping[str, Any]) -> str:
    """Return a route's prefix with its length, which ip omits for single addresses.

    Return "" for a default route and for a route of a VRF.
    """
    prefix = str(route.get("dst", ""))
    if "table" in route or prefix in {"", "default"}:
        return ""
    return prefix if "/" in prefix else f"{prefix}/{128 if ':' in prefix else 32}"


def _outgoing(route: Mapping[str, Any]) -> tuple[str, ...]:
    hops = route.get("nexthops") or [route]
    return tuple(sorted(str(hop["dev"]) for hop in hops if "dev" in hop))


def _links_before(recording: Recording, state: Mapping[str, Any]) -> Iterator[LinkEvent]:
    """Yield the state of links at the beginning of the recording; nothing for old recordings."""
    cabled = {str(end) for link in recording.topology.links for end in link.ends}
    for node, known in state.items():
        for link in known.get("links", ()):
            if (port := f"{node}:{link['ifname']}") in cabled:
                yield LinkEvent(seconds=-1.0, port=port, up="LOWER_UP" in link["flags"], mtu=int(link["mtu"]))


def _link_changes(recording: Recording, until: int) -> Iterator[LinkEvent]:
    for event in recording.events(source="kernel", kind="link"):
        if event.ns <= until and event.interface != "lo":
            port = f"{event.node}:{event.interface}"
            yield LinkEvent(
                seconds=event.seconds, port=port, up=bool(event.data.get("up")), mtu=int(event.data.get("mtu", 0))
            )


def _readdressed(recording: Recording, until: int) -> dict[str, float]:
    """Return the NICs whose host lost the route of their link and has it again, with the time."""
    hosts = {host.name for host in recording.topology.hosts}
    lost: dict[tuple[str, str], tuple[str, ...]] = {}
    found: dict[str, float] = {}
    for event in recording.events(source="kernel", kind="route"):
        if event.node in hosts and event.ns <= until and event.data.get("protocol") == "kernel":
            key = (event.node, str(event.data["prefix"]))
            interfaces = tuple(map(str, event.data.get("interfaces", ())))
            if event.data.get("gone"):
                lost[key] = interfaces
            elif key in lost:
                found.update({f"{event.node}:{each}": event.seconds for each in interfaces or lost[key]})
    return found


def _mtus(links: tuple[LinkEvent, ...], begin: float) -> dict[str, int]:
    """Return each port's smallest MTU in the window, from the kernel's link events."""
    found: dict[str, int] = {}
    for each in links:
        earlier = each.seconds < begin
        found[each.port] = each.mtu if earlier else min(each.mtu, found.get(each.port, each.mtu))
    return found


def _session_changes(recording: Recording, window: RecordingPhase) -> Iterator[SessionChange]:
    """Yield the changes in the window, and sessions that are down throughout it."""
    missing: dict[tuple[str, str], SessionChange] = {}
    for event in recording.events(source="routing"):
        if event.kind not in TITLES:
            continue
        port = f"{event.node}:{event.interface}"
        change = SessionChange(seconds=event.seconds, port=port, state=str(event.data["state"]), kind=event.kind)
        if event.ns > window.end:
            break
        if event.ns >= window.start and event.data.get("before"):
            missing.pop((port, event.kind), None)
            yield change
        elif change.is_up:
            missing.pop((port, event.kind), None)
        else:
            missing[port, event.kind] = change
    yield from missing.values()


def _silences(recording: Recording, window: RecordingPhase) -> Iterator[Silence]:
    gone: dict[tuple[str, str], float] = {}
    for event in recording.events(source="routing"):
        daemon = event.node, str(event.data.get("daemon"))
        if event.kind == "daemon_silent" and window.start <= event.ns <= window.end:
            yield Silence(event.seconds, *daemon, gone=False)
        elif event.kind == "daemon_lost" and event.ns <= window.end:
            gone[daemon] = event.seconds
        elif event.kind == "daemon_back" and event.ns <= window.start:
            gone.pop(daemon, None)
    for (node, name), seconds in gone.items():
        yield Silence(seconds, node, name, gone=True)


def _ran(recording: Recording, window: RecordingPhase) -> Iterator[Ran]:
    for command in recording.commands:
        if window.start <= command.ns and command.end_ns <= window.end:
            seconds = (command.ns - recording.clock.start) / _NS
            yield Ran(
                seconds=seconds,
                node=command.node,
                argv=command.argv,
                exit_code=command.exit_code,
                printed=command.stdout,
            )


def _swept(recording: Recording, window: RecordingPhase) -> Iterator[Swept]:
    for event in recording.events(source="caller", kind="note", during=window):
        if event.data.get("text") == "swept":
            (sent, came), (large_sent, large_came) = event.data["small"], event.data["large"]
            first, *others = map(str, event.data["path"])
            port, size = int(event.data["port"]), int(event.data["size"])
            yield Swept(
                seconds=event.seconds,
                path=(first, *others),
                port=port,
                size=size,
                sent=int(sent),
                came=int(came),
                large_sent=int(large_sent),
                large_came=int(large_came),
                delay=_seconds(event.data.get("delay")),
            )


def _swept_pairs(recording: Recording, window: RecordingPhase) -> Iterator[SweptPair]:
    for event in recording.events(source="caller", kind="note", during=window):
        if event.data.get("text") == "swept pairs":
            for src, dst, sent, came, delay in event.data["pairs"]:
                yield SweptPair(
                    seconds=event.seconds, src=str(src), dst=str(dst), sent=int(sent), came=int(came),
                    delay=_seconds(delay),
                )  # fmt: skip


def _seconds(ns: Any) -> float | None:
    return None if ns is None else int(ns) / _NS


def _asked(recording: Recording, window: RecordingPhase) -> Iterator[ArpProbe]:
    for event in recording.events(source="caller", kind="note", during=window):
        if event.data.get("text") == "asked":
            port, macs = f"{event.node}:{event.data['port']}", frozenset(map(str, event.data["answers"]))
            yield ArpProbe(seconds=event.seconds, port=port, address=str(event.data["address"]), macs=macs)


def _gave_up(recording: Recording, window: RecordingPhase) -> Iterator[GaveUp]:
    for event in recording.events(source="caller", kind="note", during=window):
        if event.data.get("text") == "gave up" and "pair" in event.data:
            yield GaveUp(event.seconds, str(event.data["pair"]), str(event.data["said"]))


def _jobs(recording: Recording, window: RecordingPhase) -> Iterator[RecordedJob]:
    """Yield the training jobs, each with the steps that ended in the window; without such steps it is left out."""
    for job in recorded_jobs(recording):
        if steps := tuple(each for each in job.steps if window.start <= each.end <= window.end):
            yield replace(job, steps=steps)


def _transfers(recording: Recording, window: RecordingPhase, facts: WindowFacts) -> Iterator[StartedTransfer]:
    """Yield the last transfer of each pair before the end of the window, if its sender sends or has packets queued.

    Those that a scenario announces are known from their start, others, such as those of ``rdma bw``, when they have
    ended. A transfer with a recorded GID index is yielded in any case.
    """
    latest: dict[tuple[str, str], StartedTransfer] = {}
    for event in recording.events(source="caller", kind="note"):
        if event.ns <= window.end and event.data.get("text") == "traffic":
            for pair in event.data.get("pairs", ()):
                src, dst = (_nic(recording, facts, name) for name in _ends(str(pair)))
                index = event.data.get("gid_index")
                made = StartedTransfer(
                    src=src,
                    dst=dst,
                    qps=int(event.data.get("qps", 1)),
                    gid_index=None if index is None else int(index),
                )
                latest[src, dst] = made
    for each in recording.transfers():
        if each.ns <= window.end and each.end_ns >= window.start:
            ends = (each.dst, each.src) if each.verb == "read" else (each.src, each.dst)
            src, dst = (_nic(recording, facts, name) for name in ends)
            latest.setdefault((src, dst), StartedTransfer(src=src, dst=dst, qps=each.qps))
    for job in facts.jobs:
        for made in _of_job(job):
            latest.setdefault((made.src, made.dst), made)
    for transfer in latest.values():
        lanes = [lane for port in facts.links_of(transfer.src) for lane in facts.by_port.get(port.name, ())]
        if transfer.gid_index is not None or any(lane.tx_bytes > 10_000 or lane.deepest > 10_000 for lane in lanes):
            yield transfer


def _of_job(job: RecordedJob) -> Iterator[StartedTransfer]:
    """Yield a transfer for each pair of NICs that QPs of a job connect; QPs of one UDP source port are one flow."""
    nics = {each.rank: f"{each.node}:{each.interface}" for each in job.ranks}
    known = job.about.qps if job.about else ()
    flows = {(nics.get(qp.rank), nics.get(qp.peer_rank), qp.source_port) for qp in known}
    pairs = Counter((src, dst) for src, dst, _ in flows)
    for (src, dst), qps in sorted(pairs.items(), key=str):
        if src is not None and dst is not None:
            yield StartedTransfer(src=src, dst=dst, qps=qps)


def _ends(pair: str) -> tuple[str, str]:
    """Return the two ends of a recorded pair. Raises ValueError if it is damaged."""
    try:
        return parse_pair(pair)
    except UsageError as error:
        raise ValueError(error.message) from error


def _nic(recording: Recording, facts: WindowFacts, name: str) -> str:
    """Return ``h1:eth2`` itself, or for ``h1`` its first NIC, in the order of ``lab.rdma.nic_choice``."""
    cabled = (port.name for port in facts.ports_of(name) if port.peer)
    known = (*(nic for nic in recording.devices if nic in facts.addresses), *recording.devices, *cabled)
    return name if ":" in name else next((nic for nic in known if nic.partition(":")[0] == name), name)
