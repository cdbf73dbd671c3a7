"""``rocelab lldp``: the cabling that LLDP sees, compared with the topology."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.kit.complete import FabricOption
from lab.cli.kit.open_fabric import reading
from lab.cli.kit.option_value import read_value
from lab.cli.kit.output import JsonFlag, print_json, stdout, table
from lab.errors import ExitCode, OperationFailed
from lab.units import counted, parse_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.backends.backend import Fabric
    from lab.routing.lldp.cabling import CabledPort

_HEADS = ("node", "port", "expected", "seen", "state")


def lldp(
    wait: Annotated[
        str, typer.Option(help="How long to wait for neighbours of ports that are up.", metavar="TIME")
    ] = "20s",
    every: Annotated[bool, typer.Option("--all", help="List all ports, not only those that differ.")] = False,
    fabric: FabricOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare the cabling that LLDP sees with the topology.

    lldpd runs in every node while the command runs, and sends a frame each second. Exit code 0 if every port has the
    planned neighbour, 1 if one has another neighbour, 3 if a neighbour is not seen. The topology of an adopted lab is
    its containerlab file.
    """
    from lab.routing.lldp.cabling import examine_cabling  # noqa: PLC0415 - netlink, for which --help does not wait

    seconds = read_value("--wait", wait, parse_time)
    with reading(fabric) as opened:
        _refuse_missing(opened)
        namespaces = {node.name: opened.namespace(node.name) for node in opened.topology.nodes}
        ports = examine_cabling(opened.topology, namespaces, seconds)
        name = opened.name
    code = exit_code(ports)
    if as_json:
        print_json({"fabric": name, "as_planned": code is ExitCode.PASS, "ports": ports})
    else:
        _show(name, ports, every)
    raise typer.Exit(code)


def _refuse_missing(fabric: Fabric) -> None:
    """Raise OperationFailed if a container is gone: its namespace stays as long as rocelab has a name for it."""
    for node, complaint in fabric.backend.complaints(fabric.state).items():
        said, _, remedy = complaint.partition(": ")
        raise OperationFailed(f"{node}: {said}", remedy)


def exit_code(ports: Sequence[CabledPort]) -> ExitCode:
    """Return PASS, FAIL if a port has another neighbour than planned, or UNKNOWN if a neighbour is not seen."""
    states = {port.state for port in ports}
    if "wrong" in states:
        return ExitCode.FAIL
    return ExitCode.PASS if states <= {"ok"} else ExitCode.UNKNOWN


def _show(name: str, ports: Sequence[CabledPort], every: bool) -> None:
    good = sum(port.state == "ok" for port in ports)
    line = f"{name}: {good} of {counted(len(ports), 'port')} have the planned neighbour"
    stdout.print(line, markup=False, highlight=False, soft_wrap=True)
    rows = [
        (port.node, port.port, port.expected, ", ".join(port.seen) or "-", port.state.value)
        for port in ports
        if every or port.state != "ok"
    ]
    if rows:
        stdout.print(table("cabling", _HEADS, rows))
