"""``rocelab topology``: create, check, show and draw topology files."""

from __future__ import annotations

import json as json_text
import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.kit.output import JsonFlag, print_json, stderr, stdout, table
from lab.errors import EnvironmentLacks, ExitCode, InvalidInput, LabError, UsageError
from lab.kernel.process import time_source
from lab.result_files import write_result
from lab.units import counted, format_rate, format_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.model.addressing import NodePlan
    from lab.model.output.fabric_summary import FabricSummary
    from lab.model.topology import Topology

# Models are imported inside the commands: pydantic is most of their start-up, and `--help` needs none of it.

app = typer.Typer(no_args_is_help=True, help="Create, check, show and draw topology files.")
new = typer.Typer(no_args_is_help=True, help="Write a commented topology file of a regular shape.")
app.add_typer(new, name="new")

File = Annotated[Path, typer.Argument(help="A topology file.", show_default=False)]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file instead of standard output.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing -o file.", show_default=False)]
Name = Annotated[
    str | None, typer.Option(help="Name of the fabric. \\[default: the name of the -o file, otherwise my-fabric]")
]
HostsPerLeaf = Annotated[int, typer.Option(help="Hosts on each leaf.")]
Uplinks = Annotated[int, typer.Option(help="Parallel links between each leaf and each of its spines.")]
Rate = Annotated[
    str | None, typer.Option(help="Rate of every link without a rate of its own, like 100Mbit. \\[default: 1Gbit]")
]
HostRate = Annotated[str | None, typer.Option(help="Rate of links to hosts. \\[default: --rate]")]
FabricRate = Annotated[str | None, typer.Option(help="Rate of links between switches. \\[default: --rate]")]
Mtu = Annotated[int | None, typer.Option(help="Largest IP packet in bytes. \\[default: 9000]")]
QosOption = Annotated[
    str | None,
    typer.Option(
        "--qos",
        metavar="PRESET",
        help="Lossless ports, with a preset that rocelab qos presets lists. \\[default: none, links are lossy]",
    ),
]
Tenants = Annotated[
    int,
    typer.Option(
        min=0, max=250, help="Divide the hosts among this many tenants, with EVPN and VXLAN.", show_default=False
    ),
]

_UNNAMED = "my-fabric"


class Format(StrEnum):
    """The format of a drawing."""

    SVG = "svg"
    PNG = "png"
    PDF = "pdf"
    MERMAID = "mermaid"
    DOT = "dot"


_BINARY = {Format.PNG, Format.PDF}
_OPTIONS = {"fabric_mtu": "mtu", "shape": ""}
"""Keys of a topology file whose options have another name."""
_SUFFIXES = {
    "": Format.SVG,
    ".svg": Format.SVG,
    ".png": Format.PNG,
    ".pdf": Format.PDF,
    ".mmd": Format.MERMAID,
    ".mermaid": Format.MERMAID,
    ".dot": Format.DOT,
    ".gv": Format.DOT,
}


@new.command("leaf-spine")
def new_leaf_spine(
    spines: Annotated[int, typer.Option(help="Spines.")] = 2,
    leaves: Annotated[int, typer.Option(help="Leaves.")] = 4,
    hosts_per_leaf: HostsPerLeaf = 2,
    uplinks_per_pair: Uplinks = 1,
    name: Name = None,
    rate: Rate = None,
    mtu: Mtu = None,
    host_rate: HostRate = None,
    fabric_rate: FabricRate = None,
    qos: QosOption = None,
    tenants: Tenants = 0,
    output: Output = None,
    force: Force = False,
) -> None:
    """Two tiers: every leaf is linked to every spine."""
    settings = {
        "spines": spines,
        "leaves": leaves,
        "hosts_per_leaf": hosts_per_leaf,
        "uplinks_per_pair": uplinks_per_pair,
        "host_rate": host_rate,
        "fabric_rate": fabric_rate,
    }
    text = _new(_name_for(output, name), "leaf-spine", settings | {"rate": rate, "mtu": mtu}, qos, tenants)
    write_new(text, output, force=force)


@new.command("clos")
def new_clos(
    pods: Annotated[int, typer.Option(help="Pods.")] = 2,
    superspines: Annotated[int, typer.Option(help="Super-spines.")] = 2,
    spines_per_pod: Annotated[int, typer.Option(help="Spines of each pod.")] = 2,
    leaves_per_pod: Annotated[int, typer.Option(help="Leaves of each pod.")] = 2,
    hosts_per_leaf: HostsPerLeaf = 2,
    uplinks_per_pair: Uplinks = 1,
    name: Name = None,
    rate: Rate = None,
    mtu: Mtu = None,
    host_rate: HostRate = None,
    fabric_rate: FabricRate = None,
    qos: QosOption = None,
    tenants: Tenants = 0,
    output: Output = None,
    force: Force = False,
) -> None:
    """Three tiers: pods of leaves and spines, connected by super-spines."""
    settings = {
        "pods": pods,
        "superspines": superspines,
        "spines_per_pod": spines_per_pod,
        "leaves_per_pod": leaves_per_pod,
        "hosts_per_leaf": hosts_per_leaf,
        "uplinks_per_pair": uplinks_per_pair,
        "host_rate": host_rate,
        "fabric_rate": fabric_rate,
    }
    text = _new(_name_for(output, name), "clos", settings | {"rate": rate, "mtu": mtu}, qos, tenants)
    write_new(text, output, force=force)


@new.command("rail-optimised")
def new_rail_optimised(
    rails: Annotated[int, typer.Option(help="NICs of each host, and leaves of each unit.")] = 4,
    hosts_per_unit: Annotated[int, typer.Option(help="Hosts that share one set of rail leaves.")] = 4,
    units: Annotated[int, typer.Option(help="Scalable units.")] = 1,
    spines: Annotated[int, typer.Option(help="Spines.")] = 2,
    uplinks_per_pair: Uplinks = 1,
    name: Name = None,
    rate: Rate = None,
    mtu: Mtu = None,
    host_rate: HostRate = None,
    fabric_rate: FabricRate = None,
    qos: QosOption = None,
    tenants: Tenants = 0,
    output: Output = None,
    force: Force = False,
) -> None:
    """GPU hosts with one NIC a rail; each rail has its own leaf."""
    settings = {
        "rails": rails,
        "hosts_per_unit": hosts_per_unit,
        "units": units,
        "spines": spines,
        "uplinks_per_pair": uplinks_per_pair,
        "host_rate": host_rate,
        "fabric_rate": fabric_rate,
    }
    text = _new(_name_for(output, name), "rail-optimised", settings | {"rate": rate, "mtu": mtu}, qos, tenants)
    write_new(text, output, force=force)


def _name_for(output: Path | None, given: str | None) -> str:
    """Return the name of a new fabric: the given one, or that of its file if a fabric can have it."""
    if given is not None:
        return given
    if output is None:
        return _UNNAMED
    from lab.model.values.fields import check_fabric_name  # noqa: PLC0415

    try:
        return check_fabric_name(output.name.partition(".")[0])
    except ValueError:
        return _UNNAMED


def _new(name: str, shape: str, settings: Mapping[str, object], qos: str | None, tenants: int) -> str:
    """Return the text of a new topology file; ``settings`` include the rate and MTU of links."""
    from lab.model.output.topology_template import new_topology, room_for_tunnels, with_tenants  # noqa: PLC0415

    mtu = settings["mtu"]
    room = room_for_tunnels(mtu if isinstance(mtu, int) else None) if tenants else {}
    try:
        text = new_topology(name, shape, {**settings, **room}, {key: settings[key] for key in ("rate", "mtu")}, qos)
        return with_tenants(text, tenants) if tenants else text
    except InvalidInput as error:
        problems = {replace(problem, path=_option(problem.path), line=0) for problem in error.problems}
        raise InvalidInput(f"topology new {shape}", sorted(problems)) from error


def _option(path: str) -> str:
    """Return the option for ``path`` in a new file; "" if no single option sets it."""
    section, _, key = path.partition(".")
    names = {"name": "name", "qos": "qos", "overlay": "tenants", "generate": _OPTIONS.get(key, key), "defaults": key}
    option = names.get(section, "")
    return f"--{option.replace('_', '-')}" if option else ""


@app.command()
def check(files: Annotated[list[Path], typer.Argument(help="Topology files.", show_default=False)]) -> None:
    """Report every problem in the files; exit code 2 if there is one, 0 if there are only warnings."""
    from lab.cli.kit.warnings import print_advice  # noqa: PLC0415
    from lab.faults import declared  # noqa: PLC0415
    from lab.model.load import read_topology  # noqa: PLC0415
    from lab.model.qos.congestion.cc_summary import scaling_lines  # noqa: PLC0415
    from lab.model.qos.resolve import resolve  # noqa: PLC0415

    failed = False
    for file in files:
        try:
            topology = read_topology(file, time_source.reaction(), declared.check)
            _check_frr(topology, file)
        except LabError as error:
            failed = True
            stderr.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        else:
            print_advice(topology, file)
            for line in scaling_lines(resolve(topology, time_source.reaction())):
                typer.echo(f"{file}: congestion control of {line}")
            nodes, links = counted(len(topology.nodes), "node"), counted(len(topology.links), "link")
            typer.echo(f"{file}: ok, {nodes} and {links}")
    if failed:
        sys.exit(ExitCode.USAGE)


def _check_frr(topology: Topology, file: Path) -> None:
    """Check the topology's own FRR lines with vtysh, if it is installed."""
    if not topology.frr:
        return
    from lab.routing.frr_config import user_lines  # noqa: PLC0415

    try:
        user_lines.check(topology, str(file))
    except EnvironmentLacks as lack:
        stderr.print(f"{file}: frr is not checked: {lack}", style="yellow", markup=False, soft_wrap=True)


@app.command()
def show(
    file: File,
    addresses: Annotated[bool, typer.Option(help="Also print the addressing plan.")] = False,
    json: JsonFlag = False,
) -> None:
    """Print counts, tiers, oversubscription and bisection bandwidth."""
    from lab.model.load import read_topology  # noqa: PLC0415
    from lab.model.output.describe import describe  # noqa: PLC0415
    from lab.model.output.fabric_summary import summarise  # noqa: PLC0415

    topology = read_topology(file, time_source.reaction())
    if json:
        print_json(describe(topology, time_source.reaction()))
        return
    _print_summary(summarise(topology))
    if addresses:
        _print_addresses(topology)


@app.command()
def graph(
    file: File,
    format: Annotated[  # noqa: A002 - it is the name of the option
        Format | None, typer.Option("--format", "-f", help="Output format. \\[default: by the suffix of -o, or svg]")
    ] = None,
    output: Output = None,
) -> None:
    """Draw the fabric as SVG, PNG, PDF, Mermaid or Graphviz."""
    from lab.model.load import read_topology  # noqa: PLC0415

    chosen = _format_of(output) if format is None else format
    if chosen in _BINARY and output is None and sys.stdout.isatty():
        raise UsageError(f"a {chosen.upper()} is no text for a terminal", "name a file with -o")
    topology = read_topology(file, time_source.reaction())
    if chosen is Format.MERMAID:
        from lab.model.draw.mermaid import draw_mermaid  # noqa: PLC0415

        write(draw_mermaid(topology), output)
    elif chosen is Format.DOT:
        from lab.model.draw.graphviz import draw_graphviz  # noqa: PLC0415

        write(draw_graphviz(topology), output)
    else:
        _write_picture(topology, chosen, output)


def _format_of(output: Path | None) -> Format:
    """Return the format by the file's suffix; UsageError for an unknown suffix."""
    suffix = output.suffix.lower() if output else ""
    if suffix not in _SUFFIXES:
        known = ", ".join(filter(None, _SUFFIXES))
        raise UsageError(f"cannot draw a {suffix} file", f"name it {known}, or choose one with --format")
    return _SUFFIXES[suffix]


def _write_picture(topology: Topology, format: Format, output: Path | None) -> None:  # noqa: A002
    from lab.model.draw.svg import draw_svg  # noqa: PLC0415

    svg = draw_svg(topology)
    if format is Format.SVG:
        write(svg, output)
        return
    from lab.model.draw.raster import render  # noqa: PLC0415 - matplotlib takes longer than all else here

    write(render(svg, "png" if format is Format.PNG else "pdf"), output)


@app.command()
def schema(output: Output = None) -> None:
    """Print the JSON Schema of topology files, for editors that complete YAML."""
    from lab.model.spec import json_schema  # noqa: PLC0415

    write(json_text.dumps(json_schema(), indent=2) + "\n", output)


def write_new(text: str, output: Path | None, *, force: bool) -> None:
    """Write a file that a user then edits; UsageError if there is one with other content, unless ``force``."""
    if output is not None and not force and _has_other_content(output, text):
        raise UsageError(f"{output} already exists", "name another file with -o, or overwrite it: --force")
    write(text, output)


def _has_other_content(file: Path, text: str) -> bool:
    try:
        return file.is_file() and file.read_bytes() not in {b"", text.encode()}
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", "name another file with -o") from error


def write(content: str | bytes, output: Path | None) -> None:
    """Write a text or a drawing to a file or standard output; UsageError if it cannot be written."""
    if output is None:
        typer.echo(content, nl=False)
        return
    write_result(output, content, "name another file with -o")
    typer.echo(f"wrote {output}", err=True)


def _print_summary(summary: FabricSummary) -> None:
    from lab.model.output.fabric_summary import format_ratio  # noqa: PLC0415

    tiers = [
        (
            tier.role.value,
            tier.nodes,
            format_rate(tier.rate_down) if tier.rate_down else "",
            format_rate(tier.rate_up) if tier.rate_up else "",
            format_ratio(tier.oversubscription),
        )
        for tier in summary.tiers
    ]
    links = [
        (
            f"{kind.lower} to {kind.upper}",
            kind.links,
            format_rate(kind.rate),
            kind.mtu,
            format_time(kind.delay) if kind.delay else "",
        )
        for kind in summary.link_classes
    ]
    heading = f"{summary.name}: {counted(summary.nodes, 'node')}, {counted(summary.links, 'link')}"
    stdout.print(table(heading, ("tier", "nodes", "all down", "all up", "oversubscription"), tiers))
    stdout.print(table("links", ("between", "links", "rate", "MTU", "delay"), links))
    facts = [
        ("pods", summary.pods or "none"),
        ("RDMA NICs", summary.rdma_nics),
        ("all hosts can send", format_rate(summary.host_bandwidth)),
        ("bisection bandwidth", f"{format_rate(summary.bisection_bandwidth)} each way"),
        ("farthest hosts", f"{summary.diameter} links apart"),
    ]
    stdout.print(table("figures", ("what", "value"), facts))


def _print_addresses(topology: Topology) -> None:
    from lab.model.addressing import plan_addresses  # noqa: PLC0415

    rows = [_address_row(plan) for plan in plan_addresses(topology).values()]
    stdout.print(table("addresses", ("node", "AS", "loopbacks", "links"), rows))


def _address_row(plan: NodePlan) -> tuple[object, ...]:
    ports = [f"{port.name} {port.address}" for port in plan.interfaces.values() if port.address is not None]
    loopbacks = [str(address.ip) for address in plan.loopbacks]
    return plan.node.name, plan.asn or "", "\n".join(loopbacks), "\n".join(ports)
