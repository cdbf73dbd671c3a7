"""``rocelab compare``: compare two recordings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.kit.complete import run_names
from lab.cli.kit.option_value import read_optional_seconds
from lab.cli.kit.output import JsonFlag, print_json, stdout
from lab.cli.kit.run_name import file_stems, folder_of
from lab.errors import ExitCode, UsageError
from lab.result_files import write_results
from lab.scenario import library

if TYPE_CHECKING:
    from lab.report.compare.comparison import RunComparison

_ENDINGS = {".html", ".md"}


def compare(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A", help="A recording: its directory, or its name in recordings/.", autocompletion=run_names
        ),
    ],
    b: Annotated[
        str, typer.Argument(metavar="B", help="The recording to compare with it.", autocompletion=run_names)
    ],
    phase: Annotated[str, typer.Option(help="Compare only this phase of both recordings.")] = "",
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Start of the window in both recordings.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="End of the window in both recordings.")
    ] = None,
    threshold: Annotated[
        float, typer.Option(min=0, max=100, help="Percent by which a value has to differ to count as a change.")
    ] = 5.0,
    every: Annotated[bool, typer.Option("--all", help="Also show what did not change.")] = False,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write a page (.html) or Markdown (.md) instead of tables."
        ),
    ] = None,
    fail_on_change: Annotated[
        bool, typer.Option("--fail-on-change", help="Exit with 1 if anything changed.")
    ] = False,
    path: Annotated[
        Path, typer.Option("--path", metavar="DIR", help="A folder of your own scenarios.")
    ] = library.OWN,
    as_json: JsonFlag = False,
) -> None:
    """Compare two recordings: before and after a fix, with ECMP and spraying, with and without a fault.

    It shows what changed per port, RDMA device, transfer, phase, check and diagnosis, the largest change first.
    Counters are compared per second. Values that did not change are counted. A counter that is 0 in one run only
    is always a change. The command needs no root.
    """
    files = output or []
    since, end = read_optional_seconds("--from", begin), read_optional_seconds("--until", until)
    _check(phase, since, end, files)
    found = _compared(a, b, phase, since, end, threshold / 100, path)
    for file in files:
        _write(file, found, threshold / 100, every=every)
    if as_json:
        from lab.cli.tables.comparison_table import comparison_data  # noqa: PLC0415 - see _compared

        print_json(comparison_data(found, threshold / 100, files, every=every))
    elif not files:
        from lab.cli.tables.comparison_table import show_comparison  # noqa: PLC0415

        show_comparison(found, every=every)
    else:
        for file in files:
            stdout.print(str(file), markup=False, highlight=False, soft_wrap=True)
    if fail_on_change and found.changed:
        raise typer.Exit(ExitCode.FAIL)


def _check(phase: str, begin: float | None, until: float | None, files: list[Path]) -> None:
    """Raise UsageError for options that exclude each other, and for a file of the wrong type."""
    if phase and (begin is not None or until is not None):
        raise UsageError("--phase and times are both given", "name a phase, or give --from and --until")
    for file in files:
        if file.suffix not in _ENDINGS:
            raise UsageError(f"-o {file} is neither .html nor .md", "-o compare.html, or -o compare.md")


def _compared(
    a: str, b: str, phase: str, begin: float | None, until: float | None, threshold: float, path: Path
) -> RunComparison:
    from lab.cli.kit.scenario_verdict import told_of  # noqa: PLC0415 - NumPy and pyarrow, for which --help does not wait
    from lab.report.compare.comparison import compare_runs  # noqa: PLC0415
    from lab.report.compare.run_window import WindowChoice, read_run  # noqa: PLC0415
    from lab.telemetry.read.recording import Recording  # noqa: PLC0415

    folders = [folder_of(a), folder_of(b)]
    recordings = [Recording.open(folder) for folder in folders]
    choice = WindowChoice(phase, begin, until)
    one, other = (
        read_run(recording, label, told_of(folder, path), choice)
        for recording, label, folder in zip(recordings, file_stems(folders), folders, strict=True)
    )
    return compare_runs(one, other, threshold, phases=choice.whole)


def _write(file: Path, found: RunComparison, threshold: float, *, every: bool) -> None:
    from lab.report.compare.comparison_markdown import write_comparison  # noqa: PLC0415 - see _compared
    from lab.report.compare.comparison_page import write_comparison_page  # noqa: PLC0415

    made = write_comparison_page if file.suffix == ".html" else write_comparison
    text = made(found, threshold, every=every)
    write_results({file: text}, "name another file with -o", folders=[file.parent])
