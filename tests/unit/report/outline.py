"""The outline of a scenario's recordings, read from the scenario's own code: phases, faults and settings.

No fabric is needed: ``run`` and the functions that it calls are followed statement by statement. A function is
followed if it has the stage, or is defined in one that has it; those of ``lab.scenario.traffic`` are not, because
they change nothing. Expressions are evaluated as far as they need no fabric.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass, field
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.scenario.api import Scenario

    Code: TypeAlias = "ast.FunctionDef | ast.Lambda"

_STEP: Final = 0.125
"""Seconds of each call; a hold takes one second more."""
_REVERSED: Final = type(reversed([0]))
_TRAFFIC: Final = "lab.scenario.traffic."
_DEEPEST: Final = 8
"""The depth of calls to which functions are followed."""


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


class _Unknown:
    """A value that needs a fabric. It is true: what depends on it is followed."""


_UNKNOWN: Final = _Unknown()


class _Returned(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


@dataclass
class _Scope:
    """Names of a function and of those around it."""

    known: dict[str, Any]
    outer: _Scope | None = None

    def names(self) -> dict[str, Any]:
        """Return the known names, without those that need a fabric."""
        merged = {**(self.outer.names() if self.outer else {}), **self.known}
        return {name: value for name, value in merged.items() if value is not _UNKNOWN}

    def evaluate(self, node: ast.expr) -> Any:
        """Return the value of an expression, which is unknown if it needs a fabric."""
        try:
            value = eval(ast.unparse(node), self.names())  # noqa: S307 - of this project's own scenarios
        except Exception:  # noqa: BLE001 - it needs a fabric
            return _UNKNOWN
        return list(value) if isinstance(value, _REVERSED) else value


@dataclass(frozen=True)
class _Function:
    """A function of a scenario, with the scope in which it is defined."""

    code: Code
    scope: _Scope

    def __call__(self) -> None:
        """Make ``callable`` true. Only ``_Walk`` follows functions."""
        raise NotImplementedError


class _Walk:
    def __init__(self, scenario: Scenario[Any]) -> None:
        self._depth = 0
        self.made = Outline()
        run = _followed(scenario.run)
        assert run is not None
        self._call(run, [_UNKNOWN, scenario.parameters()], {})

    def _call(self, function: _Function, given: Sequence[Any], keywords: dict[str, Any]) -> Any:
        if self._depth == _DEEPEST:
            return _UNKNOWN
        scope = _Scope(_bound(function, given, keywords), function.scope)
        self._depth += 1
        try:
            if isinstance(function.code, ast.Lambda):
                return self._expression(function.code.body, scope)
            self._body(function.code.body, scope)
        except _Returned as returned:
            return returned.value
        finally:
            self._depth -= 1
        return None

    def _body(self, body: list[ast.stmt], scope: _Scope) -> None:
        for statement in body:
            self._statement(statement, scope)

    def _statement(self, statement: ast.stmt, scope: _Scope) -> None:
        match statement:
            case ast.With():
                self._with(statement, scope)
            case ast.For():
                for _ in self._each(statement.target, statement.iter, scope):
                    self._body(statement.body, scope)
            case ast.If() | ast.While():
                holds = self._expression(statement.test, scope)
                self._body(statement.body if holds else statement.orelse, scope)
            case ast.Assign():
                value = self._expression(statement.value, scope)
                for target in statement.targets:
                    _assign(target, value, scope)
            case ast.Return():
                raise _Returned(None if statement.value is None else self._expression(statement.value, scope))
            case ast.FunctionDef():
                scope.known[statement.name] = _Function(statement, scope)
            case _:
                self._children(statement, scope)

    def _children(self, node: ast.AST, scope: _Scope) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self._expression(child, scope)

    def _each(self, target: ast.expr, iterable: ast.expr, scope: _Scope) -> Iterator[None]:
        """Assign each item that is known without a fabric, or an unknown one once."""
        items = self._expression(iterable, scope)
        for item in items if isinstance(items, list | tuple) else [_UNKNOWN]:
            _assign(target, item, scope)
            yield

    def _with(self, statement: ast.With, scope: _Scope) -> None:
        entered = []
        for item in statement.items:
            call = item.context_expr
            if isinstance(call, ast.Call) and _stage(call) in {"phase", "holding"}:
                entered.append((_text(call.args[0], scope), self.made.now))
                self.made.now += _stage(call) == "holding"
            else:
                self._expression(call, scope)
        try:
            self._body(statement.body, scope)
        finally:
            for name, start in entered:
                self._end_phase(name, start)

    def _end_phase(self, name: str, start: float) -> None:
        self.made.now += _STEP
        self.made.phases.append((name, start, self.made.now))

    def _expression(self, node: ast.expr, scope: _Scope) -> Any:
        """Follow an expression's calls, and return its value."""
        match node:
            case ast.Lambda():
                return _Function(node, scope)
            case ast.ListComp() | ast.GeneratorExp():
                loop, inner = node.generators[0], _Scope({}, scope)
                return [self._expression(node.elt, inner) for _ in self._each(loop.target, loop.iter, inner)]
            case ast.Call():
                return self._called(node, scope)
            case ast.Starred():
                return self._expression(node.value, scope)
        self._children(node, scope)
        return scope.evaluate(node)

    def _called(self, call: ast.Call, scope: _Scope) -> Any:
        """Follow a call: its arguments first."""
        given: list[Any] = []
        for argument in call.args:
            value = self._expression(argument, scope)
            given += value if isinstance(argument, ast.Starred) and isinstance(value, list | tuple) else [value]
        keywords = {each.arg: self._expression(each.value, scope) for each in call.keywords if each.arg}
        value = self._done(call, given, keywords, scope)
        self.made.now += _STEP
        return value

    def _done(self, call: ast.Call, given: list[Any], keywords: dict[str, Any], scope: _Scope) -> Any:
        now = self.made.now
        match _stage(call):
            case "inject":
                kind, place = (_named(*each) for each in zip(given, call.args[:2], strict=False))
                self.made.faults.append(OutlinedFault(kind, place, now))
                return self.made.faults[-1]
            case "heal":
                for fault in _faults(given):
                    fault.end = fault.end or now
            case "set":
                words = (_text(each, scope) for each in call.args)
                self.made.settings.append((now, " ".join(words)))
            case "hold":
                self.made.now += 1
            case "measure":
                self.made.now += 1
                self._end_phase(_text(call.args[0], scope), now)
            case "":
                return self._plain(call, given, keywords, scope)
        return _UNKNOWN

    def _plain(self, call: ast.Call, given: list[Any], keywords: dict[str, Any], scope: _Scope) -> Any:
        """Follow a call of a function that is no method of the stage. Traffic calls what it is given, once."""
        called = scope.evaluate(call.func)
        if function := _followed(called):
            return self._call(function, given, keywords)
        if isinstance(called, FunctionType) and called.__module__.startswith(_TRAFFIC):
            for during in (*given, *keywords.values()):
                if isinstance(during, _Function):
                    self._call(during, [], {})
        return scope.evaluate(call)


def outline(scenario: Scenario[Any]) -> Outline:
    """Return the phases, faults and settings of a run."""
    made = _Walk(scenario).made
    made.phases.sort(key=lambda phase: phase[1])
    return made


def _followed(value: Any) -> _Function | None:
    """Return the function to follow, if a value is one: of a scenario, with the stage as a parameter."""
    if not isinstance(value, FunctionType):
        return value if isinstance(value, _Function) else None
    changes = "stage" in inspect.signature(value).parameters and not value.__module__.startswith(_TRAFFIC)
    return _Function(_code(value), _Scope(inspect.unwrap(value).__globals__)) if changes else None


@cache
def _code(function: FunctionType) -> ast.FunctionDef:
    (code,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(code, ast.FunctionDef)
    return code


def _bound(function: _Function, given: Sequence[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a function's parameters, of which the stage is never known."""
    parameters = function.code.args
    names = [each.arg for each in (*parameters.posonlyargs, *parameters.args)]
    defaults = dict(zip(reversed(names), reversed(parameters.defaults), strict=False))
    only = [each.arg for each in parameters.kwonlyargs]
    defaults |= {name: value for name, value in zip(only, parameters.kw_defaults, strict=True) if value}
    bound = {name: function.scope.evaluate(value) for name, value in defaults.items()}
    bound |= dict(zip(names, given, strict=False))
    if parameters.vararg:
        bound[parameters.vararg.arg] = list(given[len(names) :])
    named = {*names, *only}
    bound |= {name: value for name, value in keywords.items() if name in named}
    return {name: bound.get(name, _UNKNOWN) for name in {*named, *bound}} | {"stage": _UNKNOWN}


def _assign(target: ast.expr, value: Any, scope: _Scope) -> None:
    if isinstance(target, ast.Name):
        scope.known[target.id] = value
    elif isinstance(target, ast.Tuple | ast.List):
        fits = isinstance(value, list | tuple) and len(value) == len(target.elts)
        for number, each in enumerate(target.elts):
            _assign(each, value[number] if fits else _UNKNOWN, scope)


def _faults(values: Any) -> Iterator[OutlinedFault]:
    if isinstance(values, OutlinedFault):
        yield values
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _faults(value)


def _text(node: ast.expr, scope: _Scope) -> str:
    return _named(scope.evaluate(node), node)


def _named(value: Any, node: ast.expr) -> str:
    return value if isinstance(value, str) else ast.unparse(node)


def _stage(call: ast.Call) -> str:
    """Which method of the stage is called; "" of anything else."""
    of = call.func
    return (
        of.attr if isinstance(of, ast.Attribute) and isinstance(of.value, ast.Name) and of.value.id == "stage" else ""
    )
