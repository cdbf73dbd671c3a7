"""Names a stranger can rely on: a public class and a module name each mean one thing, and folders stay small."""

import ast
import functools
import re
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


_IMPORT: Final = re.compile(r"^from (lab(?:\.\w+)*) import (\w+(?:, \w+)*)$", re.MULTILINE)


@functools.cache
def _names_in(module: Path) -> set[str]:
    """What a module defines or imports; nothing where there is no module."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8") if module.is_file() else "")):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name)
    return found


def _missing_imports(text: str) -> list[str]:
    """Imports from lab of what is not there; also those in programs that stand in a string."""
    missing = []
    for package, names in _IMPORT.findall(text):
        place = ROOT.joinpath(*package.split("."))
        module = place.with_suffix(".py") if place.with_suffix(".py").is_file() else place / "__init__.py"
        known = _names_in(module) | {path.stem for path in place.glob("*")}
        missing += [f"{package}.{name}" for name in names.split(", ") if name not in known]
    return missing


def test_what_is_imported_is_there_in_strings_too() -> None:
    found = {
        str(path.relative_to(ROOT)): missing
        for root in ("lab", "tests", "scripts", "scenarios")
        for path in (ROOT / root).rglob("*.py")
        if (missing := _missing_imports(path.read_text(encoding="utf-8")))
    }
    assert found == {}


def test_a_module_that_moved_is_missing() -> None:
    text = "\n".join(
        ["'", "from lab.kernel import arrays, bpf", "from lab.nowhere import x", "from lab.units import counted"]
    )
    assert _missing_imports(text) == ["lab.kernel.arrays", "lab.nowhere.x"]


@pytest.mark.parametrize("root", ["lab", "tests", "scripts"])
def test_a_folder_has_few_python_files(root: str) -> None:
    counts: dict[str, int] = defaultdict(int)
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


def test_every_room_opens_with_its_purpose_an_entry_point_and_a_picture() -> None:
    bare = []
    for path in LAB.glob("*/__init__.py"):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if "::\n\n    " not in text or not re.search(r"\bStart (at|with)\b", text):
            bare.append(path.parent.name)
    assert bare == []
