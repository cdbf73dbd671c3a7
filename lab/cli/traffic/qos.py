"""``rocelab qos show``, ``set`` and ``events``: configuration, changes and events of lossless ports."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lab.backends.live_qos import change_qos, deviations, require_ports
from lab.cli.kit.cc_data import cc_data
from lab.cli.kit.complete import FabricOption, port_names
from lab.cli.kit.fit_columns import Column, TableLayout
from lab.cli.kit.interrupt import ends_on_signals
from lab.cli.kit.open_fabric import open_fabric, tell
from lab.cli.kit.output import JsonFlag, print_json, stderr, stdout
from lab.cli.tables.qos_table import port_tables, summary
from lab.dataplane import events
from lab.dataplane.port_maps import open_maps
from lab.errors import UsageError
from lab.model.qos.qos_store import dump_node
from lab.model.values.link_selection import PORT_FORMS, choose_ports, every_port

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.backends.backend import Fabric
    from lab.dataplane.events import PortEvent
    from lab.model.topology import Endpoint

_LOOK: Final = 0.2
"""Seconds between two reads of the log with ``--follow``."""
_EVENT_COLUMNS: Final = (
    Column("time", "time", 1), Column("seconds", "seconds", 3), Column("port", "port"), Column("peer", "peer", 2),
    Column("event", "event"), Column("of", "of"), Column("with", "with"),
)  # fmt: skip

PortNames = Annotated[
    list[str] | None,
    typer.Argument(
        help="leaf1:swp1; leaf1 (a node); leaf (a tier). \\[default: every port]",
        metavar="[PORT]...",
        autocompletion=port_names,
    ),
]


def show(ports: PortNames = None, fabric: FabricOption = None, as_json: JsonFlag = False) -> None:
    """Show the configuration of each port, and whether the kernel matches it; for one port, all settings."""
    running = _open(fabric)
    chosen = _chosen(running, ports)
    unlike = deviations(running, chosen)
    if as_json:
        print_json({"fabric": running.name, "emulated": True, "nodes": _as_data(running, chosen, unlike)})
    elif len(chosen) == 1:
        (end,) = chosen
        qos = running.qos[end.node]
        host = not running.topology.node(end.node).role.is_switch
        for part in port_tables(end, qos, qos.ports[end.interface], unlike[end], host=host):
            stdout.print(part)
    else:
        drawn, left_out = summary(running.name, running.qos, unlike, stdout.width)
        stdout.print(drawn)
        if left_out:
            where = f"rocelab qos show {chosen[0]} shows all of one port, --json of all ports"
            stderr.print(f"No room for {', '.join(left_out)}: {where}", markup=False, highlight=False, soft_wrap=True)


def set_(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            help="Ports (leaf1:swp1,leaf1:swp2 leaf2 host), then settings: ecn.3.kmin=20KB pfc.tx=false"
            " nic.drain=50Mbit (or none); rate=50Mbit and delay=1ms are the link's.",
            metavar="PORT... SETTING=VALUE...",
            autocompletion=port_names,
        ),
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="First apply a profile of the topology file, or a preset: lab, sonic, ...")
    ] = None,
    everywhere: Annotated[bool, typer.Option("--all", help="Change every port of the fabric.")] = False,
    fabric: FabricOption = None,
) -> None:
    """Change ports while traffic runs. Applies all settings, or none."""
    from lab.model.qos.port_change import QosRequest  # noqa: PLC0415 - its schema, and so pydantic, is for changes only

    settings = [word for word in words or () if "=" in word]
    names = [name for word in words or () if "=" not in word for name in word.split(",")]
    running = _open(fabric)
    if not settings and profile is None:
        raise UsageError("nothing to set", "add settings like ecn.3.kmin=20KB, or --profile")
    if bool(names) == everywhere:
        what = "both ports and --all are given" if names else "no port is named"
        raise UsageError(what, "leave one of them out" if names else f"{PORT_FORMS}, or --all")
    ports = every_port(running.topology) if everywhere else choose_ports(running.topology, names)
    outcome = change_qos(running, ports, QosRequest(settings, profile), tell)
    for advice in outcome.advice:
        stderr.print(f"warning: {advice}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    said = f"changed {', '.join(outcome.nodes)}" if outcome.nodes else "nothing changed: it is so already"
    stderr.print(said, highlight=False, soft_wrap=True)


def list_events(
    ports: PortNames = None,
    limit: Annotated[int, typer.Option(min=1, help="Only this many of the last events.")] = 100,
    follow: Annotated[
        bool, typer.Option("--follow", help="Print a line for each event, and for new ones until Ctrl-C.")
    ] = False,
    fabric: FabricOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List pauses, storms and drops of all ports by time; the kernel keeps the last 65536."""
    running = _open(fabric)
    chosen = [(end.node, end.interface) for end in _chosen(running, ports)]
    if follow:
        _follow(running, chosen, limit, as_json)
        return
    found = events.read_events(open_maps(running.name), running.numbering.names)
    found = events.of_ports(found, chosen)[-limit:]
    if as_json:
        print_json([_event_data(event) for event in found])
        return
    rows = [_row(event, _peers(running)) for event in found]
    drawn, _ = TableLayout(_EVENT_COLUMNS).draw(f"events of {running.name}", rows, stdout.width)
    stdout.print(drawn)


def _follow(fabric: Fabric, ports: Sequence[tuple[str, str]], limit: int, as_json: bool) -> None:
    tail, peers, ended = (
        events.Tail(open_maps(fabric.name), fabric.numbering.names),
        _peers(fabric),
        threading.Event(),
    )
    with ends_on_signals(ended.set):
        found = events.of_ports(tail.new(), ports)[-limit:]
        while True:
            for event in found:
                line = json.dumps(_event_data(event)) if as_json else "  ".join(filter(None, _row(event, peers)))
                stdout.file.write(f"{line}\n")
            stdout.file.flush()
            if ended.wait(_LOOK):
                return
            found = events.of_ports(tail.new(), ports)


def _peers(fabric: Fabric) -> dict[str, str]:
    return {str(end): str(link.other(end)) for link in fabric.topology.links for end in link.ends}


def _row(event: PortEvent, peers: Mapping[str, str]) -> tuple[str, ...]:
    port = f"{event.node}:{event.interface}"
    clock = f"{events.clock(event.boot_seconds):%H:%M:%S.%f}"
    return clock, f"{event.seconds:.6f}", port, peers.get(port, ""), events.MEANINGS[event.kind], *_subject(event)


def _event_data(event: PortEvent) -> dict[str, Any]:
    return {**asdict(event), "kind": event.kind.name.lower(), "time": events.clock(event.boot_seconds).isoformat()}


def _subject(event: PortEvent) -> tuple[str, str]:
    return f"{events.SUBJECTS[event.kind]} {event.number}", events.describe_value(event)


def _open(name: str | None) -> Fabric:
    fabric = open_fabric(name)
    require_ports(fabric)
    return fabric


def _chosen(fabric: Fabric, names: Sequence[str] | None) -> tuple[Endpoint, ...]:
    return choose_ports(fabric.topology, names) if names else every_port(fabric.topology)


def _as_data(fabric: Fabric, ends: Sequence[Endpoint], unlike: dict[Endpoint, list[str]]) -> dict[str, Any]:
    nodes: dict[str, Any] = {}
    for end in ends:
        qos = fabric.qos[end.node]
        node = nodes.setdefault(end.node, {"pool": qos.pool, "shared": qos.shared, "ports": {}})
        port = dump_node(qos)["ports"][end.interface]
        cc = qos.ports[end.interface].cc
        port["cc"] = None if cc is None else cc_data(cc)
        node["ports"][end.interface] = {**port, "kernel_differs": unlike[end]}
    return nodes
