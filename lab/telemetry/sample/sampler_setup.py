"""Set up the processes that record a fabric: open all counters and event sources, start sampler and capture."""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab.backends.capture_points import points_of
from lab.dataplane import port_maps
from lab.dataplane.events import Tail
from lab.errors import OperationFailed
from lab.kernel.netlink import netlink_events
from lab.kernel.netlink.interfaces import indices, interfaces
from lab.kernel.netlink.netlink_events import EventGroup
from lab.kernel.packets.live_capture import LiveCapture
from lab.kernel.process.time_source import lives_in
from lab.rdma import rxe
from lab.telemetry.sample.child_process import ChildProcess, allow
from lab.telemetry.sample.command_records import CommandRecords
from lab.telemetry.sample.finished_steps import FinishedSteps
from lab.telemetry.sample.link_source import LinkSource
from lab.telemetry.sample.port_source import PortSource, describe_events
from lab.telemetry.sample.qp_rates import QpRates
from lab.telemetry.sample.queue_pairs import QueuePairs
from lab.telemetry.sample.rdma_source import RdmaSource
from lab.telemetry.sample.routing_sessions import Sessions
from lab.telemetry.sample.sampler import Sampler
from lab.telemetry.sample.setting_changes import SettingChanges
from lab.telemetry.store.rawlog import LogWriter
from lab.telemetry.store.recording_folder import Folder
from lab.wire.pcapng import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.backends.backend import Fabric
    from lab.kernel.packets.live_capture import Point
    from lab.telemetry.sample.child_process import Control
    from lab.telemetry.sample.sampler import Source

_NS: Final = 10**9
_SPARE: Final = 64
"""Allowance for other open files."""


def sampling(folder: Folder, fabric: Fabric, hz: float) -> ChildProcess:
    """Start the process that samples a fabric into a recording's log."""
    return _sampling(f"the sampler of {folder.path}", folder.log, fabric, hz)


def watching(fabric: Fabric, hz: float, descriptor: int, view: Path | None = None) -> ChildProcess:
    """Start the process that samples a fabric for a live reader; it takes over the descriptor.

    With ``view``, a folder that gets records of commands and jobs (``recorders.viewing``), these are logged, and the
    events of ports and links, too. Other events of the kernel are not logged.
    """
    return _sampling(f"the sampler of {fabric.name}", descriptor, fabric, hz, view)


def _sampling(name: str, target: Path | int, fabric: Fabric, hz: float, view: Path | None = None) -> ChildProcess:
    nodes = fabric.topology.nodes
    allow(5 * len(nodes) + 32 * len(nodes) + _SPARE)
    with ExitStack() as opened:
        sampler = _sampler(target, fabric, hz, view, opened)
        descriptors = [sampler.log.descriptor, *(listener.fileno() for listener in sampler.listeners)]
        for told in (sampler.sessions, sampler.queue_pairs, sampler.settings):
            descriptors += told.descriptors if told is not None else []
        for source in sampler.sources:
            descriptors += getattr(source, "descriptors", [])
        return ChildProcess(name, sampler.run, descriptors)


def _sampler(target: Path | int, fabric: Fabric, hz: float, view: Path | None, opened: ExitStack) -> Sampler:
    start = time.monotonic_ns()
    nodes = [node for node in fabric.topology.nodes if fabric.namespace(node.name).answers()]
    sources = counter_sources(fabric, opened)
    tail, described = _port_events(fabric)
    listeners = []
    if isinstance(target, Path):
        listeners = [opened.enter_context(netlink_events.listener(fabric.namespace(node.name))) for node in nodes]
    elif view is not None:
        listeners = [
            opened.enter_context(netlink_events.listener(fabric.namespace(node.name), EventGroup.LINK))
            for node in nodes
        ]
    else:
        tail = None
    sessions = Sessions({node.name: fabric.router(node.name) for node in fabric.topology.switches}, start)
    opened.callback(sessions.close)
    devices = rdma_devices(fabric)
    queue_pairs = QueuePairs(devices, start) if devices else None
    if queue_pairs is not None:
        opened.callback(queue_pairs.close)
    header = {
        "fabric": fabric.name,
        "time": lives_in(),
        "sections": [section.as_data() for source in sources for section in source.sections],
        "port_events": described,
        "nodes": [{"name": node.name, "interfaces": _interfaces(fabric, node.name)} for node in nodes],
    }
    if view is not None:  # after the listeners were opened: no change is missed
        header["links"] = {
            f"{node.name}:{name}": state.up
            for node in nodes
            for name, state in interfaces(fabric.namespace(node.name)).items()
            if name in fabric.plan[node.name].interfaces
        }
    log = LogWriter(target, header, start, sum(source.width for source in sources))
    opened.callback(log.close)
    settings = SettingChanges(fabric, Folder(target.parent)) if isinstance(target, Path) else None
    if settings is not None:
        opened.callback(settings.close)
    counted = next((source for source in sources if isinstance(source, RdmaSource)), None)
    return Sampler(
        log=log,
        sources=sources,
        interval=round(_NS / hz),
        is_live=_is_live(fabric),
        tail=tail,
        listeners=listeners,
        sessions=sessions,
        queue_pairs=queue_pairs,
        qp_rates=_qp_rates(fabric, start),
        job_steps=None if isinstance(target, Path) else FinishedSteps(fabric.state.job_steps, start),
        devices=counted,
        settings=settings,
        commands=CommandRecords(view, start) if view is not None else None,
        announces=not isinstance(target, Path),
    )


def counter_sources(fabric: Fabric, opened: ExitStack) -> list[Source]:
    """Open all counters of a fabric: of ports or plain links, then of RDMA devices. ``opened`` closes them.

    Plain links of nodes that do not answer are left out.
    """
    sources: list[Source] = []
    if fabric.topology.qos is not None:
        sources.append(PortSource(port_maps.open_maps(fabric.name), fabric.numbering, 0))
    else:
        wanted = {
            name: (namespace, tuple(plan.interfaces))
            for name, plan in fabric.plan.items()
            if (namespace := fabric.namespace(name)).answers()
        }
        sources.append(LinkSource(wanted, 0))
    if devices := rdma_devices(fabric):
        sources.append(RdmaSource(devices, sources[0].width))
    for source in sources:
        opened.callback(source.close)
    return sources


def _port_events(fabric: Fabric) -> tuple[Tail | None, dict[str, Any] | None]:
    """Return the event log of lossless ports and its layout; None without such ports."""
    if fabric.topology.qos is None:
        return None, None
    tail = Tail(port_maps.open_maps(fabric.name), fabric.numbering.names)
    tail.fresh()
    return tail, describe_events(fabric.numbering)


def _qp_rates(fabric: Fabric, now: int) -> QpRates | None:
    """Return the reader of limited QPs; None if the fabric has no NICs with emulated ports."""
    hosts = [ports for ports in fabric.numbering.nodes.values() if ports.nics]
    if fabric.topology.qos is None or not hosts:
        return None
    return QpRates(port_maps.open_maps(fabric.name), hosts, now)


def rdma_devices(fabric: Fabric) -> list[tuple[str, str, str]]:
    """Return node, interface and device name of each RDMA device of a fabric."""
    return [
        (host.name, interface, rxe.device_name(fabric.name, host.name, interface))
        for host in fabric.topology.hosts
        if host.rdma
        for interface in fabric.plan[host.name].nics
    ]


def _interfaces(fabric: Fabric, node: str) -> dict[int, str]:
    return {index: name for name, index in indices(fabric.namespace(node)).items()}


def _is_live(fabric: Fabric) -> Callable[[], bool]:
    """Return a check whether this fabric still exists: a new one of the same name has another journal."""
    journal = port_maps.Pin.of(fabric.state.journal)
    return journal.is_there


def capturing(folder: Folder, fabric: Fabric, links: Sequence[str], snaplen: int) -> ChildProcess:
    """Start the process that captures some links into a recording, ``snaplen`` bytes of each packet.

    UsageError if there is no such link.
    """
    points = points_of(fabric, links)
    folder.captures.mkdir(exist_ok=True)
    file = os.open(folder.captures / "packets.pcapng", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        capture = ChildProcess(
            f"the capture of {folder.path}", lambda control: _capture(control, file, points, snaplen), [file]
        )
    finally:
        os.close(file)
    said = capture.ask({"do": "begin"})
    if "error" in said:
        capture.end()
        raise OperationFailed(f"recording {folder.path}: {said['error']}")
    return capture


def _capture(control: Control, file: int, points: Sequence[Point], snaplen: int) -> None:
    """Capture until the parent closes its socket or ends."""
    control.heard()
    with FileIO(file, "wb", closefd=False) as sink, LiveCapture(points, Writer(sink), snaplen=snaplen) as capture:
        control.say({"begun": True})

        def wait() -> None:
            control.heard()
            capture.interrupt()

        threading.Thread(target=wait, daemon=True).start()
        capture.run()
