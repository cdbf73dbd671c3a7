"""What a recording of a scenario has in outline, read from the scenario's own code: phases, faults and settings.

No fabric is needed: ``run`` and the functions that it calls, ``three_acts`` among them, are followed statement by
statement.
"""

from __future__ import annotations

import ast
import inspect
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lab.scenario import three_acts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from lab.scenario.api import Scenario

_STEP = 0.125
"""Seconds that each thing takes; what a scenario holds for takes one."""


@dataclass
class OutlinedFault:
    """A fault that is injected, and healed or not."""

    kind: str
    place: str
    start: float
    end: float | None = None


@dataclass
class Outline:
    """Seconds from the beginning: phases by name, faults, and what was set with ``stage.set``."""

    phases: list[tuple[str, float, float]] = field(default_factory=list)
    faults: list[OutlinedFault] = field(default_factory=list)
    settings: list[tuple[float, str]] = field(default_factory=list)
    now: float = 0.0


class _Returned(Exception):
    pass


class _Walk:
    def __init__(self, scenario: Scenario[Any]) -> None:
        module = sys.modules[scenario.run.__module__]
        self._functions = {**_functions(three_acts), **_functions(module)}
        self._known: dict[str, list[OutlinedFault]] = {}
        self._values: dict[str, Any] = {**vars(three_acts), **vars(module), "p": scenario.parameters()}
        self._depth = 0
        self.made = Outline()
        self._function("run", [])

    def _function(self, name: str, given: list[ast.expr]) -> None:
        parameters = self._functions[name].args
        for parameter, argument in zip(parameters.args, given, strict=False):
            self._known[parameter.arg] = self._of(argument)
            self._values[parameter.arg] = self._value(argument)
        if parameters.vararg:
            rest = given[len(parameters.args) :]
            self._known[parameters.vararg.arg] = [fault for argument in rest for fault in self._of(argument)]
            self._values[parameters.vararg.arg] = [self._value(argument) for argument in rest]
        self._depth += 1
        try:
            self._body(self._functions[name].body)
        except _Returned:
            pass
        finally:
            self._depth -= 1

    def _body(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.With():
                self._with(statement)
            case ast.For():
                self._for(statement)
            case ast.If() | ast.While():
                self._calls(statement.test)
                self._body(statement.body)
            case ast.Assign():
                before = len(self.made.faults)
                self._calls(statement.value)
                made = [fault for fault in self.made.faults[before:] if fault.end is None]
                for name in (each for target in statement.targets for each in _names(target)):
                    self._known[name] = made
            case ast.Return():
                if statement.value is not None:
                    self._calls(statement.value)
                raise _Returned
            case ast.FunctionDef():
                self._functions[statement.name] = statement
            case _:
                self._calls(statement)

    def _for(self, statement: ast.For) -> None:
        """Once for each item that is known without a fabric, or once."""
        self._calls(statement.iter)
        items = self._value(statement.iter)
        for item in items if isinstance(items, list | tuple) else [None]:
            for name in _names(statement.target):
                self._known[name], self._values[name] = self._of(statement.iter), item
            self._body(statement.body)

    def _comprehension(self, node: ast.ListComp) -> None:
        """As a loop over its first iterable, of which the element is the body."""
        loop = node.generators[0]
        self._for(ast.For(loop.target, loop.iter, [ast.Expr(node.elt)], []))

    def _value(self, node: ast.expr) -> Any:
        """What an expression is, as far as that is known without a fabric."""
        try:
            return eval(ast.unparse(node), dict(self._values))  # noqa: S307 - of this project's own scenarios
        except Exception:  # noqa: BLE001 - it needs a fabric
            return None

    def _text(self, node: ast.expr) -> str:
        value = self._value(node)
        return value if isinstance(value, str) else ast.unparse(node)

    def _with(self, statement: ast.With) -> None:
        entered = []
        for item in statement.items:
            call = item.context_expr
            if isinstance(call, ast.Call) and _stage(call) == "phase":
                entered.append((self._text(call.args[0]), self.made.now))
            else:
                self._calls(call)
        try:
            self._body(statement.body)
        finally:
            for name, start in entered:
                self.made.now += _STEP
                self.made.phases.append((name, start, self.made.now))

    def _calls(self, node: ast.AST) -> None:
        if isinstance(node, ast.ListComp):
            self._comprehension(node)
            return
        for call in _in_order(node):
            match _stage(call):
                case "inject":
                    kind, place = map(self._text, call.args[:2])
                    self.made.faults.append(OutlinedFault(kind, place, self.made.now))
                case "heal":
                    for fault in self._of(call.args[0]):
                        fault.end = fault.end or self.made.now
                case "set":
                    self.made.settings.append((self.made.now, " ".join(map(self._text, call.args))))
                case "hold":
                    self.made.now += 1
                case "":
                    called = call.func.id if isinstance(call.func, ast.Name) else ""
                    if called in self._functions and self._depth < 5:
                        self._function(called, call.args)
            self.made.now += _STEP

    def _of(self, node: ast.expr) -> list[OutlinedFault]:
        return [fault for name in _names(node) for fault in self._known.get(name, [])]


def outline(scenario: Scenario[Any]) -> Outline:
    """The phases, faults and settings of a run."""
    made = _Walk(scenario).made
    made.phases.sort(key=lambda phase: phase[1])
    return made


def _functions(module: ModuleType) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(inspect.getsource(module))
    return {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}


def _stage(call: ast.Call) -> str:
    """Which method of the stage is called; "" of anything else."""
    of = call.func
    return (
        of.attr if isinstance(of, ast.Attribute) and isinstance(of.value, ast.Name) and of.value.id == "stage" else ""
    )


def _in_order(node: ast.AST) -> Iterator[ast.Call]:
    """Calls as they are made: arguments first."""
    for child in ast.iter_child_nodes(node):
        yield from _in_order(child)
    if isinstance(node, ast.Call):
        yield node


def _names(node: ast.AST) -> list[str]:
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
