"""``rocelab job transfer``: KV caches, checkpoints and datasets between hosts, with percentiles of their times."""

from __future__ import annotations

from dataclasses import asdict
from itertools import chain
from typing import Annotated

import typer

from lab.cli.kit import recorded_command
from lab.cli.kit.complete import FabricOption, node_names
from lab.cli.kit.open_fabric import open_fabric
from lab.cli.kit.option_value import read_value
from lab.cli.kit.output import JsonFlag, print_json, stdout
from lab.cli.kit.progress import stages
from lab.cli.kit.warnings import warn
from lab.cli.tables.transfer_table import transfer_notes, transfer_table
from lab.cli.traffic.tclass_option import TclassOption
from lab.errors import ExitCode, UsageError
from lab.jobs.collective_job import lossy_class, too_fast
from lab.jobs.rank_placement import nic_links
from lab.jobs.transfers.transfer_job import recorded_requests, run_transfer
from lab.jobs.transfers.transfer_spec import TransferSpec, TransferVerb
from lab.kernel.process import time_source
from lab.rdma.measure import DEFAULT_TCLASS
from lab.rdma.nic_choice import find_nic
from lab.units import parse_size, parse_time


def transfer(
    hosts: Annotated[
        list[str],
        typer.Argument(
            metavar="HOST",
            help="Hosts that make requests (their first NIC), or host:interface.",
            autocompletion=node_names,
        ),
    ],
    targets: Annotated[
        list[str],
        typer.Option(
            "--to",
            metavar="HOST",
            help="The other host. May be repeated; hosts use them in turn.",
            autocompletion=node_names,
        ),
    ],
    size: Annotated[str, typer.Option(help="Bytes of a request.")] = "1MiB",
    requests: Annotated[int, typer.Option(help="Requests of each host.")] = 10,
    interval: Annotated[
        str, typer.Option(help="Mean time between two requests of a host. 0s: when the one before is complete.")
    ] = "0s",
    seed: Annotated[
        int | None, typer.Option(help="Seed of random arrivals. \\[default: equal intervals]", show_default=False)
    ] = None,
    read: Annotated[bool, typer.Option("--read", help="Read from the targets instead of writing to them.")] = False,
    tclass: TclassOption = DEFAULT_TCLASS,
    name: FabricOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Move KV caches, checkpoints or datasets with Mooncake's transfer engine, and print percentiles of their times.

    A request writes from a host to its target, which has memory for it. The time of a KV cache is TTFT_fabric: the
    fabric's part of the time to the first token.
    """
    spec = TransferSpec(
        size=read_value("--size", size, parse_size),
        requests=requests,
        interval=read_value("--interval", interval, parse_time),
        seed=seed,
        verb=TransferVerb.READ if read else TransferVerb.WRITE,
        tclass=tclass,
    )
    fabric = open_fabric(name)
    initiators, others = ([find_nic(fabric, each) for each in names] for names in (hosts, targets))
    for index, nic in enumerate(nics := [*initiators, *others]):
        if nic.host in {each.host for each in nics[:index]}:
            raise UsageError(f"{nic.host} is named twice", "name each host once: a target makes no requests")
    links = [nic_links(fabric.topology, fabric.plan, nic) for nic in nics]
    warnings = [lossy_class(chain.from_iterable(links), fabric.qos, tclass)]
    slowest = min(sum(link.rate for link in each) for each in links)
    with stages() as progress:
        result = run_transfer(initiators, others, spec, link_rate=slowest, report=progress)
    recorded_command.requested(fabric.state, recorded_requests(result, spec.verb))
    if time_source.lives_in() == time_source.VIRTUAL:
        warnings.append(too_fast(result.rate_bps))
    warnings = [each for each in warnings if each]
    for each in warnings:
        warn(f"warning: {each}")
    if as_json:
        print_json({**asdict(result), "time": time_source.lives_in(), "verb": spec.verb, "warnings": warnings})
    else:
        stdout.print(transfer_table(result, spec))
        for line in transfer_notes(result, spec):
            stdout.print(line, style="dim", highlight=False)
    if result.wrong:
        raise typer.Exit(ExitCode.FAIL)
