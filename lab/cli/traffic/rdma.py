"""``rocelab rdma``: real RDMA transfers between hosts, with the RDMA counters that changed."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.cli.kit import recorded_command
from lab.cli.kit.complete import FabricOption, node_names
from lab.cli.kit.open_fabric import open_fabric
from lab.cli.kit.option_value import read_value
from lab.cli.kit.output import JsonFlag, print_json, stdout, table
from lab.cli.kit.progress import stages
from lab.cli.kit.warnings import warn
from lab.cli.traffic.tclass_option import TclassOption
from lab.dataplane.counters import dropped_packets
from lab.dataplane.limited_qps import limited_qps
from lab.dataplane.port_maps import open_maps
from lab.errors import UsageError
from lab.kernel.process import time_source
from lab.model.hosts import parse_pair
from lab.rdma import device_counters, perftest, sysfs
from lab.rdma.measure import DEFAULT_TCLASS, DEFAULT_TIMEOUT, BandwidthTest, LatencyTest, Verb, total
from lab.rdma.nic_choice import all_nics, find_pair
from lab.rdma.receive_cap import arrivals
from lab.rdma.window_counters import Meter
from lab.units import format_rate, format_time, parse_size, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lab.backends.backend import Fabric
    from lab.dataplane.limited_qps import LimitedQp
    from lab.rdma.measure import BandwidthResult, LatencyResult, Pair

app = typer.Typer(no_args_is_help=True, help="Measure RDMA between hosts with perftest; list RDMA devices.")

Source = Annotated[
    str, typer.Argument(metavar="SRC", help="Host (its first NIC), or host:interface.", autocompletion=node_names)
]
Destination = Annotated[
    str, typer.Argument(metavar="DST", help="The other host, or host:interface.", autocompletion=node_names)
]
MorePairs = Annotated[
    list[str] | None,
    typer.Option("--pair", metavar="SRC:DST", help="Another pair, at the same time. May be repeated."),
]
VerbOption = Annotated[
    Verb, typer.Option(help="RDMA operation. A read transfers from DST to SRC, the others to DST.")
]
LatencyVerbOption = Annotated[
    Verb,
    typer.Option(help="RDMA operation. A read transfers from DST; a write makes both programs poll."),
]
MtuOption = Annotated[int | None, typer.Option(help="Payload per packet, 256 to 4096. \\[default: the largest]")]
TimeoutOption = Annotated[int, typer.Option("--qp-timeout", help="Retransmit after 4.096 us * 2^N without an ACK.")]


@app.command()
def bw(
    src: Source,
    dst: Destination,
    pair: MorePairs = None,
    verb: VerbOption = Verb.WRITE,
    size: Annotated[str, typer.Option(help="Message size.")] = "64KiB",
    qps: Annotated[int, typer.Option(help="Queue pairs of each pair of hosts.")] = 1,
    duration: Annotated[
        str | None, typer.Option(help="Measure for this time, in whole seconds. \\[default: 5s]")
    ] = None,
    iterations: Annotated[int | None, typer.Option(help="Instead of --duration: number of messages per QP.")] = None,
    tclass: TclassOption = DEFAULT_TCLASS,
    mtu: MtuOption = None,
    qp_timeout: TimeoutOption = DEFAULT_TIMEOUT,
    name: FabricOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure throughput in payload bits per second, and show the RDMA counters that changed."""
    test = BandwidthTest(
        verb=verb,
        size=_size(size),
        qps=qps,
        duration=_seconds(duration or "5s") if duration or iterations is None else None,
        iterations=iterations,
        tclass=tclass,
        mtu=mtu,
        timeout=qp_timeout,
    )
    fabric = open_fabric(name)
    pairs = _pairs(fabric, src, dst, pair)
    with stages() as progress, _meter(fabric, pairs) as meter:
        results = perftest.measure_bandwidth(pairs, test, progress=progress, meter=meter)
    recorded_command.transferred(fabric.state, _transfers(results, meter.first))
    arrived = arrivals(results, pairs, verb, meter)
    data = {"pairs": results, "all": total(results), "arrivals": arrived, "margin_s": test.margin}
    _show(as_json, _bandwidth_table(results), data, meter, [*arrived, *_besides(test)])


@app.command()
def lat(
    src: Source,
    dst: Destination,
    pair: MorePairs = None,
    verb: LatencyVerbOption = Verb.SEND,
    size: Annotated[str, typer.Option(help="Message size.")] = "8B",
    iterations: Annotated[int, typer.Option(help="Number of messages, one after the other.")] = 1000,
    tclass: TclassOption = DEFAULT_TCLASS,
    mtu: MtuOption = None,
    qp_timeout: TimeoutOption = DEFAULT_TIMEOUT,
    name: FabricOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure latency: percentiles of half the round trip, or of the whole round trip for a read."""
    test = LatencyTest(verb=verb, size=_size(size), iterations=iterations, tclass=tclass, mtu=mtu, timeout=qp_timeout)
    fabric = open_fabric(name)
    pairs = _pairs(fabric, src, dst, pair)
    with stages() as progress, _meter(fabric, pairs) as meter:
        results = perftest.measure_latency(pairs, test, progress=progress, meter=meter)
    warnings = _warnings(pairs, verb)
    _show(as_json, _latency_table(results), {"pairs": results, "warnings": warnings}, meter)
    for line in warnings:
        warn(f"warning: {line}")


@app.command()
def show(name: FabricOption = None, as_json: JsonFlag = False) -> None:
    """List the RDMA devices of a fabric, and the QPs that congestion control holds below the line rate."""
    fabric = open_fabric(name)
    rows = [
        {
            "host": nic.host,
            "interface": nic.interface,
            "device": nic.device,
            "state": sysfs.state(nic.device) or "MISSING",
            "address": str(nic.address),
            "gids": [
                {"index": gid.index, "gid": str(gid.address), "type": gid.kind} for gid in sysfs.gids(nic.device)
            ],
        }
        for nic in all_nics(fabric)
    ]
    limited = _limited(fabric)
    if as_json:
        print_json({"fabric": fabric.name, "devices": rows, "limited": [_limited_data(qp) for qp in limited]})
        return
    columns = ("host", "interface", "device", "state", "address", "GID index")
    cells = [[*(row[column] for column in columns[:-1]), _index_of(row["address"], row["gids"])] for row in rows]
    stdout.print(table(f"RDMA devices of {fabric.name}", columns, cells))
    if limited:
        stdout.print(_limited_table(limited))


def _limited(fabric: Fabric) -> list[LimitedQp]:
    if fabric.topology.qos is None:
        return []
    maps = open_maps(fabric.name)
    return [qp for node in fabric.numbering.nodes.values() for qp in limited_qps(maps, node)]


def _limited_data(qp: LimitedQp) -> dict[str, Any]:
    return {**asdict(qp), "address": str(qp.address), "peer": str(qp.peer)}


def _limited_table(limited: Sequence[LimitedQp]) -> Any:
    columns = ("host", "interface", "QPN", "peer", "peer QPN", "rate", "target", "alpha", "CNPs", "RTT", "waiting")
    cells = [
        (
            *(qp.node, qp.interface, qp.qpn, qp.peer, qp.peer_qpn),
            *(format_rate(qp.rate), format_rate(qp.target), _shown(qp.alpha, "{:.3f}".format), qp.cnps),
            *(_shown(qp.rtt, format_time), qp.waiting),
        )
        for qp in limited
    ]
    return table("QPs that congestion control limits", columns, cells)


def _shown(value: float | None, text: Callable[[float], str]) -> str:
    """Return a value of an algorithm that not every algorithm has."""
    return "-" if value is None else text(value)


def _index_of(address: object, gids: Any) -> str:
    return next((str(gid["index"]) for gid in gids if gid["gid"] == address), "none")


def _transfers(results: Sequence[BandwidthResult], first: float | None) -> Iterator[dict[str, Any]]:
    """Yield the transfers for recordings; ``first`` is when the first pair began to measure, if known."""
    if first is None:
        return
    for result in results:
        yield {
            "ns": round((first + result.began_s) * 1e9),
            "src": result.src,
            "dst": result.dst,
            "verb": result.verb,
            "size": result.size,
            "qps": result.qps,
            "messages": result.messages,
            "seconds": result.duration_s,
            "times": [],
        }


def _pairs(fabric: Fabric, src: str, dst: str, more: Sequence[str] | None) -> list[Pair]:
    named = [(src, dst), *(parse_pair(text) for text in more or ())]
    return [find_pair(fabric, *names) for names in named]


def _meter(fabric: Fabric, pairs: Sequence[Pair]) -> Meter:
    drops = partial(dropped_packets, open_maps(fabric.name)) if fabric.topology.qos is not None else None
    return Meter({nic.device: str(nic) for pair in pairs for nic in (pair.src, pair.dst)}, drops)


def _warnings(pairs: Sequence[Pair], verb: Verb) -> list[str]:
    if not perftest.takes_turns(pairs, verb):
        return []
    why = "the programs of a write poll and wait for each other's CPU: these times are not the network's alone"
    return [f"{why}; measure with --verb send or read"]


def _besides(test: BandwidthTest) -> list[str]:
    """Return notes on traffic outside the measured interval, which other counters include."""
    if not test.margin:
        return []
    ran = f"The transfer also ran for {test.margin} s before and {test.margin} s after the {test.duration} s measured"
    return [f"{ran}: `rocelab counters` and interfaces count these seconds too"]


def _show(as_json: bool, drawn: Any, data: dict[str, Any], meter: Meter, notes: Sequence[object] = ()) -> None:
    if as_json:
        measured = {
            key: [asdict(each) for each in value] if isinstance(value, tuple) else _plain(value)
            for key, value in data.items()
        }
        print_json(
            {
                **measured,
                "time": time_source.lives_in(),
                "counters": meter.moved(),
                "counters_window_s": meter.seconds,
            }
            | {"balance": _balance(meter)}
        )
        return
    stdout.print(drawn)
    stdout.print(_counter_table(meter))
    for line in (meter.balance(), *notes):
        stdout.print(str(line), style="dim", highlight=False)


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _balance(meter: Meter) -> dict[str, int | None]:
    balance = meter.balance()
    return {**asdict(balance), "under_way": balance.under_way}


def _in_time() -> str:
    return f"{time_source.lives_in()} time"


def _bandwidth_table(results: Sequence[BandwidthResult]) -> Any:
    rows = [
        (result.src, result.dst, format_rate(result.goodput_bps), result.messages, format_time(result.duration_s))
        for result in results
    ]
    if len(rows) > 1:
        every = total(results)
        rows.append(("all", "", format_rate(every.goodput_bps), every.messages, format_time(every.window_s)))
    first = results[0]
    title = f"RDMA {first.verb}, {first.size}-byte messages, {first.qps} QP, path MTU {first.mtu}, {_in_time()}"
    return table(title, ("from", "to", "goodput", "messages", "time"), rows)


def _latency_table(results: Sequence[LatencyResult]) -> Any:
    rows = [
        (
            result.src,
            result.dst,
            *map(format_time, (result.min_s, result.p50_s, result.avg_s, result.p99_s, result.p999_s, result.max_s)),
            result.samples,
        )
        for result in results
    ]
    first = results[0]
    what = "round trip" if first.verb == Verb.READ else "half the round trip"
    title = f"RDMA {first.verb} latency ({what}), {first.size}-byte messages, {_in_time()}"
    return table(title, ("from", "to", "min", "p50", "avg", "p99", "p99.9", "max", "samples"), rows)


def _counter_table(meter: Meter) -> Any:
    rows = [
        (
            host,
            f"{'! ' if device_counters.meaning(name).trouble else ''}{name}",
            grown,
            device_counters.meaning(name).text,
        )
        for host, changes in meter.moved().items()
        for name, grown in changes.items()
    ]
    title = f"RDMA counters that changed in the {format_time(meter.seconds)} measured (! points to a fault)"
    return table(title, ("host", "counter", "by", "meaning"), rows)


def _size(text: str) -> int:
    return read_value("--size", text, parse_size)


def _seconds(text: str) -> int:
    value = read_value("--duration", text, parse_time)
    if value != int(value):
        raise UsageError(f"duration {text} is not a whole number of seconds", "perftest counts in seconds: use 5s")
    return int(value)
