"""Names a stranger can rely on: a public class and a module name each mean one thing, and folders stay small."""

import ast
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
LAB: Final = ROOT / "lab"
COMMANDS: Final = tuple(LAB / "cli" / folder for folder in ("fabrics", "machine", "traffic", "packets", "incidents"))
"""A command's module is named after the command, whatever other module implements the subject."""
MOST: Final = 20
"""Python files of one folder."""
FLAT: Final[frozenset[str]] = frozenset()
"""Folders that are too large still; this set only shrinks."""


def _modules() -> list[Path]:
    return sorted(path for path in LAB.rglob("*.py") if path.name not in ("__init__.py", "__main__.py"))


def test_a_public_class_name_is_defined_once() -> None:
    places = defaultdict(list)
    for path in LAB.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_a_module_name_is_used_once() -> None:
    places = defaultdict(list)
    for path in _modules():
        if path.parent not in COMMANDS:
            places[path.stem].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


@pytest.mark.parametrize("root", ["lab", "tests", "scripts"])
def test_a_folder_has_few_python_files(root: str) -> None:
    counts = defaultdict(int)
    for path in (ROOT / root).rglob("*.py"):
        if path.name != "__init__.py" and "__pycache__" not in path.parts:
            counts[str(path.parent.relative_to(ROOT))] += 1
    assert {folder for folder, count in counts.items() if count > MOST} <= FLAT


def test_every_package_says_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in LAB.rglob("__init__.py")
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []
