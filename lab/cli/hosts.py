"""Names of hosts in filters: which fabric they are of, and their addresses."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.complete import fabric_names
from lab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.model.addressing import NodePlan
    from lab.wire.filter.expression import Address, Expression

FabricOption = Annotated[
    str | None,
    typer.Option(
        "--fabric",
        metavar="NAME|FILE",
        help="Whose hosts a filter names: a running fabric, or a topology file. The one that runs.",
        autocompletion=fabric_names,
    ),
]


def addresses_of(plan: Mapping[str, NodePlan], name: str) -> list[Address]:
    """Every IP address of a node; UsageError when the fabric has no such node."""
    if name not in plan:
        raise UsageError(f"no node {name!r} in the fabric", f"there is {', '.join(plan)}")
    node = plan[name]
    own = [interface.address.ip for interface in node.interfaces.values() if interface.address is not None]
    return [*own, *(loopback.ip for loopback in node.loopbacks), *([node.vtep] if node.vtep is not None else [])]


def parse_filter(text: str | None, fabric: str | None) -> Expression | None:
    """A filter whose hosts are those of ``fabric``, which is looked up only when the filter names one."""
    if text is None:
        return None
    from lab.wire.filter.parse import parse  # noqa: PLC0415 - commands without a filter start without it

    return parse(text, partial(_look_up, fabric))


def _look_up(fabric: str | None, name: str) -> list[Address]:
    from lab.backends.state import all_fabrics, find_fabric  # noqa: PLC0415 - most filters name no host
    from lab.model.addressing import plan_addresses  # noqa: PLC0415
    from lab.model.load import read_topology  # noqa: PLC0415

    if fabric is not None and (Path(fabric).suffix in {".yaml", ".yml"} or Path(fabric).is_file()):
        topology = read_topology(Path(fabric))
    elif fabric is None and len(all_fabrics()) != 1:
        remedy = "write its IP address, or give --fabric and a running fabric's name or a topology file"
        raise UsageError(f"no fabric is at hand to look up {name!r}", remedy)
    else:
        topology = find_fabric(fabric).load_topology()
    return addresses_of(plan_addresses(topology), name)
