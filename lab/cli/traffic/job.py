"""``rocelab job``: MPI collectives between hosts over RDMA, with the table of nccl-tests, and training steps."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lab.cli.kit import recorded_command
from lab.cli.kit.complete import FabricOption, node_names
from lab.cli.kit.open_fabric import open_fabric
from lab.cli.kit.option_value import read_value
from lab.cli.kit.output import JsonFlag, print_json, stdout, table
from lab.cli.kit.progress import stages
from lab.cli.kit.warnings import warn
from lab.cli.tables.training_table import phase_table, training_notes, training_table
from lab.cli.traffic.job_explain import explain
from lab.cli.traffic.job_export import export
from lab.cli.traffic.job_transfer import transfer
from lab.cli.traffic.pod_option import PodOption, in_pods
from lab.cli.traffic.tclass_option import TclassOption
from lab.errors import ExitCode, UsageError
from lab.faults.slow_ranks import slowed, slowed_trace
from lab.jobs.collective_job import lossy_class, received_bps, run_job, too_fast
from lab.jobs.job_spec import AUTOMATIC, Collective, JobSpec, algorithms_of, size_range
from lab.jobs.nccl_settings import NcclSettings, read_settings
from lab.jobs.rank_placement import (
    PlacementRule,
    leaf_of_nic,
    nic_links,
    place,
    place_on_rails,
    refuse_shared_host,
)
from lab.jobs.traces.chakra_trace import read_traces
from lab.jobs.training_job import TraceJob, recorded_job, run_training
from lab.jobs.training_spec import MAX_NAME, load_training
from lab.kernel.process import time_source
from lab.model.load import read_text
from lab.rdma.measure import DEFAULT_TCLASS
from lab.rdma.nic_choice import all_nics, find_nic, nics_of
from lab.routing.paths.underlay_path import Walker
from lab.units import format_rate, format_size, format_time, parse_size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.backends.backend import Fabric
    from lab.backends.job_pods import PodKind
    from lab.jobs.collective_job import JobResult
    from lab.jobs.job_qps import JobQps
    from lab.jobs.training_job import TrainingResult
    from lab.jobs.training_spec import TrainingSpec
    from lab.model.topology import Link
    from lab.rdma.measure import Nic

app = typer.Typer(
    no_args_is_help=True, help="Run MPI collectives, training steps and transfers between hosts over RDMA."
)
_COLUMNS: Final = (
    "size",
    "count",
    "type",
    "redop",
    "root",
    "time",
    "algbw",
    "busbw",
    "JCT ratio",
    "#wrong",
    "straggler",
    "late",
)
_DOES: Final = {
    Collective.ALLREDUCE: "Sum the buffers of all ranks; every rank gets the sum.",
    Collective.ALLGATHER: "Every rank gets the parts of all ranks.",
    Collective.REDUCE_SCATTER: "Sum the buffers of all ranks; each rank gets its part of the sum.",
    Collective.ALLTOALL: "Every rank sends another part to each rank.",
    Collective.BROADCAST: "Rank 0 sends its buffer to all other ranks.",
    Collective.SENDRECV: "Every rank sends its buffer to the next rank, and receives one from the rank before.",
}

Hosts = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="HOST",
        help="Hosts (their first NIC), or host:interface, rank 0 first. \\[default: a NIC of each host]",
        autocompletion=node_names,
        show_default=False,
    ),
]
RanksOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of ranks, each on a host of its own. \\[default: one for each host; one for each NIC if"
        " hierarchical]",
    ),
]
PlacementOption = Annotated[
    PlacementRule | None,
    typer.Option(
        help="Order of hosts: leaf by leaf, leaves in turn, or random. \\[default: packed; HOSTs as written]"
    ),
]
SeedOption = Annotated[int, typer.Option(help="Seed of a random placement.")]
SizeOption = Annotated[str, typer.Option(help="Bytes of a rank's larger buffer.")]
LargestOption = Annotated[str | None, typer.Option("--max-size", help="Measure sizes from --size to this one.")]
FactorOption = Annotated[int, typer.Option(help="With --max-size: the ratio of one size to the one before.")]
IterationsOption = Annotated[int, typer.Option(help="Measured steps of each size.")]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A setting of NCCL, for example NCCL_IB_TC=106 (rocelab docs jobs). May be repeated.",
    ),
]
WarmupOption = Annotated[int, typer.Option(help="Steps of each size before the measured ones.")]


def _command(collective: Collective) -> Callable[..., None]:
    """Return the command of a collective; all of them have the same options."""
    known = ", ".join(algorithms_of(collective))

    def run(
        hosts: Hosts = None,
        ranks: RanksOption = None,
        size: SizeOption = "1MiB",
        largest: LargestOption = None,
        factor: FactorOption = 2,
        algorithm: str = AUTOMATIC,
        placement: PlacementOption = None,
        seed: SeedOption = 0,
        iterations: IterationsOption = 5,
        warmup: WarmupOption = 1,
        tclass: TclassOption = DEFAULT_TCLASS,
        settings: SettingsOption = None,
        pod: PodOption = None,
        name: FabricOption = None,
        as_json: JsonFlag = False,
    ) -> None:
        nccl = read_settings(settings or ())
        tclass = _one_tclass(tclass, nccl)
        spec = JobSpec(
            collective=collective,
            sizes=_sizes(size, largest, factor),
            iterations=iterations,
            warmup=warmup,
            algorithm=algorithm,
            tclass=tclass,
            nccl=nccl,
        )
        fabric = open_fabric(name)
        if spec.is_hierarchical:
            if pod is not None:
                raise UsageError("a hierarchical collective runs in hosts, not in pods", "leave out --pod")
            nics = _placed_on_rails(fabric, hosts or (), (ranks, placement), nccl)
        else:
            nics = _placed(fabric, hosts or (), (ranks, placement, seed), nccl)
        links = [_links(fabric, nic) for nic in nics]
        warnings = _warned(lossy_class(chain.from_iterable(links), fabric.qos, tclass))
        slowest = min(sum(link.rate for link in each) for each in links)
        with stages() as progress, in_pods(fabric, nics, pod, progress) as placed:
            result = run_job(placed, spec, link_rate=slowest, report=progress)
        _show(result, [*warnings, *_warned(_emulation(result))], pod, as_json=as_json)
        if result.wrong:
            raise typer.Exit(ExitCode.FAIL)

    # Typer evaluates an annotation among the names of the module, which do not include those of this collective.
    run.__annotations__["algorithm"] = Annotated[str, typer.Option(help=f"Algorithm: {known}.")]
    run.__doc__ = f"{_DOES[collective]} Print the figures of nccl-tests."
    return run


for _each in Collective:
    app.command(_each.value)(_command(_each))
app.command()(explain)


@app.command()
def train(
    file: Annotated[
        Path,
        typer.Argument(help="A YAML file (rocelab docs jobs), or the Chakra trace of rank 0, NAME.0.et."),
    ],
    ranks: Annotated[int | None, typer.Option(min=2, help="Ranks of a trace that all ranks run.")] = None,
    pod: PodOption = None,
    name: FabricOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Run training steps, and print the time and the share of communication of each rank.

    Ranks compute for the given time. Groups of ranks communicate as data, tensor, pipeline and expert parallelism do.
    """
    job: TrainingSpec | TraceJob
    if file.suffix == ".et":
        schedule = read_traces(file, ranks)
        job = TraceJob(name=file.name.removesuffix(".et").removesuffix(".0")[:MAX_NAME], schedule=schedule)
        fabric = open_fabric(name)
        nics = _placed(fabric, (), (schedule.ranks, None, 0), NcclSettings())
    elif ranks is not None:
        raise UsageError("--ranks is for execution traces", f"write ranks: {ranks} in {file.name}")
    else:
        text = read_text(file, "the file of a training job", "rocelab docs jobs has an example")
        job = load_training(text, str(file))
        fabric = open_fabric(name)
        rule = job.placement if job.hosts is None or "placement" in job.model_fields_set else None
        storage = find_nic(fabric, job.storage.host) if job.storage is not None else None
        nics = _placed(fabric, job.hosts or (), (job.ranks, rule, job.seed), job.settings, storage)
    links = [_links(fabric, nic) for nic in nics]
    warnings = _warned(lossy_class(chain.from_iterable(links), fabric.qos, job.tclass))
    slowest = min(sum(link.rate for link in each) for each in links)
    with stages() as progress, in_pods(fabric, nics, pod, progress) as placed:
        watch = _watched_qps(fabric, placed, progress) if recorded_command.is_recorded(fabric.state) else None
        hosts = [nic.host for nic in nics]
        job = slowed_trace(fabric, job, hosts) if isinstance(job, TraceJob) else slowed(fabric, job, hosts)
        stepped = partial(recorded_command.stepped, fabric.state)
        told = watch.report if watch else progress
        result = run_training(placed, job, link_rate=slowest, report=told, stepped=stepped)
    if watch:
        recorded_command.described(fabric.state, recorded_job(result, watch.found))
    warnings += _warned(too_fast(result.transfer_bps) if time_source.lives_in() == time_source.VIRTUAL else "")
    if as_json:
        print_json({**_training_data(result), "pod": pod, "warnings": warnings})
    else:
        stdout.print(training_table(result, _within(pod)))
        stdout.print(phase_table(result))
        for line in training_notes(result):
            stdout.print(line, style="dim", highlight=False)
    if result.wrong:
        raise typer.Exit(ExitCode.FAIL)


app.command()(transfer)
app.command()(export)


def _watched_qps(fabric: Fabric, nics: Sequence[Nic], progress: Callable[[str, int, int], None]) -> JobQps:
    """Return what finds the QPs of the job's ranks before they end."""
    from lab.dataplane import qp_pairs  # noqa: PLC0415 - libbpf, needed only while a recording is made
    from lab.jobs.job_qps import JobQps  # noqa: PLC0415

    walker = Walker(fabric.topology, fabric.namespace)
    return JobQps(nics, lambda: qp_pairs.connected(fabric.name), walker, progress)


def _training_data(result: TrainingResult) -> dict[str, Any]:
    return {
        **asdict(result),
        "rank_steps": [{**asdict(each), "communication_ns": each.communication_ns} for each in result.rank_steps],
        "jct_ratio": result.jct_ratio,
        "time": time_source.lives_in(),
    }


def _sizes(size: str, largest: str | None, factor: int) -> tuple[int, ...]:
    smallest = read_value("--size", size, parse_size)
    if largest is None:
        return (smallest,)
    return size_range(smallest, read_value("--max-size", largest, parse_size), factor)


def _placed_on_rails(
    fabric: Fabric, hosts: Sequence[str], placed: tuple[int | None, PlacementRule | None], settings: NcclSettings
) -> tuple[Nic, ...]:
    """Return the NIC of each rank of a hierarchical collective, host by host; a host without interface has all.

    ``placed`` are the number of ranks and the rule, which must be None. Only NICs that the settings allow are used.
    """
    ranks, rule = placed
    if rule is not None:
        raise UsageError("a hierarchical collective has its ranks host by host", "leave out --placement")
    named = (_named(fabric, host, settings) for host in hosts)
    nics = tuple(chain.from_iterable(named)) if hosts else settings.allowed(all_nics(fabric))
    _refuse_twice_or_none(fabric, nics)
    return place_on_rails(nics, ranks)


def _refuse_twice_or_none(fabric: Fabric, nics: Sequence[Nic]) -> None:
    """Raise UsageError if a NIC is named twice, or if there is none."""
    for index, nic in enumerate(nics):
        if nic in nics[:index]:
            raise UsageError(f"{nic} is named twice", "each NIC runs one rank")
    if not nics:
        raise UsageError(f"no host of {fabric.name} has RDMA", "write rdma: true for hosts in the topology")


def _placed(
    fabric: Fabric,
    hosts: Sequence[str],
    placed: tuple[int | None, PlacementRule | None, int],
    settings: NcclSettings,
    storage: Nic | None = None,
) -> tuple[Nic, ...]:
    """Return the NIC of each rank: those of ``hosts`` in their order, unless there is a rule; last that of storage.

    ``placed`` are the number of ranks, the rule and the seed. Only NICs that the settings allow are used.
    """
    ranks, rule, seed = placed
    nics = tuple(_named(fabric, host, settings)[0] for host in hosts) if hosts else settings.allowed(all_nics(fabric))
    if storage is not None and hosts and storage.host in {nic.host for nic in nics}:
        raise UsageError(f"storage: {storage.host} also runs a rank", "leave it out of hosts, or name another host")
    if storage is not None:
        nics = tuple(nic for nic in nics if nic.host != storage.host)
    _refuse_twice_or_none(fabric, nics)
    if hosts:
        refuse_shared_host(nics)
    leaf_of = {nic: "" if hosts and rule is None else leaf_of_nic(fabric.topology, fabric.plan, nic) for nic in nics}
    ranked = place(nics, leaf_of, ranks, rule or PlacementRule.PACKED, seed)
    written = {host.partition(":")[0] for host in hosts if ":" in host}
    every = [nic for nic in all_nics(fabric) if nic.host not in written]
    ranked = tuple(settings.with_rails(nic, every) for nic in ranked)
    return ranked if storage is None else (*ranked, storage)


def _links(fabric: Fabric, nic: Nic) -> list[Link]:
    """Return the links of a rank: those of all its rails."""
    return [link for each in (nic, *nic.rails) for link in nic_links(fabric.topology, fabric.plan, each)]


def _named(fabric: Fabric, host: str, settings: NcclSettings) -> tuple[Nic, ...]:
    """Return the NIC ``h1:eth2``, or those of ``h1``; UsageError if the settings allow none of them."""
    nic = find_nic(fabric, host)
    return settings.allowed((nic,) if ":" in host else nics_of(fabric, nic.host))


def _one_tclass(tclass: int, settings: NcclSettings) -> int:
    """Return the traffic class of the option, or of the settings; UsageError if both have one."""
    if settings.tclass is None:
        return tclass
    if tclass != DEFAULT_TCLASS:
        raise UsageError("--tclass is there beside NCCL_IB_TC", "write one of them")
    return settings.tclass


def _emulation(result: JobResult) -> str:
    return too_fast(received_bps(result)) if time_source.lives_in() == time_source.VIRTUAL else ""


def _warned(text: str) -> list[str]:
    """Print a warning, if there is one, and return it for the JSON answer."""
    if not text:
        return []
    warn(f"warning: {text}")
    return [text]


def _show(result: JobResult, warnings: Sequence[str], pod: PodKind | None, *, as_json: bool) -> None:
    if as_json:
        print_json({**_data(result), "pod": pod, "warnings": warnings})
    else:
        stdout.print(_table(result, _within(pod)))
        for line in _notes(result):
            stdout.print(line, style="dim", highlight=False)


def _within(pod: PodKind | None) -> str:
    """Return where ranks run, for a title."""
    return "" if pod is None else f" in {pod} pods"


def _data(result: JobResult) -> dict[str, Any]:
    return {
        "collective": result.collective,
        "algorithm": result.algorithm,
        "ranks": result.ranks,
        "rows": result.rows,
        "start_s": result.start_s,
        "iterations": result.iterations,
        "tclass": result.tclass,
        "ranks_per_host": result.ranks_per_host,
        "wrong": result.wrong,
        "time": time_source.lives_in(),
    }


def _table(result: JobResult, where: str) -> Any:
    title = (
        f"{result.collective} on {len(result.ranks)} ranks{where}, {result.iterations} steps of each size, algorithm "
        f"{result.algorithm}, {time_source.lives_in()} time"
    )
    rows = [
        (
            *(format_size(row.size), row.count, row.type, row.redop, row.root, format_time(row.time_s)),
            *(format_rate(row.algbw_bps), format_rate(row.busbw_bps), f"{row.jct_ratio:.2f}", row.wrong),
            *(f"{row.straggler} ({result.ranks[row.straggler].host})", format_time(row.lateness_s)),
        )
        for row in result.rows
    ]
    return table(title, _COLUMNS, rows)


def _notes(result: JobResult) -> list[str]:
    hosts = ", ".join(f"{place.rank} {place.host}:{place.interface}" for place in result.ranks)
    verdict = f"{result.wrong} wrong elements" if result.wrong else "every rank has the right result"
    last = result.rows[-1]
    steps = ", ".join(
        f"{name} {format_time(seconds)}"
        for name, seconds in (("p50", last.p50_s), ("p95", last.p95_s), ("p99", last.p99_s))
    )
    shared = f"{result.ranks_per_host} ranks on each host share memory, in place of NVLink"
    return [
        f"ranks: {hosts}",
        *([shared] if result.ranks_per_host > 1 else []),
        f"steps of {format_size(last.size)}: {steps}",
        f"{verdict}; the job started in {format_time(result.start_s)}",
    ]
