"""``rocelab expect``: assertions about counters and measurements, for scripts and CI."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lab.cli.kit.complete import FabricOption
from lab.cli.kit.live_figures import MEASURED, LiveFigures, Measured, known_figures
from lab.cli.kit.output import JsonFlag, print_json, stdout, table
from lab.errors import ExitCode, UsageError
from lab.model.values.expectation import ExpectationVerdict, judge, parse
from lab.model.values.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.model.values.expectation import Comparison, FigureValue

_CODES: Final = {
    ExpectationVerdict.PASS: ExitCode.PASS,
    ExpectationVerdict.FAIL: ExitCode.FAIL,
    ExpectationVerdict.UNKNOWN: ExitCode.UNKNOWN,
}


def expect(
    expectations: Annotated[
        list[str],
        typer.Argument(
            metavar="EXPECTATION...",
            help="Like 'drops == 0', 'queue3_watermark_bytes(leaf1:swp6) < 400KB', 'goodput(h1,h4) >= 90Mbit'.",
        ),
    ],
    measured: Annotated[
        list[Path] | None,
        typer.Option("--from", help="Output of rocelab rdma bw or lat with --json; - is standard input."),
    ] = None,
    fabric: FabricOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Check figures: exit code 0 if all expectations hold, 1 if one does not, 3 if one was not measured.

    [bold]Measured:[/] goodput, p50, p99, p999, max; of all pairs, or of one like (h1,h4).

    [bold]Counted[/] since counters clear: drops, pauses, marks, ignored, storms, and all of counters --names; of all
    ports, or of those in parentheses, as counters takes them. A gauge, for example a queue depth, is
    the maximum of these ports; any other counter is their sum.
    """
    comparisons = [comparison for text in expectations for comparison in parse(text)]
    known = known_figures()
    for comparison in comparisons:
        if comparison.figure not in known:
            raise UsageError(
                f"{comparison.text}: there is no figure {comparison.figure}",
                suggest(comparison.figure, known, "rocelab expect --help lists them"),
            )
    documents, counted = Measured([_document(file) for file in measured or ()]), LiveFigures(fabric)
    judged = [judge(comparison, _seen(comparison, documents, counted)) for comparison in comparisons]
    worst = _worst([each.verdict for each in judged])
    if as_json:
        print_json({"expectations": [asdict(each) for each in judged], "verdict": worst})
    else:
        rows = [(each.expected, each.seen, each.verdict) for each in judged]
        stdout.print(table("expectations", ("expected", "seen", "verdict"), rows))
    sys.exit(_CODES[worst])


def _seen(comparison: Comparison, measured: Measured, counted: LiveFigures) -> FigureValue:
    return (measured if comparison.figure in MEASURED else counted).see(comparison)


def _worst(verdicts: Sequence[ExpectationVerdict]) -> ExpectationVerdict:
    return next(
        (verdict for verdict in (ExpectationVerdict.FAIL, ExpectationVerdict.UNKNOWN) if verdict in verdicts),
        ExpectationVerdict.PASS,
    )


def _document(file: Path) -> Any:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        return json.loads(text)
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} is no JSON: {error}", "write it with rocelab rdma bw ... --json") from error
