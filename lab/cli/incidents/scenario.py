"""``rocelab scenario``: run, record and judge faults of a fabric with a workload."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.incidents import challenge
from lab.cli.kit.complete import run_names
from lab.cli.kit.output import JsonFlag, print_json, stderr, stdout, table
from lab.cli.kit.run_name import folder_of
from lab.cli.tables import verdict_table
from lab.errors import InvalidInput, Problem, UsageError
from lab.faults.fault_request import parse_words
from lab.faults.parameters import listed
from lab.model.load import read_topology
from lab.scenario import library
from lab.scenario.judge import judge as judged_of
from lab.scenario.runner import play
from lab.vm.calls.handover import to_stay

app = typer.Typer(
    no_args_is_help=True, help="Scripted faults with traffic: run one, record it, and judge the recording."
)


app.command("break")(challenge.break_)
app.command()(challenge.hint)
app.command()(challenge.check)
app.command()(challenge.fix)
app.command()(challenge.explain)
app.command()(challenge.score)


def scenario_names() -> list[str]:
    """Complete the scenarios that come with rocelab."""
    return library.names() if library.OWN.is_dir() else []


Name = Annotated[str, typer.Argument(metavar="NAME", help="See scenario ls.", autocompletion=scenario_names)]
Folder = Annotated[Path, typer.Option("--path", metavar="DIR", help="A folder of your own scenarios.")]


def _names(folder: Path) -> list[str]:
    """Return the names of the scenarios in a folder; UsageError if there is none."""
    found = library.names(folder)
    if not found:
        raise UsageError(f"no scenario in {folder}", "name a folder of Python files; rocelab examples copy has some")
    return found


@app.command("ls")
def list_(path: Folder = library.OWN, as_json: JsonFlag = False) -> None:
    """List the scenarios of a folder."""
    found = [library.find(name, path) for name in _names(path)]
    if as_json:
        print_json([{"name": each.name, "title": each.title, "topology": each.topology} for each in found])
    else:
        rows = [(each.name, each.topology, each.title) for each in found]
        stdout.print(table("scenarios", ("name", "topology", "title"), rows))


@app.command()
def show(name: Name, path: Folder = library.OWN, as_json: JsonFlag = False) -> None:
    """Show a scenario: its description, figures, places, parameters and checks."""
    scenario = library.find(name, path)
    fields = listed(scenario.parameters)
    checks = [
        {"name": check.__name__.replace("_", "-"), "meaning": (check.__doc__ or "").partition("\n")[0]}
        for check in scenario.checks
    ]
    places = library.places(scenario, read_topology(library.topology_of(scenario, path)))
    if as_json:
        print_json(
            {
                "name": scenario.name,
                "topology": scenario.topology,
                "places": places,
                "text": scenario.text,
                "parameters": fields,
                "checks": checks,
            }
        )
        return
    stdout.print(scenario.text, markup=False, highlight=False)
    if len(places) > 1:
        stdout.print(f"\nPlaces (run --at PLACE)\n    {', '.join(places)}", markup=False, highlight=False)
    if fields:
        stdout.print(table("parameters", ("name", "default", "meaning"), [tuple(each.values()) for each in fields]))
    stdout.print(table("checks", ("name", "meaning"), [tuple(each.values()) for each in checks]))


@app.command()
def lint(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...")] = None, path: Folder = library.OWN
) -> None:
    """Check the form of scenarios without running them."""
    problems = []
    for name in names or _names(path):
        problems += [
            Problem(
                path=f"{name} {problem.path}".strip(),
                message=problem.message,
                remedy=problem.remedy,
                line=problem.line,
            )
            for problem in library.lint(name, path)
        ]
    if problems:
        raise InvalidInput(str(path), problems)
    stderr.print("no problems found", highlight=False)


@app.command()
def run(
    name: Name,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter as NAME=VALUE. May be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 1,
    repeat: Annotated[int, typer.Option(min=1, help="Number of runs; the seed increases by one each time.")] = 1,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the fabric running.")] = False,
    at: Annotated[str, typer.Option(metavar="PLACE", help="Another place of the fault: see show.")] = "",
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the recordings.")] = Path(
        "recordings"
    ),
    path: Folder = library.OWN,
    as_json: JsonFlag = False,
) -> None:
    """Run a scenario on its fabric, record it, and judge the recording. Builds the fabric if needed.

    Exit code 0 if all checks pass, 1 if one fails, 3 if one is undecided.
    """
    scenario = library.find_at(name, at, read_topology(library.topology_of(library.find(name, path), path)), path)
    written = parse_words(settings or [])
    results = []
    runs = to_stay(output)
    for number in range(seed, seed + repeat):
        folder = verdict_table.fresh(runs, scenario.name)
        play(
            scenario,
            written,
            folder,
            folder=path,
            seed=number,
            keep=keep or number < seed + repeat - 1,
            tell=verdict_table.tell,
        )
        results.append((folder, judged_of(folder, path)))
        if not as_json:
            verdict_table.show(*results[-1])
    if as_json:
        print_json([verdict_table.facts(*each) for each in results])
    verdict_table.end([judged for _, judged in results])


@app.command()
def judge(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A scenario's recording: its directory, or its name in recordings/.",
            autocompletion=run_names,
        ),
    ],
    path: Folder = library.OWN,
    as_json: JsonFlag = False,
) -> None:
    """Judge a recording again, on any machine and without root. Exit codes as for run."""
    folder = folder_of(run)
    judged = judged_of(folder, path)
    if as_json:
        print_json(verdict_table.facts(folder, judged))
    else:
        verdict_table.show(folder, judged)
    verdict_table.end([judged])
