"""Extract the facts of a window from a recording.

The sources are counters, events, routes, each device's own configuration, commands that users ran with their output,
and the transfers that were started. The extraction never reads injected faults, a scenario's inputs, or the intent of
the topology file. It uses only nodes, roles and cables of the topology file. ``network_changes`` has what kernels and
routing daemons report, ``traffic_facts`` what was sent.
"""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_network
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lab.diagnose.conservation.accounts import accounts
from lab.diagnose.facts import LANE_COUNTS, PORT_COUNTS, Lane, PortFacts, WindowFacts
from lab.diagnose.ip_stacks import parsed_address, parsed_network, stacks
from lab.diagnose.network_changes import (
    link_changes,
    links_before,
    nic_addresses,
    readdressed,
    routes_at,
    session_changes,
    silences,
    smallest_mtus,
)
from lab.diagnose.overlay_forwarding import forwarding
from lab.diagnose.traffic_facts import (
    arp_probes,
    commands_run,
    failed_jobs,
    failed_transfers,
    jobs_with_steps,
    started_transfers,
    swept_pairs,
    swept_paths,
)
from lab.errors import InvalidInput, UsageError
from lab.telemetry.read import measures
from lab.telemetry.read.measures import DROP_REASONS
from lab.telemetry.store.recording_folder import invalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.diagnose.overlay_forwarding import Forwarding
    from lab.model.qos.port import NodeQos
    from lab.telemetry.read.recording import Recording
    from lab.telemetry.read.series import RecordingPhase
    from lab.telemetry.read.views import PortView

_NS: Final = 10**9
_PRIORITIES: Final = range(8)


def collect(recording: Recording, window: RecordingPhase) -> WindowFacts:
    """Return the facts of a window. Raises UsageError without samples, InvalidInput if a file is damaged."""
    try:
        return _collected(recording, window)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        said = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise invalid(recording.folder.path, f"is damaged: {said}") from error


def _parse_all(facts: WindowFacts) -> None:
    """Raise ValueError for an address or a network that is none: symptoms parse them."""
    for address in facts.addresses.values():
        parsed_address(address)
    for stack in facts.stacks.values():
        for prefix in chain.from_iterable(stack.networks.values()):
            ip_network(prefix)
    tables = (stack.routes or () for stack in facts.stacks.values())
    for prefix in chain(chain.from_iterable(facts.routes.values()), (route.prefix for route in chain(*tables))):
        parsed_network(prefix)


def _collected(recording: Recording, window: RecordingPhase) -> WindowFacts:
    if not len(recording.samples["ns"]):
        raise UsageError(f"{recording.name} has no samples to diagnose", "record again, for longer")
    start = recording.clock.start
    missing: list[str] = []
    plain = all(recording.port(port).plain for port in recording.ports)
    qos, current = _configuration(recording, window, missing)
    state = _state(recording)
    links = (*links_before(recording, state), *link_changes(recording, window.end))
    lost = _lost_devices(recording, window.end)
    facts = WindowFacts(
        start=(window.start - start) / _NS,
        end=(window.end - start) / _NS,
        ports=dict(_ports(recording, window, plain)),
        lanes=dict(_lanes(recording, window)),
        devices={device: _device(recording, device, window) for device in recording.devices if device not in lost},
        without_device=lost,
        addresses=nic_addresses(recording, state),
        routes=routes_at(recording, state, window, missing),
        links=tuple(each for each in links if each.seconds >= (window.start - start) / _NS),
        mtus=smallest_mtus(links, (window.start - start) / _NS),
        down=frozenset(port for port, up in {each.port: each.up for each in links}.items() if not up),
        readdressed=readdressed(recording, window.end),
        sessions=tuple(session_changes(recording, window)),
        silences=tuple(silences(recording, window)),
        ran=tuple(commands_run(recording, window)),
        swept=tuple(swept_paths(recording, window)),
        swept_pairs=tuple(swept_pairs(recording, window)),
        gave_up=tuple(failed_transfers(recording, window)),
        failed_jobs=tuple(failed_jobs(recording, window)),
        asked=tuple(arp_probes(recording, window)),
        stacks=stacks(state, recording, window.end),
        qos=qos,
        forwarding=_overlay(recording, state, window, missing),
        bridged=recording.topology.overlay is not None and recording.topology.overlay.plain,
        plain=plain,
        planned_rates={str(end): link.rate for link in recording.topology.links for end in link.ends},
        planned_delays={str(end): link.delay for link in recording.topology.links for end in link.ends},
        current=current,
        switched_watchdogs=frozenset(_switched_watchdogs(recording, qos)) if current else frozenset(),
    )
    _parse_all(facts)
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
    jobs = tuple(jobs_with_steps(recording, window))
    facts = replace(facts, jobs=jobs)
    hops = () if plain else accounts(recording, window, peers, lossless)
    transfers = tuple(started_transfers(recording, window, facts))
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


def _switched_watchdogs(recording: Recording, now: Mapping[str, NodeQos]) -> Iterator[str]:
    """Yield the ports whose PFC watchdog was enabled or disabled since the recording began."""
    before = recording.qos()
    for node, qos in now.items():
        known = before[node].ports if node in before else {}
        for name, port in qos.ports.items():
            if name in known and known[name].pfc.watchdog.enabled is not port.pfc.watchdog.enabled:
                yield f"{node}:{name}"


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
