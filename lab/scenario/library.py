"""The library of scenarios: modules in a folder, in the form that ``api`` describes."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Final

from lab.errors import InvalidInput, Problem, UsageError
from lab.model.values.suggest import suggest
from lab.scenario import relocation
from lab.scenario.api import Parameters, Scenario, named
from lab.scenario.challenges.story_answer import LEVELS, RUNGS, StoryAnswer
from lab.shipped import shipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    from lab.model.topology import Topology

OWN: Final = shipped("scenarios")
"""The folder of rocelab's own scenarios."""
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_PARTS: Final = ("Story", "Numbers")
_LONGEST: Final = 180


def names(folder: Path = OWN) -> list[str]:
    """Return the names of all scenarios in a folder. Raises UsageError if there is no such folder."""
    if not folder.is_dir():
        raise UsageError(f"no folder {folder}", "scenarios are Python files in one: --path DIR")
    return sorted(file.stem.replace("_", "-") for file in folder.glob("*.py") if not file.stem.startswith("_"))


def find(name: str, folder: Path = OWN) -> Scenario[Any]:
    """Return a scenario by name. Raises UsageError if there is none, InvalidInput if its module is malformed."""
    known = names(folder)
    if name not in known:
        raise UsageError(f"there is no scenario {name!r}", suggest(name, known, "rocelab scenario ls lists all"))
    file = file_of(name, folder)
    module = _loaded(file)
    scenario = getattr(module, "SCENARIO", None)
    if not isinstance(scenario, Scenario):
        raise InvalidInput(str(file), [Problem("SCENARIO", "is missing", "end with SCENARIO = Scenario(...)")])
    if problems := list(_wrong_types(scenario)):
        raise InvalidInput(str(file), problems)
    return scenario


def _wrong_types(scenario: Scenario[Any]) -> Iterator[Problem]:
    """Yield a problem for each field of another type, for example ``checks=(lossless)`` without a comma."""
    for field, has_type, form in (
        ("name", _is_text, "a text"),
        ("topology", _is_text, "the name of a file"),
        (
            "parameters",
            lambda value: isinstance(value, type) and issubclass(value, Parameters),
            "a class of Parameters",
        ),
        ("run", inspect.isfunction, "a function"),
        ("checks", partial(_is_tuple, of=_has_name), "functions: (lossless,)"),
        ("captures", partial(_is_tuple, of=_is_text), 'links: ("h1--leaf1",)'),
        ("answer", _is_answer, "StoryAnswer(...), with tuples for where and hints"),
    ):
        if not has_type(getattr(scenario, field)):
            yield Problem(f"SCENARIO.{field}", "has a wrong type", f"write {form}")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _has_name(value: object) -> bool:
    return callable(value) and hasattr(value, "__name__")


def _is_answer(value: object) -> bool:
    if not isinstance(value, StoryAnswer):
        return value is None
    return _is_tuple(value.where, of=_is_text) and _is_tuple(value.hints, of=_is_text)


def _is_tuple(value: object, *, of: Callable[[object], bool]) -> bool:
    return isinstance(value, list | tuple) and all(map(of, value))


def find_at(name: str, at: str, topology: Topology, folder: Path = OWN) -> Scenario[Any]:
    """Return a scenario moved to the place ``at`` of its topology; unchanged if ``at`` is "".

    Raises UsageError like ``find``, and if the scenario cannot run at that place.
    """
    scenario = find(name, folder)
    if not at:
        return scenario
    if scenario.answer is None:
        raise UsageError(f"scenario {name} has no answer, and so no place to move", "run it without --at")
    moved: Scenario[Any] = _loaded(
        file_of(name, folder), relocation.relocate(topology, scenario.answer.where[0], at), at
    ).SCENARIO
    return replace(moved, at=at)


def places(scenario: Scenario[Any], topology: Topology) -> list[str]:
    """Return the places where a scenario can run, its own first; empty if it has no answer."""
    return [] if scenario.answer is None else relocation.places(topology, scenario.answer.where[0])


def file_of(name: str, folder: Path = OWN) -> Path:
    """Return the module file of a scenario."""
    return folder / f"{name.replace('-', '_')}.py"


def topology_of(scenario: Scenario[Any], folder: Path = OWN) -> Path:
    """Return the topology file, from the scenario's folder or ``topologies/``. Raises UsageError without one."""
    for place in (folder, folder.parent / "topologies", OWN.parent / "topologies"):
        if (place / scenario.topology).is_file():
            return place / scenario.topology
    raise UsageError(
        f"scenario {scenario.name}: no file {scenario.topology}", f"put it into {folder}, or topologies/"
    )


def lint(name: str, folder: Path = OWN) -> list[Problem]:
    """Return the problems of a scenario's module, without running it."""
    try:
        scenario = find(name, folder)
    except InvalidInput as error:
        return list(error.problems)
    return list(_problems(scenario, name, file_of(name, folder)))


def _problems(scenario: Scenario[Any], name: str, file: Path) -> Iterator[Problem]:
    if scenario.name != name or not _NAME.fullmatch(scenario.name):
        yield Problem("SCENARIO.name", f"is {scenario.name!r}", f"call it {name!r}, as its file")
    lines = len(file.read_text(encoding="utf-8").splitlines())
    if lines > _LONGEST:
        yield Problem("", f"has {lines} lines", f"shorten it to {_LONGEST}")
    yield from _untold(scenario)


def _untold(scenario: Scenario[Any]) -> Iterator[Problem]:
    """Yield a problem for each missing explanation, check or default."""
    for part in _PARTS:
        if f"\n{part}\n" not in scenario.text:
            yield Problem("docstring", f"has no {part}", f"write a line {part!r}, and below it what the reader needs")
    for key, field in scenario.parameters.model_fields.items():
        if not field.description:
            yield Problem(f"Params.{key}", "is not explained", "write a string below it")
        if field.is_required():
            yield Problem(f"Params.{key}", "has no default", "give it one: a scenario runs without options")
    for check in scenario.checks:
        if not check.__doc__:
            yield Problem(named(check), "says not what is true", "give it a docstring")
    if scenario.answer is not None:
        yield from _unanswered(scenario, scenario.answer)
    if not scenario.checks:
        yield Problem("SCENARIO.checks", "is empty", "a story that nothing can contradict is none")


def _unanswered(scenario: Scenario[Any], answer: StoryAnswer) -> Iterator[Problem]:
    """Yield the problems of a scenario's answer."""
    if answer.level not in LEVELS:
        yield Problem("SCENARIO.answer.level", f"is {answer.level}", f"choose one of {LEVELS}")
    if len(answer.hints) != len(RUNGS):
        yield Problem("SCENARIO.answer.hints", f"are {len(answer.hints)}", f"give {', '.join(RUNGS)}")
    if not answer.where:
        yield Problem("SCENARIO.answer.where", "is nowhere", "name a node, a port or a link")
    source = inspect.getsource(sys.modules[scenario.run.__module__])
    if not any(waits in source for waits in ("linger", "three_acts", "two_storms")):
        yield Problem("run", "lingers nowhere", "say stage.linger() where the fault is there")


def _loaded(file: Path, moved: relocation.Relocation | None = None, at: str = "") -> ModuleType:
    """Load a module under a unique name, moved to another place if requested. Raises InvalidInput for an error in it.

    A moved module has no ``__file__``: pydantic finds field descriptions by ``inspect``, which keeps one module per
    file.
    """
    known = f"rocelab_scenario_{abs(hash((file.resolve(), at)))}_{file.stem}"
    module = ModuleType(known)
    code = f"{file} at {at}" if moved else str(file)
    if moved is None:
        module.__file__ = str(file)
    sys.modules[known] = module
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
        exec(compile(moved.tree(tree) if moved else tree, code, "exec"), module.__dict__)  # noqa: S102 - a module's code
    except Exception as error:
        del sys.modules[known]
        line = getattr(error, "lineno", None) or _line_of(error, file)
        message = " ".join(f"{type(error).__name__}: {error}".split())
        raise InvalidInput(str(file), [Problem(path="", message=message, remedy="mend it", line=line)]) from error
    return module


def _line_of(error: Exception, file: Path) -> int:
    trace, found = error.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            found = trace.tb_lineno
        trace = trace.tb_next
    return found
