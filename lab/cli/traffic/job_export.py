"""``rocelab job export``: a job as Chakra execution traces or in GOAL, for simulators."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.kit.output import JsonFlag, print_json, stdout
from lab.errors import UsageError
from lab.jobs.traces.chakra_trace import read_traces, write_traces
from lab.jobs.traces.goal_text import goal_text
from lab.jobs.training_schedule import training_schedule
from lab.jobs.training_spec import load_training
from lab.model.load import read_text
from lab.result_files import write_results

if TYPE_CHECKING:
    from lab.jobs.rank_schedule import JobSchedule


class ExportFormat(StrEnum):
    """The formats of an exported job."""

    CHAKRA = "chakra"
    """Execution traces of MLCommons Chakra, one for each rank."""
    GOAL = "goal"
    """The schedule language of LogGOPSim, htsim and ATLAHS."""


def export(
    file: Annotated[Path, typer.Argument(help="The file of a training job, or an execution trace: NAME.0.et.")],
    form: Annotated[ExportFormat, typer.Option("--format", help="The format.")] = ExportFormat.CHAKRA,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the files.")] = Path(),
    ranks: Annotated[int | None, typer.Option(min=2, help="Ranks of a trace that all ranks run.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write the measured steps of a job for simulators: Chakra execution traces, or GOAL.

    Computations have the times of the file. GOAL divides each collective into the messages of its algorithm.
    """
    name, schedule = _schedule(file, ranks)
    if form is ExportFormat.CHAKRA:
        files = write_traces(schedule, output, name)
    else:
        files = [output / f"{name}.goal"]
        write_results({files[0]: goal_text(schedule)}, "name another folder with -o", folders=[output])
    if as_json:
        print_json(
            {
                "format": form,
                "files": [str(each) for each in files],
                "ranks": schedule.ranks,
                "steps": len(schedule.measured),
            }
        )
        return
    for each in files:
        stdout.print(str(each), highlight=False, soft_wrap=True)


def _schedule(file: Path, ranks: int | None) -> tuple[str, JobSchedule]:
    """Return the name and the schedule of a job's file or trace."""
    if file.suffix == ".et":
        return file.name.removesuffix(".et").removesuffix(".0"), read_traces(file, ranks)
    if ranks is not None:
        raise UsageError("--ranks is for execution traces", f"write ranks: {ranks} in {file.name}")
    spec = load_training(read_text(file, "the file of a training job", "rocelab docs jobs has an example"), str(file))
    if spec.slower and spec.hosts is None:
        raise UsageError("slower: an export does not place the ranks on hosts", "name the hosts: [h1, h2]")
    if spec.hosts is not None:
        hosts = [each.partition(":")[0] for each in spec.hosts]
    else:
        hosts = [f"rank {number}" for number in range(spec.ranks or 0)]
    if spec.storage is not None:
        hosts.append(spec.storage.host)
    return spec.name, training_schedule(spec, hosts)
