"""``rocelab report``: root cause analyses of recordings, and HTML pages that replay them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.cli.kit.complete import run_names
from lab.cli.kit.output import JsonFlag, print_json, print_note, stdout
from lab.cli.kit.run_name import file_stems, folder_of
from lab.errors import InvalidInput, UsageError
from lab.result_files import write_results
from lab.scenario import library

if TYPE_CHECKING:
    from lab.report.run_facts import ReportFacts

Output = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the reports.")]
Index = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Report every recording below a folder, and list them on index.html."),
]
Own = Annotated[Path, typer.Option("--path", metavar="DIR", help="A folder of your own scenarios.")]
_REMEDY = "name another folder with -o"


def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...", help="Recordings: directories, or names in recordings/.", autocompletion=run_names
        ),
    ] = None,
    output: Output = Path("reports"),
    index: Index = None,
    path: Own = library.OWN,
    as_json: JsonFlag = False,
) -> None:
    """Write a report of a recording: root cause analysis in Markdown, and an HTML page that replays it.

    rocelab report recordings/RUN -o DIR writes DIR/RUN.md and DIR/RUN.html. The HTML file needs no network.
    """
    if not runs and index is None:
        raise UsageError("no recording is named", "rocelab report RUN, or --index DIR for all of a folder")
    named = list(dict.fromkeys(map(folder_of, runs or [])))
    below = [run for run in _below(index) if run not in named] if index is not None else []
    stems = file_stems([*named, *below], reserved={"index"} if index is not None else ())
    made = [_made(run, output, path, stem) for run, stem in zip(named, stems, strict=False)]
    unread: dict[str, str] = {}
    for run, stem in zip(below, stems[len(named) :], strict=True):
        try:
            made.append(_made(run, output, path, stem))
        except InvalidInput as error:  # continue with the other recordings
            unread[stem] = str(error)
            print_note(f"left out: {error}")
    listed = _listed(made, unread, output) if index is not None else None
    if as_json:
        print_json({
            "reports": [_facts(facts, files) for facts, files in made],
            "unread": [{"recording": name, "why": why} for name, why in unread.items()],
            "index": None if listed is None else str(listed),
        })  # fmt: skip
        return
    for file in [*(file for _, files in made for file in files), *([listed] if listed else [])]:
        stdout.print(str(file), markup=False, highlight=False, soft_wrap=True)


def _made(run: Path, output: Path, path: Path, stem: str) -> tuple[ReportFacts, list[Path]]:
    """Return the facts of a run, and write its files, which are named ``stem``."""
    from lab.cli.kit.scenario_verdict import told_of  # noqa: PLC0415 - scenarios, NumPy and pyarrow, for which --help does not wait
    from lab.report.markdown import write_markdown  # noqa: PLC0415
    from lab.report.page import write_page  # noqa: PLC0415
    from lab.report.run_facts import gather  # noqa: PLC0415
    from lab.telemetry.read.recording import Recording  # noqa: PLC0415

    recording = Recording.open(run)
    facts = gather(recording, told_of(run, path))
    texts = {"md": write_markdown(facts), "html": write_page(recording, facts)}
    files = {output / f"{stem}.{ending}": text for ending, text in texts.items()}
    write_results(files, _REMEDY, folders=[output])
    return facts, [*files]


def _below(folder: Path) -> list[Path]:
    """Return every recording in a folder and its subfolders; UsageError if there is none."""
    found = sorted(each.parent for each in folder.glob("**/recording.json"))
    if not found:
        raise UsageError(f"no recording in {folder}", "rocelab record ls lists the recordings")
    return found


def _listed(made: list[tuple[ReportFacts, list[Path]]], unread: dict[str, str], output: Path) -> Path:
    from lab.report.gallery import write_gallery  # noqa: PLC0415 - see _made

    runs = [(facts, files[-1].name) for facts, files in made]
    file = output / "index.html"
    write_results({file: write_gallery(runs, unread)}, _REMEDY, folders=[output])
    return file


def _facts(facts: ReportFacts, files: list[Path]) -> dict[str, Any]:
    from lab.report.markdown import seen  # noqa: PLC0415 - see _made

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
        "transfers": facts.transfers,
        "limited": facts.limited,
        "jobs": facts.jobs,
        "requests": facts.requests,
        "packets": [
            {name: getattr(each, name) for name in ("what", "at", "link", "file", "number", "line")}
            for each in facts.packets
        ],
        "answer": facts.told.answer,
        "diagnosis": facts.diagnosis,
        "ruled_out": facts.ruled,
        "alarms": list(facts.alarms),
        "unknown": list(facts.unknowns),
        "files": [str(file) for file in files],
    }
