"""``rocelab up``: build a fabric."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.audit.baseline import keep_baseline
from lab.backends import lifecycle, registry
from lab.backends.live_qos import slot_advice
from lab.cli.kit.open_fabric import tell
from lab.cli.kit.option_value import read_seconds
from lab.cli.kit.output import JsonFlag, print_json, stdout, table
from lab.cli.kit.progress import stages
from lab.cli.kit.warnings import print_advice, warn
from lab.faults import declared
from lab.kernel.process import time_source
from lab.model.load import read_topology, renamed
from lab.units import counted, format_rate, format_time

if TYPE_CHECKING:
    from lab.backends.backend import Fabric
    from lab.backends.lifecycle import Stopwatch


def up(
    file: Annotated[Path, typer.Argument(help="The topology file (YAML).")],
    name: Annotated[str | None, typer.Option(help="Name of the fabric, instead of the name in the file.")] = None,
    backend: Annotated[str, typer.Option(help="Backend that creates the nodes.")] = registry.DEFAULT,
    image: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", help="Container image with FRR. \\[default: rocelab's or FRR's own]"),
    ] = None,
    rdma: Annotated[bool, typer.Option(help="Bring up RDMA devices where the topology asks for them.")] = True,
    timeout: Annotated[
        str, typer.Option(metavar="TIME", help="How long to wait until the fabric has converged.")
    ] = f"{lifecycle.CONVERGENCE_TIMEOUT:g}s",
    restored: Annotated[
        bool, typer.Option(hidden=True, help="The VM was restored from a checkpoint of this fabric.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Build a fabric, wait until it converges, then inject the faults that its file declares."""
    patience = read_seconds("--timeout", timeout)
    played_by = registry.backend(backend) if image is None else registry.of_image(backend, image)
    topology = read_topology(file, time_source.reaction(), declared.check)
    if not rdma:
        topology = lifecycle.without_rdma(topology)
    print_advice(topology, file)
    if name is not None:
        topology = renamed(topology, name)
    with stages(lines=True) as progress:
        if restored:
            fabric, watch = lifecycle.reopen(topology, progress=progress, timeout=patience, waiting=tell)
        else:
            fabric, watch = lifecycle.up(topology, played_by, progress=progress, timeout=patience, waiting=tell)
            keep_baseline(fabric, tell)
    declared.inject(fabric, tell)
    for advice in slot_advice(fabric, fabric.qos):
        warn(f"warning: {advice}")
    if json:
        print_json(
            {"fabric": fabric.name, "nodes": len(topology.nodes), "seconds": watch.seconds, "restored": restored}
        )
    else:
        _show(fabric, watch, "restored, and found converged" if restored else "converged")


def _show(fabric: Fabric, watch: Stopwatch, what: str) -> None:
    topology = fabric.topology
    rows = []
    for node in topology.nodes:
        plan = fabric.plan[node.name]
        links = topology.links_of(node.name)
        ends = " ".join(link.other(link.end_at(node.name)).node for link in links)
        addresses = [str(nic.address) for nic in plan.interfaces.values() if nic.address and not node.role.is_switch]
        names = [f"AS {plan.asn}"] * bool(plan.asn) + [str(plan.loopback4)] * bool(plan.loopback4)
        identity = "  ".join(names or addresses)
        rows.append((node.name, node.role, identity, len(links), format_rate(sum(link.rate for link in links)), ends))
    stdout.print(table(f"fabric {fabric.name}", ("node", "role", "identity", "links", "capacity", "to"), rows))
    spent = ", ".join(f"{stage} {format_time(seconds)}" for stage, seconds in watch.seconds.items())
    if topology.faults:
        faults = counted(len(topology.faults), "fault")
        stdout.print(f"{faults} declared: rocelab fault ls lists the active ones", highlight=False)
    virtual = " of virtual time" if time_source.lives_in() == time_source.VIRTUAL else ""
    stdout.print(f"{what} in {format_time(sum(watch.seconds.values()))}{virtual} ({spent})", highlight=False)
