"""Dataclasses of many fields are filled by name: two values of one type cannot change places unnoticed."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import lab

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOM: Final = Path(lab.__file__).parent
MOST: Final = 3
"""Arguments by position."""


@dataclass(frozen=True)
class Fill:
    """A call that fills a dataclass, by its module and name."""

    call: ast.Call
    module: str
    name: str


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOM.parent).with_suffix("").parts).removesuffix(".__init__")


def dataclasses_in(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for each in node.decorator_list:
                decorator = each.func if isinstance(each, ast.Call) else each
                if isinstance(decorator, ast.Name) and decorator.id == "dataclass":
                    found.add(node.name)
    return found


def fills(tree: ast.Module, module: str, known: dict[str, set[str]]) -> Iterator[Fill]:
    """Calls of dataclasses of this module, and of imported ones: ``Name(...)`` or ``module.Name(...)``."""
    names = {name: (module, name) for name in dataclasses_in(tree)}
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "lab":
            for alias in node.names:
                within = f"{node.module}.{alias.name}"
                if within in known:
                    modules[alias.asname or alias.name] = within
                elif alias.name in known.get(node.module, ()):
                    names[alias.asname or alias.name] = (node.module, alias.name)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in names:
                yield Fill(node, *names[name])
            case ast.Call(func=ast.Attribute(value=ast.Name(id=place), attr=name)) if (
                place in modules and name in known[modules[place]]
            ):
                yield Fill(node, modules[place], name)


def by_position(tree: ast.Module, module: str, known: dict[str, set[str]]) -> Iterator[Fill]:
    """Those with more than ``MOST`` arguments by position. An unpacked sequence counts as one."""
    yield from (fill for fill in fills(tree, module, known) if len(fill.call.args) > MOST)


def sources() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOM.rglob("*.py"))}


def test_dataclasses_of_many_fields_are_filled_by_name() -> None:
    trees = sources()
    known = {module_of(path): dataclasses_in(tree) for path, tree in trees.items()}
    found = [
        f"{path.relative_to(ROOM.parent)}:{fill.call.lineno}: {fill.name}"
        for path, tree in trees.items()
        for fill in by_position(tree, module_of(path), known)
    ]
    assert found == []


def test_a_call_by_position_is_found() -> None:
    home = ast.parse("@dataclass(frozen=True)\nclass Four:\n    a: int\n    b: int\n    c: int\n    d: int\n")
    known = {"lab.four": dataclasses_in(home)}
    user = "from lab import four\nfrom lab.four import Four\n{}"
    for call, count in (
        ("Four(1, 2, 3, 4)", 1),
        ("four.Four(1, 2, 3, 4)", 1),
        ("Four(1, 2, 3, d=4)", 0),
        ("other.Four(1, 2, 3, 4)", 0),
    ):
        assert len(list(by_position(ast.parse(user.format(call)), "lab.user", known))) == count
