"""Host names in filters: their fabric and their addresses."""

from __future__ import annotations

from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.cli.kit.complete import fabric_names
from lab.errors import UsageError
from lab.model.hosts import addresses_of, unknown_node

if TYPE_CHECKING:
    from lab.wire.filter.expression import Address, Expression

FabricOption = Annotated[
    str | None,
    typer.Option(
        "--fabric",
        metavar="NAME|FILE",
        help="Fabric or topology file that resolves host names in filters. \\[default: the running fabric]",
        autocompletion=fabric_names,
    ),
]


def parse_filter(text: str | None, fabric: str | None, file: Path) -> Expression | None:
    """Parse a filter whose host names belong to ``fabric``; fabric and file are read only if needed."""
    if text is None:
        return None
    from lab.wire.filter.parse import parse  # noqa: PLC0415 - commands without a filter start without it

    return parse(text, partial(_look_up, fabric), partial(_connection, file))


def _connection(file: Path, qp: str) -> Expression:
    """Return a filter for both directions of the connection with a queue pair, which is found in the file."""
    from lab.analysis.results.fact_builder import analyse  # noqa: PLC0415 - NumPy takes a while to import
    from lab.cli.kit.capture_source import open_capture, require_file  # noqa: PLC0415
    from lab.cli.tables.ladder_view import the_connection  # noqa: PLC0415
    from lab.wire.filter.expression import AddressSide, All, Any, FilterField, HostCondition, Within  # noqa: PLC0415

    require_file(file, f"conn=={qp}")
    with open_capture(file) as stream:
        found = the_connection(analyse(stream, str(file)), qp, "conn==")
    ways = ((found.left, found.right), (found.right, found.left))
    return Any(
        tuple(
            All(
                (
                    HostCondition(AddressSide.SOURCE, (ip_address(one.host),)),
                    HostCondition(AddressSide.DESTINATION, (ip_address(other.host),)),
                    Within(FilterField.QPN, ((other.qp, other.qp),)),
                )
            )
            for one, other in ways
            if other.qp is not None
        )
    )


def _look_up(fabric: str | None, name: str) -> list[Address]:
    from lab.backends.fabric_state import all_fabrics, find_fabric  # noqa: PLC0415 - most filters name no host
    from lab.cli.vm_routing import ask_vm  # noqa: PLC0415
    from lab.kernel.process import time_source  # noqa: PLC0415
    from lab.model.addressing import plan_addresses  # noqa: PLC0415
    from lab.model.load import read_topology  # noqa: PLC0415

    if fabric is not None and (Path(fabric).suffix in {".yaml", ".yml"} or Path(fabric).is_file()):
        topology = read_topology(Path(fabric), time_source.reaction())
    elif len(all_fabrics()) == 0 and _runs_there(fabric, ask_vm("ls") or []):
        return _addresses_in(ask_vm("inspect", *(["--fabric", fabric] if fabric else [])), name)
    elif fabric is None and len(all_fabrics()) != 1:
        remedy = "write its IP address, or give --fabric and a running fabric's name or a topology file"
        raise UsageError(f"no fabric is running to look up {name!r}", remedy)
    else:
        topology = find_fabric(fabric).load_topology()
    return addresses_of(plan_addresses(topology), name)


def _runs_there(fabric: str | None, listed: list[dict[str, Any]]) -> bool:
    """Return whether a fabric is in the VM's answer to ``rocelab ls``; None means any fabric."""
    return bool(listed) if fabric is None else fabric in {each["fabric"] for each in listed}


def _addresses_in(inspected: dict[str, Any], name: str) -> list[Address]:
    """Return the addresses of a node from the answer of ``rocelab inspect`` in the VM."""
    nodes = {node["name"]: node for node in inspected["nodes"]}
    if name not in nodes:
        raise unknown_node(name, nodes)
    return list(map(ip_address, nodes[name]["addresses"]))
