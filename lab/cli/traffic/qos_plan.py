"""``rocelab qos plan``: thresholds of a lossless class for real links, with the arithmetic, sources and costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lab.cli.kit.cc_data import cc_data
from lab.cli.kit.option_value import read_value
from lab.cli.kit.output import JsonFlag, print_json, stdout, table
from lab.errors import UsageError
from lab.model.qos.congestion.cc_check import cc_faults
from lab.model.qos.congestion.cc_presets import CC_PRESETS
from lab.model.qos.congestion.cc_summary import register_texts, scale_text
from lab.model.qos.headroom import roce_frame
from lab.model.qos.plan_yaml import plan_yaml
from lab.model.qos.presets import PRESETS
from lab.model.qos.sizing import SizedLink, SonicAsic, ecn_bound, make_plan, sonic_headroom
from lab.model.topology import MTU_RANGE, RATE_RANGE
from lab.units import format_rate, format_size, format_time, parse_length, parse_rate, parse_size, parse_time

if TYPE_CHECKING:
    from lab.model.qos.congestion.cc_registers import CcQos
    from lab.model.qos.sizing import Plan, SizedThreshold

_RATES: Final = (10**6, 800 * 10**9)
_LENGTHS: Final = (0.1, 100_000.0)
_HEADS: Final = {
    "kmin": "Kmin", "kmax": "Kmax", "pmax": "Pmax", "xoff": "XOFF", "xon": "XON", "headroom": "headroom",
    "buffer": "buffer of the incast",
}  # fmt: skip
_EMULATED: Final = 100 * 10**6
"""Rate of an emulated link in bit/s, if the real one is faster than the VM can emulate."""

Mtu = Annotated[
    int, typer.Option(min=MTU_RANGE[0], max=MTU_RANGE[1], help="Largest IP packet of the lossless class, bytes.")
]


def plan(
    rate: Annotated[str, typer.Option(help="Rate of the links, like 100Gbit.")] = "100Gbit",
    length: Annotated[str, typer.Option(help="Length of the longest cable, like 40m or 2km.")] = "40m",
    mtu: Mtu = 4200,
    port_mtu: Annotated[
        int | None,
        typer.Option(
            min=MTU_RANGE[0],
            max=MTU_RANGE[1],
            help="Largest IP packet of any class. \\[default: --mtu]",
            show_default=False,
        ),
    ] = None,
    senders: Annotated[int, typer.Option(min=1, max=100_000, help="Hosts that write to one at once.")] = 16,
    rtt: Annotated[
        str | None,
        typer.Option(
            help="Round trip without queues, like 8us. \\[default: four links, full frames]", show_default=False
        ),
    ] = None,
    response: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Quanta until the peer obeys a pause. \\[default: the limit of IEEE 802.3]",
            show_default=False,
        ),
    ] = None,
    interface: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=10**7,
            help="Bit times of MAC and PHY at each end. \\[default: the limit of IEEE 802.3]",
            show_default=False,
        ),
    ] = None,
    cell: Annotated[int, typer.Option(min=32, max=1024, help="Bytes of a buffer cell, for SONiC's formula.")] = 96,
    buffer: Annotated[
        str | None,
        typer.Option(
            help="Buffer of the switch, like 12MB: check that marks come before pauses.", show_default=False
        ),
    ] = None,
    ports: Annotated[int, typer.Option(min=1, max=4096, help="Ports that share --buffer.")] = 32,
    classes: Annotated[int, typer.Option(min=1, max=8, help="Lossless classes of each port.")] = 1,
    link_rate: Annotated[
        str | None,
        typer.Option(help="Rate of emulated links, for --yaml. \\[default: 100Mbit, or --rate]", show_default=False),
    ] = None,
    cc: Annotated[
        str | None,
        typer.Option(
            "--cc",
            help=f"Also scale the registers of {', '.join(CC_PRESETS)}: from --rate to --link-rate.",
            show_default=False,
        ),
    ] = None,
    as_yaml: Annotated[
        bool, typer.Option("--yaml", help="Print a qos: section for a topology file, scaled to emulated links.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Calculate Kmin, Kmax, Pmax, XOFF, XON and headroom of real links, with the arithmetic and trade-offs."""
    if as_yaml and as_json:
        raise UsageError("both --yaml and --json are given", "leave one of them out")
    cable = SizedLink(
        rate=int(_between("--rate", read_value("--rate", rate, parse_rate), _RATES, format_rate)),
        length=_between("--length", read_value("--length", length, parse_length), _LENGTHS, "{:g} m".format),
        mtu=mtu,
        port_mtu=mtu if port_mtu is None else port_mtu,
        response=response,
        interface=interface,
    )
    if cable.port_mtu < mtu:
        raise UsageError(f"--port-mtu {cable.port_mtu} is less than --mtu {mtu}", "it is the largest of any class")
    trip = None if rtt is None else _between("--rtt", read_value("--rtt", rtt, parse_time), (1e-7, 1.0), format_time)
    made = make_plan(cable, senders, trip)
    scaled = None if cc is None else _scaled(cc, cable, _link_rate(link_rate, cable.rate))
    bound = None if buffer is None else _bound(read_value("--buffer", buffer, parse_size), ports, classes, made)
    if as_yaml:
        typer.echo(plan_yaml(made, _link_rate(link_rate, cable.rate), cc), nl=False)
    elif as_json:
        print_json({**_data(made, cell, bound), "cc": None if scaled is None else cc_data(scaled)})
    else:
        _print(made, cell, bound)
        if scaled is not None:
            heads = ("register", f"at {format_rate(scaled.real_rate)}", f"at {format_rate(scaled.lab_rate)}", "note")
            title = f"congestion control {cc}: {scale_text(scaled)}; thresholds keep their bytes"
            stdout.print(table(title, heads, list(register_texts(scaled))))


def _scaled(name: str, cable: SizedLink, link_rate: int) -> CcQos:
    """Return the registers of a preset for a NIC of the cable's rate, on an emulated link of ``link_rate`` bit/s."""
    if name not in CC_PRESETS:
        raise UsageError(f"--cc: {name} has no registers", f"choose {', '.join(CC_PRESETS)}")
    cc = replace(CC_PRESETS[name].qos(link_rate, roce_frame(cable.mtu)), real_rate=cable.rate)
    for fault in cc_faults(replace(PRESETS[name].port(link_rate, cable.mtu, 0.0), cc=cc), roce_frame(cable.mtu)):
        raise UsageError(f"--cc {name}: {fault.message}", fault.remedy)
    return cc


def _between(option: str, value: float, bounds: tuple[float, float], show: Any) -> float:
    low, high = bounds
    if not low <= value <= high:
        raise UsageError(f"{option}: {show(value)} is out of range", f"choose {show(low)} to {show(high)}")
    return value


def _link_rate(text: str | None, rate: int) -> int:
    if text is None:
        return min(rate, _EMULATED)
    return int(_between("--link-rate", read_value("--link-rate", text, parse_rate), RATE_RANGE, format_rate))


def _bound(buffer: int, ports: int, classes: int, made: Plan) -> int:
    """Return the queue depth below which marks always precede pauses, with beta 8 as in DCQCN; 0 if there is none."""
    return max(0, int(ecn_bound(buffer, ports, classes, made.size("headroom"), beta=8)))


def _data(made: Plan, cell: int, bound: int | None) -> dict[str, Any]:
    cable = made.cable
    return {
        "rate": cable.rate,
        "length": cable.length,
        "mtu": cable.mtu,
        "port_mtu": cable.port_mtu,
        "senders": made.senders,
        "rtt": made.rtt,
        "headroom_terms": [
            {"term": each.name, "bytes": each.size, "arithmetic": each.arithmetic, "source": each.source}
            for each in made.terms
        ],
        "choices": [
            {
                "name": each.name,
                "value": each.value,
                "arithmetic": each.arithmetic,
                "source": each.source,
                "larger": each.larger,
                "smaller": each.smaller,
            }
            for each in made.choices
        ],
        "sonic_headroom": sonic_headroom(cable, SonicAsic(cell=cell)),
        "ecn_bound": bound,
    }


def _print(made: Plan, cell: int, bound: int | None) -> None:
    cable = made.cable
    heading = f"headroom at {format_rate(cable.rate)}, {cable.length:g} m, MTU {cable.mtu}"
    terms = [(each.name, format_size(each.size), each.arithmetic, each.source) for each in made.terms]
    total = ("headroom", format_size(made.size("headroom")), f"{made.size('headroom')} B, the sum", "")
    stdout.print(table(heading, ("arrives after XOFF", "size", "arithmetic", "source"), [*terms, total]))
    choices = [(_HEADS[each.name], _value(each), each.arithmetic, each.source) for each in made.choices]
    title = f"thresholds for {made.senders} senders, RTT {format_time(made.rtt)}"
    stdout.print(table(title, ("threshold", "value", "arithmetic", "source"), choices))
    costs = [(_HEADS[each.name], each.larger, each.smaller) for each in made.choices]
    stdout.print(table("trade-offs", ("threshold", "larger", "smaller"), costs))
    sonic = format_size(sonic_headroom(cable, SonicAsic(cell=cell)))
    stdout.print(
        f"SONiC's formula gives {sonic} of headroom: cells of {cell} B, all small packets, Spectrum's delays",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    if bound is not None:
        verdict = "keeps below" if made.size("kmax") < bound else "does not keep below"
        stdout.print(
            f"marks surely precede pauses below {format_size(bound)} of queue (Zhu et al., SIGCOMM 2015, section 4):"
            f" Kmax {verdict} it",
            highlight=False, soft_wrap=True,
        )  # fmt: skip


def _value(choice: SizedThreshold) -> str:
    return f"{100 * choice.value:.3g}%" if choice.name == "pmax" else format_size(choice.value)
