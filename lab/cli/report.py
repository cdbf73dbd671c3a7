"""``rocelab report``: what recorded runs show, as root cause analyses for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.cli.output import JsonFlag, print_json, stdout
from lab.errors import OperationFailed
from lab.scenario import library

if TYPE_CHECKING:
    from lab.report.facts import Facts


Output = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Where reports go.")]
Own = Annotated[Path, typer.Option("--path", metavar="DIR", help="A folder of your own scenarios.")]


def report(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Recordings: directories, or names in recordings/.")
    ],
    output: Output = Path("reports"),
    path: Own = library.OWN,
    as_json: JsonFlag = False,
) -> None:
    """Write the root cause analysis of a recorded run, from its own figures, in Markdown. Without root.

    rocelab report recordings/RUN -o DIR writes DIR/RUN.md.
    """
    made = [_made(_folder(run), output, path) for run in runs]
    if as_json:
        print_json([_facts(facts, files) for facts, files in made])
        return
    for _, files in made:
        for file in files:
            stdout.print(str(file), markup=False, highlight=False, soft_wrap=True)


def _folder(run: str) -> Path:
    path = Path(run)
    return path if path.is_dir() or "/" in run else Path("recordings") / run


def _made(run: Path, output: Path, path: Path) -> tuple[Facts, list[Path]]:
    """A run's facts, and the files that tell of it."""
    from lab.cli.told import told_of  # noqa: PLC0415 - scenarios, NumPy and pyarrow, for which --help does not wait
    from lab.report.facts import gather  # noqa: PLC0415
    from lab.report.markdown import write_markdown  # noqa: PLC0415
    from lab.telemetry.recording import Recording  # noqa: PLC0415

    facts = gather(Recording.open(run), told_of(run, path))
    return facts, [_written(output / f"{facts.name}.md", write_markdown(facts))]


def _written(file: Path, text: str) -> Path:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise OperationFailed(f"{file} cannot be written: {error.strerror}", "-o names another folder") from error
    return file


def _facts(facts: Facts, files: list[Path]) -> dict[str, Any]:
    from lab.report.markdown import seen  # noqa: PLC0415

    return {
        "name": facts.name,
        "fabric": facts.fabric,
        "scenario": facts.told.scenario,
        "title": facts.story.title,
        "outcome": facts.told.outcome or None,
        "complete": facts.complete,
        "why": facts.why,
        "began": facts.began,
        "seconds": facts.seconds,
        "phases": facts.phases,
        "faults": facts.faults,
        "timeline": facts.timeline,
        "seen": list(seen(facts)),
        "checks": facts.told.checks,
        "figures": facts.figures,
        "unknown": list(facts.unknowns),
        "files": [str(file) for file in files],
    }
