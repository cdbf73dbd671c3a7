"""``rocelab scenario break``, ``hint``, ``check``, ``fix``, ``explain`` and ``score``: find a hidden fault."""

from __future__ import annotations

import os
import random as chance
import secrets
import shutil
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from lab.backends.fabric_state import all_fabrics, find_fabric
from lab.cli.incidents import scores
from lab.cli.kit.complete import FabricOption
from lab.cli.kit.open_fabric import open_fabric
from lab.cli.kit.output import JsonFlag, complete, print_json, stdout, table
from lab.cli.tables import verdict_table
from lab.errors import ExitCode, OperationFailed, UsageError
from lab.faults import declared
from lab.kernel.process import time_source, wall_clock
from lab.model.load import read_topology
from lab.result_files import copy_result
from lab.scenario import library
from lab.scenario.challenges import challenge_process, guess
from lab.scenario.challenges.challenge_record import Challenge, lasting, required
from lab.scenario.challenges.story_answer import RUNGS
from lab.scenario.judge import judge
from lab.scenario.runner import fabric_for
from lab.units import counted, format_time

if TYPE_CHECKING:
    from lab.backends.backend import Fabric
    from lab.scenario.api import Scenario
    from lab.scenario.challenges.challenge_record import ChallengeInfo
    from lab.scenario.challenges.story_answer import StoryAnswer

Folder = Annotated[Path, typer.Option("--path", metavar="DIR", help="A folder of your own scenarios.")]
_NEXT: Final = "rocelab scenario hint | check --cause CAUSE --where PLACE | fix | explain"


def _challenging() -> list[str]:
    return [name for name in library.names() if library.find(name).answer is not None]


def _cause_names() -> list[str]:
    return sorted(guess.causes())


def break_(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="A scenario that rocelab scenario ls lists.", autocompletion=_challenging
        ),
    ] = None,
    random: Annotated[
        bool, typer.Option("--random", help="Pick any scenario at random, without showing its name.")
    ] = False,
    level: Annotated[
        int | None, typer.Option(min=1, max=3, help="Pick a scenario of this difficulty at random.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of everything random, including the choice of the scenario.")
    ] = None,
    path: Folder = library.OWN,
    as_json: JsonFlag = False,
) -> None:
    """Hide a fault in a fabric for you to find. Builds the fabric if needed, and keeps a workload running.

    Investigate with the usual commands: status, counters, congestion, qos show, capture, path, exec NODE -- ...
    """
    scenario = library.find(name, path) if name else _random(path, level, seed)
    if name and (random or level):
        raise UsageError(f"{name} is not picked at random", "omit NAME, or omit --random and --level")
    _answer(scenario)
    topology = read_topology(
        library.topology_of(scenario, path), reaction=time_source.reaction(), also=declared.check
    )
    if not name or seed is not None:
        place = _generator(seed).choice(library.places(scenario, topology))
        scenario = library.find_at(scenario.name, place, topology, path)
    answer = _answer(scenario)
    folder, seeded = Path(os.path.realpath(path)), 1 if seed is None else seed
    with fabric_for(topology, verdict_table.tell) as found:
        fabric = found.fabric
        verdict_table.tell(f"breaking {fabric.name}")
        with challenge_process.challenging(fabric, scenario, folder, seeded, wall_clock.now()):
            _show_challenge(fabric, answer, as_json)
            complete()
            found.keep = True


def _show_challenge(fabric: Fabric, answer: StoryAnswer, as_json: bool) -> None:
    if as_json:
        print_json({"fabric": fabric.name, "workload": answer.workload, "level": answer.level})
        return
    _say(f"Something is wrong with fabric {fabric.name} (level {answer.level}). Meanwhile {answer.workload}.")
    _say(f"What is it, and where? Look with the ordinary commands, then {_NEXT}")


def _random(path: Path, level: int | None, seed: int | None) -> Scenario[Any]:
    every = [library.find(name, path) for name in library.names(path)]
    fitting = [each for each in every if each.answer is not None and level in {None, each.answer.level}]
    if not fitting:
        raise UsageError(f"no scenario of {path} can be picked", "add a scenario that has an answer and this level")
    return _generator(seed).choice(fitting)


def _generator(seed: int | None) -> chance.Random:
    """Return a random generator; without a seed, it differs each time."""
    return chance.Random(secrets.randbits(64) if seed is None else seed)  # noqa: S311 - a game


def _answer(scenario: Scenario[Any]) -> StoryAnswer:
    if scenario.answer is None:
        raise UsageError(f"scenario {scenario.name} has no answer", "give its SCENARIO one, or choose another")
    return scenario.answer


def hint(fabric: FabricOption = None, as_json: JsonFlag = False) -> None:
    """Give the next hint: the symptom, where, which counter, which command, and what it shows."""
    running, answer, _ = _opened(fabric)
    about = Challenge(running.state).change(lambda old: replace(old, hints=min(old.hints + 1, len(RUNGS))))
    given = _hints(answer)[: about.hints]
    if as_json:
        print_json({"fabric": running.name, "given": given, "left": len(RUNGS) - len(given)})
        return
    stdout.print(table("hints", ("about", "hint"), [tuple(each.values()) for each in given]))
    if about.hints == len(RUNGS):
        verdict_table.tell("that was the last hint; rocelab scenario explain shows the whole answer")


def check(
    cause: Annotated[str, typer.Option(metavar="CAUSE", help="The cause.", autocompletion=_cause_names)],
    where: Annotated[str, typer.Option(metavar="PLACE", help="Its location: leaf1, leaf1:swp1 or leaf1--spine1.")],
    fabric: FabricOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Judge an answer and name what contradicts it, without revealing the right one.

    Causes have the names of scenarios, or are `capacity`. Exit code 0 if the answer is right, 1 if not.
    """
    running, answer, about = _opened(fabric)
    claimed = guess.find_cause(cause, Path(about.folder))
    verdict, told = guess.judge(answer, running.topology, claimed, where)
    right = verdict is guess.Guess.RIGHT

    def noted(old: ChallengeInfo) -> ChallengeInfo:
        if old.over is not None:
            return old
        new = replace(old, guess=(claimed.cause, where))
        return replace(new, solved=True, over=wall_clock.now()) if right else replace(new, wrong=old.wrong + 1)

    Challenge(running.state).change(noted)
    if as_json:
        print_json({"verdict": verdict.value, "told": told})
    else:
        _say(f"{verdict}: {told}")
        if right:
            verdict_table.tell("rocelab scenario fix repairs it, and rocelab scenario explain explains it")
    if not right:
        raise typer.Exit(ExitCode.FAIL)


def fix(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the recording.")] = Path(
        "recordings"
    ),
    fabric: FabricOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Repair the fault, stop the workload, run the scenario's checks, and save the score.

    Exit codes as for run: 0 if all checks pass, 1 if one fails, 3 if one is undecided.
    """
    running, answer, about = _opened(fabric)
    challenge = Challenge(running.state)
    if challenge.ended() is None:
        verdict_table.tell("mending, and looking whether that is enough")
        challenge_process.go_on(about)
    why = challenge.ended()
    if why or not challenge.recording.is_dir():
        raise OperationFailed(
            f"the challenge of {running.name} did not end properly: {why or 'it was fixed already'}"
        )
    run = verdict_table.fresh(output, about.scenario)
    copy_result(challenge.recording, run, "name another folder with -o")
    shutil.rmtree(challenge.recording)
    judged, taken = judge(run, Path(about.folder)), _scored(challenge, answer)
    if as_json:
        verified = verdict_table.facts(run, judged)
        print_json({"fabric": running.name, "fix": answer.fix, "verified": verified, "score": taken})
    else:
        _say(f"the fix: {answer.fix}")
        verdict_table.show(run, judged)
        verdict_table.tell(f"{_told(taken)}; for more, rocelab scenario explain and rocelab report {run}")
    verdict_table.end([judged])


def explain(fabric: FabricOption = None, as_json: JsonFlag = False) -> None:
    """Reveal the fault: cause, location, reason, fix, prevention, and your score, which is saved."""
    running, answer, about = _opened(fabric)
    scenario = _scenario(running, about)
    taken = _scored(Challenge(running.state), answer)
    if as_json:
        told = {name: getattr(answer, name) for name in ("cause", "where", "because", "fix", "prevention")}
        shown = {"scenario": scenario.name, "title": scenario.title, "text": scenario.text}
        print_json({**shown, **told, "hints": _hints(answer), "score": taken})
        return
    _say(f"{answer.cause}, at {' or '.join(answer.where)}: {answer.because}\n")
    _say(scenario.text + "\n")
    stdout.print(table("evidence", ("about", "hint"), [tuple(each.values()) for each in _hints(answer)]))
    _say(f"Fix: {answer.fix}\nPrevention: {answer.prevention}")
    verdict_table.tell(_told(taken))
    if lasting(running.state) is not None:
        verdict_table.tell("it is still broken: look at it with this in mind, then rocelab scenario fix")


def score(
    nika: Annotated[
        bool, typer.Option("--nika", help="Print JSON with the labels of NIKA, a benchmark of agents.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """List the challenges that were fixed or explained, with their time, hints and wrong answers."""
    found = scores.all_scores()
    if nika:
        print_json(scores.labelled(found))
        return
    if as_json:
        print_json(found)
        return
    rows = [
        (f"{datetime.fromtimestamp(each['when']).astimezone():%Y-%m-%d %H:%M}", each["scenario"],
         "yes" if each["solved"] else "no", format_time(round(each["seconds"])), each["hints"], each["wrong"])
        for each in found
    ]  # fmt: skip
    stdout.print(table("challenges", ("when", "scenario", "found", "time", "hints", "wrong answers"), rows))


def _opened(name: str | None) -> tuple[Fabric, StoryAnswer, ChallengeInfo]:
    """Return the fabric with the challenge, its answer, and its state; UsageError without a challenge."""
    if name is None:
        states = [state for state in all_fabrics() if state.challenge.is_dir()]
        if len(states) > 1:
            raise UsageError(
                f"{len(states)} fabrics have a challenge",
                f"choose one with --fabric: {', '.join(s.name for s in states)}",
            )
        name = states[0].name if states else find_fabric(None).name
    running = open_fabric(name)
    about = required(Challenge(running.state))
    return running, _answer(_scenario(running, about)), about


def _scenario(running: Fabric, about: ChallengeInfo) -> Scenario[Any]:
    """Return the scenario of a challenge with its place."""
    return library.find_at(about.scenario, about.at, running.topology, Path(about.folder))


def _hints(answer: StoryAnswer) -> list[dict[str, str]]:
    return [{"rung": rung, "text": text} for rung, text in zip(RUNGS, answer.hints, strict=True)]


def _scored(challenge: Challenge, answer: StoryAnswer) -> dict[str, Any]:
    """Return the user's score so far; the first call also saves it."""
    before = required(challenge)
    about = challenge.change(
        lambda old: replace(old, scored=True, over=wall_clock.now() if old.over is None else old.over)
    )
    seconds = max(0.0, (about.over or about.began) - about.began)
    taken = {
        "scenario": about.scenario, "when": about.began, "seconds": seconds,
        "hints": about.hints, "wrong": about.wrong, "solved": about.solved,
        "answer": {"cause": answer.cause, "place": answer.where[0]},
        "guess": {"cause": about.guess[0], "place": about.guess[1]} if about.guess else None,
    }  # fmt: skip
    if not before.scored:
        scores.keep(taken)
    return taken


def _told(taken: dict[str, Any]) -> str:
    found = "found" if taken["solved"] else "given up"
    spent = f"{counted(taken['hints'], 'hint')}, {counted(taken['wrong'], 'wrong answer')}"
    return f"{found} after {format_time(round(taken['seconds']))}, with {spent}"


def _say(line: str) -> None:
    stdout.print(line, markup=False, highlight=False, soft_wrap=True)
