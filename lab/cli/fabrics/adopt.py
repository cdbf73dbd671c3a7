"""``rocelab adopt``: use a running containerlab lab as a fabric."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.audit.baseline import keep_baseline
from lab.backends import containers
from lab.backends.adopted import adoption
from lab.backends.live_qos import slot_advice
from lab.cli.kit.open_fabric import tell
from lab.cli.kit.output import JsonFlag, print_json, print_note, stdout, table
from lab.cli.kit.progress import stages
from lab.cli.kit.warnings import warn
from lab.model.load import renamed
from lab.model.qos.advice import advise_nodes
from lab.units import counted

if TYPE_CHECKING:
    from lab.backends.backend import Fabric

_SUFFIXES = {".yml", ".yaml"}


def adopt(
    lab: Annotated[str, typer.Argument(metavar="LAB|FILE", help="A deployed lab's name, or its topology file.")],
    name: Annotated[
        str | None, typer.Option(help="Name of the fabric, instead of the lab's name.", show_default=False)
    ] = None,
    qos: Annotated[
        str | None,
        typer.Option(
            metavar="PRESET", help="Add lossless ports to its links. \\[default: none, links stay as they are]"
        ),
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="Rate of ports whose links state none, like 100Mbit. \\[default: 1Gbit]")
    ] = None,
    rdma: Annotated[bool, typer.Option("--rdma", help="Bring up an RDMA device on each NIC of its hosts.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Use a lab that containerlab deployed as a fabric; rocelab down restores the lab."""
    from lab.export.adopted import as_topology, furnished  # noqa: PLC0415 - as models in topology
    from lab.export.lab_reader import read_lab  # noqa: PLC0415

    file = Path(lab) if "/" in lab or Path(lab).suffix in _SUFFIXES else containers.file_of(lab)
    read = read_lab(file)
    topology, left_out = as_topology(read, rate)
    topology = furnished(topology if name is None else renamed(topology, name), qos, rdma=rdma)
    with stages(lines=True) as progress:
        fabric = adoption.adopt(topology, read.name, tell, progress)
        keep_baseline(fabric, tell)
    for advice in (*advise_nodes(fabric.topology, fabric.qos), *slot_advice(fabric, fabric.qos)):
        warn(f"warning: {advice}")
    for note in left_out:
        print_note(f"left out: {note}")
    if as_json:
        links = len(topology.links)
        print_json({"fabric": fabric.name, "nodes": len(topology.nodes), "links": links, "left_out": left_out})
    else:
        _show(fabric)


def _show(fabric: Fabric) -> None:
    rows = []
    for node in fabric.topology.nodes:
        interfaces = fabric.plan[node.name].interfaces.items()
        known = " ".join(f"{name} {each.address}" if each.address else name for name, each in interfaces)
        ends = " ".join(link.other(link.end_at(node.name)).node for link in fabric.topology.links_of(node.name))
        rows.append((node.name, node.role, known, ends))
    stdout.print(table(f"lab {fabric.name}, adopted", ("node", "role", "interfaces", "to"), rows))
    what = f"{counted(len(rows), 'node')}, {counted(len(fabric.topology.links), 'link')}"
    stdout.print(f"{what}; rocelab down gives it back", highlight=False)
