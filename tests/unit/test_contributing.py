"""CONTRIBUTING names files and folders that exist: a list that a newcomer follows is true."""

from __future__ import annotations

import re
import subprocess
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
TOP_LEVEL: Final = {
    "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "Vagrantfile", "lab", "pyproject.toml", "scenarios",
    "scripts", "tests", "topologies",
}  # fmt: skip
_CODE: Final = re.compile(r"`([^`\n]+)`")
_PLACE: Final = re.compile(r"^(?:\./)?((?:lab|tests|scripts|scenarios|topologies)/[^\s]*)")
_MODULE: Final = re.compile(r"python -m ((?:lab|tests|scripts)(?:\.\w+)+)")
_CHOICE: Final = re.compile(r"\{([^}]*)\}")


def written_out(place: str) -> Iterator[str]:
    """Yield the paths of a place with choices in braces."""
    choices = [each.split(",") for each in _CHOICE.findall(place)]
    pieces = _CHOICE.sub("{}", place)
    for chosen in product(*choices):
        yield pieces.format(*chosen)


def missing(text: str) -> list[str]:
    """Return every path and module that a page names and that does not exist."""
    code = _CODE.findall(text)
    named = [path for each in code if (found := _PLACE.match(each)) for path in written_out(found[1])]
    named += [f"{each.replace('.', '/')}" for each in _MODULE.findall(text)]
    return [each for each in named if not (ROOT / each).exists() and not (ROOT / f"{each}.py").exists()]


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "README.md", "lab/docs/architecture.md"])
def test_every_named_file_exists(page: str) -> None:
    assert missing((ROOT / page).read_text(encoding="utf-8")) == []


def test_the_lists_name_files() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = text.split("## How to add something")[1].split("\n## ")[0]
    rows = [line for line in listed.splitlines() if line.startswith("| a")]
    assert len(rows) >= 9
    assert [row for row in rows if not _CODE.search(row)] == []


def test_a_file_that_is_not_there_is_noticed() -> None:
    text = "Edit `lab/nowhere.py`, `lab/cli/{kit,nothing}` and `./scripts/test`; run `python -m tests.vm.nothing`."
    assert missing(text) == ["lab/nowhere.py", "lab/cli/nothing", "tests/vm/nothing"]


def test_nothing_is_committed_at_the_top_by_mistake() -> None:
    """A program that writes to a relative path leaves its file there."""
    argv = ["git", "-c", f"safe.directory={ROOT}", "ls-files"]
    tracked = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    found = {name.partition("/")[0] for name in tracked}
    assert {name for name in found if not name.startswith(".")} == TOP_LEVEL
