"""No module of rocelab imports itself by way of others."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).parents[2]


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def statements(node: ast.AST, *, in_functions: bool) -> Iterator[ast.stmt]:
    """Import statements that run: none below ``if TYPE_CHECKING``, and in functions only when that is asked for."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        elif in_functions or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from statements(child, in_functions=in_functions)


def graph(root: Path, *, in_functions: bool) -> dict[str, set[str]]:
    """The modules that each module below ``root``/lab imports by name."""
    paths = {module_name(path, root): path for path in (root / "lab").rglob("*.py")}
    found: dict[str, set[str]] = {}
    for name, path in paths.items():
        imported = set()
        for node in statements(ast.parse(path.read_text(encoding="utf-8")), in_functions=in_functions):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                below = {f"{node.module}.{alias.name}" for alias in node.names}
                imported |= below & paths.keys() or {node.module}
        found[name] = (imported & paths.keys()) - {name}
    return found


def cycles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """The sets of modules that import each other: strongly connected components, as Tarjan finds them."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(edges[module]):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            component = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(component) > 1:
                found.append(sorted(component))

    for module in sorted(edges):
        if module not in index:
            visit(module)
    return found


def test_no_module_imports_itself() -> None:
    assert cycles(graph(ROOT, in_functions=False)) == []


def test_no_module_of_the_command_line_imports_itself_even_in_functions() -> None:
    edges = graph(ROOT, in_functions=True)
    assert [each for each in cycles(edges) if any(name.startswith("lab.cli") for name in each)] == []


@pytest.mark.parametrize(
    ("second", "in_functions", "found"),
    [
        ("from lab.first import x", False, True),
        ("import lab.first", False, True),
        ("from lab import first", False, True),
        ("def f():\n    from lab import first", False, False),
        ("def f():\n    from lab import first", True, True),
        ("if TYPE_CHECKING:\n    from lab import first", True, False),
        ("import sys", True, False),
    ],
)
def test_a_cycle_is_noticed(tmp_path: Path, second: str, in_functions: bool, found: bool) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab/__init__.py").write_text("")
    (tmp_path / "lab/first.py").write_text("from lab.second import y\n")
    (tmp_path / "lab/second.py").write_text(f"{second}\n")
    expected = [["lab.first", "lab.second"]] if found else []
    assert cycles(graph(tmp_path, in_functions=in_functions)) == expected
