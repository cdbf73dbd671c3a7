"""``rocelab analyze``: a capture as tables, with a verdict."""

from __future__ import annotations

import io
import os
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.analysis.results.analysis_exit_code import verdict
from lab.cli.kit.capture_source import CaptureArgument, open_capture, require_file
from lab.cli.kit.host_names import FabricOption, parse_filter
from lab.cli.kit.option_value import read_value
from lab.cli.kit.output import JsonFlag, print_json, stderr
from lab.errors import UsageError
from lab.result_files import write_result
from lab.units import parse_rate

if TYPE_CHECKING:
    from lab.analysis.results.analysis_facts import AnalysisFacts
    from lab.wire.filter.expression import Expression


def analyze(
    file: CaptureArgument,
    rate: Annotated[
        str | None, typer.Option(help="Rate of links that the file does not state, for pause times, like 100Mbit.")
    ] = None,
    select: Annotated[
        str | None,
        typer.Option(
            "--filter", metavar="EXPR", help="Only packets like: host h1 and not cnp (rocelab dissect --help)."
        ),
    ] = None,
    fabric: FabricOption = None,
    icrc: Annotated[
        bool, typer.Option("--icrc", help="Check every ICRC instead of a sample, which is slower.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw goodput, marks, losses and pauses over time: FILE.svg or FILE.png."),
    ] = None,
    qp: Annotated[
        str | None,
        typer.Option(
            "--qp",
            metavar="QPN[@HOST]",
            help="One connection as a ladder: PSNs, ACKs, NAKs, CNPs and pauses over time.",
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Summarise a capture: QPs, messages, losses, marks, pauses and paths; report what looks wrong.

    Filtered packets are not analysed: qpn==0x11 selects no responses, because they go to the other QP.

    Exit code 0 if nothing looks wrong, 1 if something does, 3 if the file has nothing to judge.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no matrices here: NumPy need not start threads for them
    from lab.analysis.results.fact_builder import analyse  # noqa: PLC0415 - NumPy takes a while to import

    speed = None if rate is None else read_value("--rate", rate, parse_rate)
    if speed == 0:
        raise UsageError("--rate: a link of 0 bit/s carries nothing", "give the rate of the links, like 100Mbit")
    if plot is not None and plot.suffix not in {".png", ".svg"}:
        raise UsageError(f"--plot {plot}: a plot is PNG or SVG", "name a file that ends in .svg or .png")
    if qp is not None:
        require_file(file, "--qp")
    wanted = parse_filter(select, fabric, file)
    with open_capture(file) as stream:
        facts = analyse(stream, str(file), rate=speed, check_icrc=icrc, wanted=None if qp else wanted)
    if qp is not None:
        _ladder(facts, qp, file, wanted, json=json)
        raise typer.Exit(verdict(facts))
    if plot is not None:
        _plot(facts, plot)
    if json:
        told = {field.name: getattr(facts, field.name) for field in fields(facts)}
        print_json(told | {"verdict": verdict(facts).name.lower()})
    else:
        from lab.cli.tables.analysis_tables import show  # noqa: PLC0415 - rich's trees, for which JSON does not wait

        show(facts)
    raise typer.Exit(verdict(facts))


def _ladder(facts: AnalysisFacts, qp: str, file: Path, wanted: Expression | None, *, json: bool) -> None:
    """Read the file again, for one connection."""
    from lab.analysis.results.fact_builder import chooser  # noqa: PLC0415
    from lab.analysis.views.ladder import ladder  # noqa: PLC0415 - NumPy takes a while to import
    from lab.cli.tables import ladder_view as drawing  # noqa: PLC0415 - needed only for a ladder

    connection = drawing.the_connection(facts, qp)
    with open_capture(file) as stream:
        told = ladder(stream, str(file), connection, choose=None if wanted is None else chooser(wanted))
    if json:
        print_json(drawing.as_data(told))
    else:
        drawing.draw(told)


def _plot(facts: AnalysisFacts, file: Path) -> None:
    from lab.analysis.views import plot  # noqa: PLC0415 - matplotlib takes longer than most analyses

    if not plot.can_plot(facts):
        stderr.print(f"{file} was not written: the capture has no goodput and no pause to plot", markup=False)
        return
    output = io.BytesIO()
    plot.plot(facts, output, "svg" if file.suffix == ".svg" else "png")
    write_result(file, output.getvalue())
