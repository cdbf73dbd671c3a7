"""``rocelab congestion``: pause trees, from the congested queue to the paused hosts, and the CNPs of NICs."""

from __future__ import annotations

import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lab.backends.live_qos import require_ports
from lab.cli.kit.complete import FabricOption
from lab.cli.kit.interrupt import ends_on_signals
from lab.cli.kit.open_fabric import open_fabric
from lab.cli.kit.option_value import read_value
from lab.cli.kit.output import JsonFlag, print_json, stdout, table
from lab.cli.tables.pause_tree_view import Branch, draw
from lab.dataplane import counters, events
from lab.dataplane.pause_graph import Observation, trees
from lab.dataplane.port_maps import open_maps
from lab.errors import UsageError
from lab.model.qos.port import CLASSES
from lab.telemetry.read import measures
from lab.units import format_size, format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.tree import Tree

    from lab.backends.backend import Fabric
    from lab.dataplane.pause_graph import PortPause, Root

_NIC_COLUMNS: Final = ("NIC", *(measure.title for measure in measures.NIC_MEASURES))
_LOOKS: Final = 20
"""Readings of the queues, spread evenly over the observation: pauses last only milliseconds."""


def congestion(
    priority: Annotated[int | None, typer.Option(min=0, max=CLASSES - 1, help="Only this priority.")] = None,
    span: Annotated[str, typer.Option("--for", help="How long to observe.")] = "1s",
    fabric: FabricOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show pause trees: from the congested queue to the hosts that it stops, and the length of each pause.

    A table lists the NICs whose congestion control was active: marked packets received, CNPs sent and obeyed. In
    JSON, these counters are those of rocelab counters --json.
    """
    seconds = _span(span)
    running = open_fabric(fabric)
    require_ports(running)
    observed = _observed(running, seconds)
    found = trees(observed, range(CLASSES) if priority is None else [priority])
    if as_json:
        print_json([_as_data(root) for root in found])
    elif not found:
        stdout.print(f"no port was paused in {format_time(seconds)}", highlight=False)
    else:
        for root in found:
            stdout.print(_drawn(root))
    if not as_json and (rows := list(_notified(observed))):
        stdout.print(table(f"congestion control of NICs in {format_time(seconds)}", _NIC_COLUMNS, rows))


def _notified(observed: Observation) -> Iterator[tuple[str | int, ...]]:
    """Yield a row for each NIC whose congestion control received or sent anything."""
    for name, movement in observed.movements.items():
        for interface in movement.node.interfaces[: movement.node.nics]:
            record = movement.port(interface)
            grown = [int(record[counter]) for measure in measures.NIC_MEASURES for counter in measure.counters]
            if any(grown):
                yield (f"{name}:{interface}", *grown)


def _span(text: str) -> float:
    seconds = read_value("--for", text, parse_time)
    if not 0 < seconds <= 3600:
        raise UsageError(f"--for {text} is out of range", "choose up to 1h, like 1s")
    return seconds


def _observed(fabric: Fabric, seconds: float) -> Observation:
    maps, ended = open_maps(fabric.name), threading.Event()
    peers = {end: link.other(end) for link in fabric.topology.links for end in link.ends}
    readings = []
    with ends_on_signals(ended.set):
        for _ in range(_LOOKS + 1):
            readings.append({name: counters.read(maps, node) for name, node in fabric.numbering.nodes.items()})
            if len(readings) > 1 and ended.is_set():
                break
            ended.wait(seconds / _LOOKS)
    return Observation(
        readings=readings, events=events.read_events(maps, fabric.numbering.names), qos=fabric.qos, peers=peers
    )


def _drawn(root: Root) -> Tree:
    if root.end is not None:
        head = f"{root.end}, priority {root.priority}: up to {format_size(root.depth)} in its queue"
    elif any(pause.forged for pause in root.pauses):
        head = f"priority {root.priority}: pauses that no port has sent"
    else:
        head = f"priority {root.priority}: pauses in a circle"
    return draw(head, map(_branch, root.pauses))


def _branch(pause: PortPause) -> Branch:
    since = "" if pause.since is None else f", since {events.clock(pause.since):%H:%M:%S}"
    sent = "sent by no port" if pause.forged else f"{pause.xoffs} XOFF"
    text = f"{pause.end} pauses {pause.peer}: {pause.share:.0%} of the time, {sent}{since}"
    return Branch(text, tuple(map(_branch, pause.behind)))


def _as_data(root: Root) -> dict[str, Any]:
    end = None if root.end is None else str(root.end)
    return {**asdict(root), "end": end, "pauses": [_pause_data(pause) for pause in root.pauses]}


def _pause_data(pause: PortPause) -> dict[str, Any]:
    since = None if pause.since is None else events.clock(pause.since).isoformat()
    names = {"end": str(pause.end), "peer": str(pause.peer), "since": since}
    return {**asdict(pause), **names, "behind": [_pause_data(each) for each in pause.behind]}
