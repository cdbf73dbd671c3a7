"""``rocelab counters``: the counters of emulated ports as tables, live or as JSON."""

from __future__ import annotations

import json as jsonlib
import sys
import threading
from contextlib import nullcontext
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from lab import units
from lab.backends.fabric_state import FabricState
from lab.backends.live_qos import require_ports
from lab.cli.kit.complete import FabricOption, port_names
from lab.cli.kit.fit_columns import TableLayout, left_out_note
from lab.cli.kit.interrupt import ends_on_signals
from lab.cli.kit.open_fabric import open_fabric
from lab.cli.kit.option_value import read_value
from lab.cli.kit.output import JsonFlag, print_json, stderr, stdout, table
from lab.cli.tables.counter_table import COMPACT, COUNTED, MOVING, View, counted, moving, with_drains
from lab.dataplane import counter_baseline
from lab.dataplane import counters as counting
from lab.dataplane.counter_names import COUNTERS
from lab.dataplane.numbering import drained_interface
from lab.dataplane.port_maps import open_maps
from lab.errors import ExitCode, UsageError
from lab.model.qos.port import CLASSES
from lab.model.values.link_selection import choose_ports, every_port
from lab.units import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from lab.backends.backend import Fabric
    from lab.dataplane.counter_baseline import CounterBaseline
    from lab.dataplane.counters import CounterReading, Imbalance
    from lab.dataplane.port_maps import PortMaps

_MIN_INTERVAL: Final = 0.05
_NAME_COLUMNS: Final = ("counter", "meaning", "mlx5 (ethtool -S)", "SONiC, SAI")
_LABEL: Final = "Emulated ports: counted by the data plane in the kernel, not by an ASIC."

_CLEAR: Final = "clear"


class Since(StrEnum):
    """The baseline of counters."""

    CLEAR = "clear"
    BUILD = "build"


PortNames = Annotated[
    list[str] | None,
    typer.Argument(
        help="leaf1:swp1; leaf1 (a node); leaf (a tier). \\[default: every port]",
        metavar="[clear] [PORT]...",
        autocompletion=port_names,
    ),
]


def counters(
    ports: PortNames = None,
    fabric: FabricOption = None,
    priority: Annotated[int | None, typer.Option(min=0, max=CLASSES - 1, help="Only this priority.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show rates, refreshed until Ctrl-C.")] = False,
    interval: Annotated[str, typer.Option(help="Refresh interval of --watch; rates are averages over it.")] = "1s",
    everything: Annotated[
        bool, typer.Option("--all", help="Also show ports and priorities whose counters are all zero.")
    ] = False,
    since: Annotated[Since, typer.Option(help="Start of counting: the last clear, or when the fabric was built.")] = (
        Since.CLEAR
    ),
    columns: Annotated[
        str | None, typer.Option(help="Columns, separated by commas. \\[default: as many as fit]")
    ] = None,
    compact: Annotated[bool, typer.Option("--compact", help="Show only PFC: pauses sent, obeyed, ignored.")] = False,
    names: Annotated[
        bool, typer.Option("--names", help="List the counters, with their names in mlx5 and SONiC.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show packets, pauses, queues, marks and drops of every lossless port and priority.

    [bold]counters clear[/] resets counters and watermarks; --since build still counts from when the fabric was built.

    Exit code 1 if a queue's sums are inconsistent: offered = sent + dropped + queued.
    """
    if names:
        _show_names(as_json)
        return
    if compact and columns is not None:
        raise UsageError("--compact and --columns both choose columns", "leave one of them out")
    layout = TableLayout.parse(MOVING if watch else COUNTED, COMPACT if compact else columns)
    seconds = _interval(interval)
    ended = threading.Event()
    with ends_on_signals(ended.set) if watch else nullcontext():
        clears, chosen = (ports or [])[:1] == [_CLEAR], [name for name in ports or () if name != _CLEAR]
        view = _view(fabric, chosen, priority, everything)
        maps = open_maps(view.fabric, writable=clears)
        if clears:
            _clear(maps, view)
        elif watch:
            _watch(maps, view, None if as_json else layout, seconds, ended)
        elif not _show(maps, view, _mark(maps, view, since), None if as_json else layout):
            sys.exit(ExitCode.FAIL)


def _view(fabric: str | None, ports: list[str], priority: int | None, everything: bool) -> View:
    return _view_of(open_fabric(fabric), ports, priority, everything)


def _view_of(running: Fabric, ports: list[str], priority: int | None, everything: bool) -> View:
    require_ports(running)
    chosen = choose_ports(running.topology, ports) if ports else every_port(running.topology)
    ends = tuple(with_drains(chosen, running.qos))
    peers = {end: link.other(end) for link in running.topology.links for end in link.ends}
    return View(
        fabric=running.name,
        ends=ends,
        numbering=running.numbering,
        qos=running.qos,
        priority=priority,
        everything=everything,
        peers=peers,
    )


def since_clear(running: Fabric) -> dict[str, dict[str, dict[str, int]]]:
    """Return every counter by node, interface and name, including zeros, since ``rocelab counters clear``."""
    view = _view_of(running, [], None, everything=True)
    maps = open_maps(running.name)
    mark = _mark(maps, view, Since.CLEAR)
    readings = view.read(maps).items()
    return {name: counting.named(counter_baseline.since(reading, mark), zeros=True) for name, reading in readings}


def _interval(text: str) -> float:
    seconds = read_value("--interval", text, parse_time)
    if seconds < _MIN_INTERVAL:
        raise UsageError(f"--interval {text} is too short", "choose 50ms or more")
    return seconds


def _show_names(as_json: bool) -> None:
    if as_json:
        print_json([asdict(counter) for counter in COUNTERS])
        return
    rows = [(counter.name_of("n"), counter.meaning, counter.mlx5, counter.sonic) for counter in COUNTERS]
    stdout.print(table("counters; n is a priority, queue or priority group", _NAME_COLUMNS, rows))


def _mark(maps: PortMaps, view: View, since: Since) -> CounterBaseline:
    ports = len(maps.counters)
    return (
        counter_baseline.none(ports)
        if since is Since.BUILD
        else counter_baseline.load(FabricState(view.fabric).cleared, ports)
    )


def _clear(maps: PortMaps, view: View) -> None:
    mark = _mark(maps, view, Since.CLEAR)
    named = [
        (reading, [end.interface for end in view.ends if end.node == name])
        for name, reading in view.read(maps).items()
    ]
    counter_baseline.clear(maps, mark, named)
    counter_baseline.save(FabricState(view.fabric).cleared, mark)
    stderr.print(
        f"cleared {len(view.ends)} ports of {view.fabric}; the kernel's counts: --since build", highlight=False
    )


def _show(maps: PortMaps, view: View, mark: CounterBaseline, layout: TableLayout | None) -> bool:
    """Print a reading, as JSON without ``layout``; return whether all sums of queues are consistent."""
    earlier = view.read(maps)
    readings = view.read(maps)
    wrong = list(_imbalances(earlier, readings))
    marked = {name: counter_baseline.since(reading, mark) for name, reading in readings.items()}
    if layout is None:
        print_json(_document(view, marked, wrong))
        return not wrong
    when = f" since {datetime.fromtimestamp(mark.oldest).astimezone():%H:%M:%S}" if mark.oldest else ""
    title = f"lossless ports of {view.fabric}{when}"
    stdout.print(_picture(view, layout, title, counted(view, marked), readings))
    for name, imbalance in wrong:
        missing = (
            f"{units.counted(imbalance.missing_packets, 'packet')}, {units.counted(imbalance.missing_bytes, 'byte')}"
        )
        where = f"{name}:{imbalance.interface} queue {imbalance.queue}"
        stdout.print(f"{where}: {missing} were offered and are not accounted for", style="red", highlight=False)
    return not wrong


def _imbalances(
    earlier: dict[str, CounterReading], later: dict[str, CounterReading]
) -> Iterator[tuple[str, Imbalance]]:
    for name, reading in later.items():
        yield from ((name, imbalance) for imbalance in counting.unbalanced(earlier[name], reading))


def _document(view: View, readings: dict[str, CounterReading], wrong: list[tuple[str, Imbalance]]) -> dict[str, Any]:
    nodes = {}
    for name, reading in readings.items():
        known = counting.named(reading, zeros=view.everything)
        interfaces = {end.interface: known[end.interface] for end in view.ends if end.node == name}
        pool = {"used": reading.pool_used, "watermark": reading.pool_watermark}
        nodes[name] = {
            "seconds": reading.ns / 1e9,
            "pool": pool,
            "clock_revived": reading.clock_revived,
            "interfaces": interfaces,
        }
    lost = [{"node": name, **asdict(imbalance)} for name, imbalance in wrong]
    return {"fabric": view.fabric, "emulated": True, "nodes": nodes, "unbalanced": lost}


def _watch(maps: PortMaps, view: View, layout: TableLayout | None, seconds: float, ended: threading.Event) -> None:
    """Until Ctrl-C, refresh a table on a terminal, print new tables elsewhere, or print a JSON line each interval."""
    earlier = view.read(maps)
    with Live(console=stdout, auto_refresh=False) if stdout.is_terminal else nullcontext() as live:
        while not ended.wait(seconds):
            later = view.read(maps)
            if layout is None:
                _line(view, earlier, later)
            else:
                movements = {name: counting.moved(reading, earlier[name]) for name, reading in later.items()}
                title = f"lossless ports of {view.fabric}, by the second"
                picture = _picture(view, layout, title, moving(view, later, movements), later)
                live.update(picture, refresh=True) if live is not None else stdout.print(picture)
            earlier = later


def _line(view: View, earlier: dict[str, CounterReading], later: dict[str, CounterReading]) -> None:
    stdout.file.write(jsonlib.dumps(_document(view, later, list(_imbalances(earlier, later)))) + "\n")
    stdout.file.flush()


def _picture(
    view: View, layout: TableLayout, title: str, rows: Sequence[Sequence[object]], readings: dict[str, CounterReading]
) -> RenderableType:
    drawn, left_out = layout.draw(title, rows, stdout.width)
    lines = [
        *_labels(view),
        *_revived(readings),
        *([left_out_note(left_out, "--columns chooses columns.")] if left_out else []),
    ]
    return Group(drawn, *(Text(line, style="dim") for line in lines))


def _revived(readings: dict[str, CounterReading]) -> Iterator[str]:
    for name, reading in readings.items():
        if times := reading.clock_revived:
            how_often = "once" if times == 1 else f"{times} times"
            yield f"The clock of {name}, which ends its pauses, was lost and replaced {how_often} since it was built."


def _labels(view: View) -> Iterator[str]:
    yield _LABEL
    if drains := [end for end in view.ends if drained_interface(end.interface) != end.interface]:
        name, interface = drains[0].interface, drained_interface(drains[0].interface)
        yield f"{name} is the receive queue of {interface}, which the host drains at its nic.drain."
