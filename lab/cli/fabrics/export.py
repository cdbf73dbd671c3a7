"""``rocelab export``: write a fabric as files for other machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.kit.output import print_note
from lab.errors import UsageError
from lab.kernel.process import time_source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.export.containerlab import Images
    from lab.model.topology import Topology

app = typer.Typer(no_args_is_help=True)

File = Annotated[Path, typer.Argument(help="A topology file.", show_default=False)]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="A new or empty folder.", show_default=False)
]
Image = Annotated[
    str | None,
    typer.Option(metavar="IMAGE", help="Container image of switches, with FRR. \\[default: FRR's own image]"),
]
HostImage = Annotated[
    str | None, typer.Option(metavar="IMAGE", help="Container image of hosts. \\[default: --image]")
]


@app.callback()
def export() -> None:
    """Write the files that run a fabric on other machines."""


@app.command()
def containerlab(file: File, output: Output, image: Image = None, host_image: HostImage = None) -> None:
    """Write a lab for containerlab: clab.yml, and FRR's files and a start script for each node."""
    from lab.export.containerlab import DEFINITION, export_lab, left_out  # noqa: PLC0415 - as models in topology
    from lab.export.folder import write  # noqa: PLC0415

    topology = _read(file)
    write(export_lab(topology, _images(image, host_image)), output)
    _tell(output, left_out(topology))
    typer.echo(f"sudo containerlab deploy -t {output / DEFINITION}", err=True)


@app.command()
def clabernetes(
    file: File,
    output: Output,
    image: Image = None,
    host_image: HostImage = None,
    launcher_image: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", help="Container image of the launcher in each pod. \\[default: the cluster's]"),
    ] = None,
    node_selector: Annotated[
        list[str] | None,
        typer.Option(metavar="LABEL=VALUE", help="Schedule pods on cluster nodes with this label. May be repeated."),
    ] = None,
) -> None:
    """Write manifests for clabernetes: a namespace, ConfigMaps with the files, and a Topology with a pod a node."""
    from lab.export.clabernetes import ClusterPlacement, export_topology, left_out  # noqa: PLC0415
    from lab.export.folder import write  # noqa: PLC0415

    topology = _read(file)
    selector = dict(_label(word) for word in node_selector or [])
    placement = ClusterPlacement(_images(image, host_image), launcher_image or "", selector)
    write(export_topology(topology, placement), output)
    _tell(output, left_out(topology))
    typer.echo(f"kubectl apply -f {output}", err=True)


def _label(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not equals:
        raise UsageError(f"--node-selector {word}: no =", "write it like rocelab/rdma=yes")
    return key, value


def _images(switch: str | None, host: str | None) -> Images:
    from lab.export.containerlab import Images  # noqa: PLC0415

    return Images(host=host or "") if switch is None else Images(switch, host or "")


def _read(file: Path) -> Topology:
    from lab.model.load import read_topology  # noqa: PLC0415

    return read_topology(file, time_source.reaction())


def _tell(output: Path, missing: Iterable[str]) -> None:
    typer.echo(f"wrote {output}", err=True)
    for what in missing:
        print_note(f"left out: {what}")
