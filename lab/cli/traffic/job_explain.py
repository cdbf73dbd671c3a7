"""``rocelab job explain``: what a step of a recorded training job waited for, and where."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lab.cli.kit.complete import run_names
from lab.cli.kit.output import JsonFlag, print_json, stdout, table
from lab.cli.kit.run_name import folder_of
from lab.terminal_text import printable
from lab.units import format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.report.job.job_explanation import ExplainedRank, StepExplanation
    from lab.report.job.path_waits import QpWait

_RANKS: Final = ("rank", "NIC", "compute", "waiting", "transfer", "share", "late", "ended at")
_QPS: Final = ("QP", "to", "UDP port", "egress port", "paused", "peak queue")


def explain(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="A recording's directory, or its name in recordings/.", autocompletion=run_names
        ),
    ],
    step: Annotated[int | None, typer.Option(help="The step. \\[default: the slowest]", show_default=False)] = None,
    job: Annotated[
        str, typer.Option(help="The job, if several were recorded. \\[default: the last]", show_default=False)
    ] = "",
    as_json: JsonFlag = False,
) -> None:
    """Explain a step of a recorded training job: its ranks, the paths of its QPs, and what the step waited for.

    Needs no root and no fabric. Pauses and queues are those of the ports on a QP's path, in the time of the step.
    """
    from lab.report.job.job_explanation import explain_step  # noqa: PLC0415 - NumPy, for which --help does not wait
    from lab.telemetry.read.recording import Recording  # noqa: PLC0415

    found = explain_step(Recording.open(folder_of(run)), job, step)
    if as_json:
        print_json(asdict(found))
    else:
        _show(found)


def _show(found: StepExplanation) -> None:
    from lab.report.job.job_drawing import draw_path, draw_ranks  # noqa: PLC0415 - as above

    of, steps = found.step, found.steps
    which = ", the slowest" if len(steps) > 1 and of.time_s == max(each.time_s for each in steps) else ""
    ratio = f", {of.time_s / found.roofline_s:.2f} times the arithmetic" if found.roofline_s else ""
    title = f"{found.job}: step {of.step} of {len(steps)}{which}, {format_time(of.time_s)}{ratio}"
    stdout.print(table(title, _RANKS, map(_rank_row, found.ranks)))
    _say(*draw_ranks(found), "")
    if found.qps:
        stdout.print(table("paths of the QPs, the longest wait first", _QPS, list(_qp_rows(found.qps))))
    else:
        _say("the QPs of the ranks were not recorded: their paths are unknown", "")
    _say("critical path", *(f"{number}. {line}" for number, line in enumerate(found.findings, 1)))
    if found.critical_qp is not None:
        _say(*(f"   {line}" for line in draw_path(found.qps[found.critical_qp])))


def _rank_row(rank: ExplainedRank) -> tuple[object, ...]:
    late = f"{'-' if rank.late_s < 0 else ''}{format_time(abs(rank.late_s))}"
    return (
        *(rank.rank, f"{rank.node}:{rank.interface}", format_time(rank.compute_s), format_time(rank.waiting_s)),
        *(format_time(rank.transfer_s), f"{rank.share:.0%}", late, format_time(rank.end_s)),
    )


def _qp_rows(qps: tuple[QpWait, ...]) -> Iterator[tuple[object, ...]]:
    """Yield a row for each port of each QP's path; the first one names the QP."""
    for qp in qps:
        about: tuple[object, ...] = (f"rank {qp.rank} {qp.qpn}", f"rank {qp.peer_rank} {qp.peer_qpn}", qp.source_port)
        for port in qp.path:
            paused = format_time(port.paused_s) if port.paused_s else ""
            yield *about, port.port, paused, format_size(port.queue_peak_bytes) if port.queue_peak_bytes else ""
            about = ("", "", "")
        if not qp.path:
            yield *about, "not recorded", "", ""


def _say(*lines: str) -> None:
    for line in lines:
        stdout.print(printable(line), markup=False, highlight=False, soft_wrap=True)
