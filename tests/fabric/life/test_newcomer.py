"""The commands of the README and of the installation page, typed in order by a new user."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.installed import build, install
from tests.shown import README, ROOT, blocks, headers, wheel_commands

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(5400)]

_MAY_FAIL = ("rocelab diagnose",)
"""Commands that end with 1 where something is broken, as README has it."""
_SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_OURS = ("PYTHON", "ROCELAB_", "VIRTUAL_")
"""The beginnings of variables that a newcomer has not set."""


class Newcomer:
    """A shell in a folder, in which rocelab is on no PATH yet, and a VM of the test's own."""

    def __init__(self, folder: Path, state: Path, path: str = _SYSTEM) -> None:
        self.folder = folder
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "ROCELAB_", "VIRTUAL_"))
        }
        self._environment = {**kept, "PATH": path, "ROCELAB_VM_STATE": str(state)}

    def types(self, lines: Sequence[str]) -> str:
        """Type lines into one shell; what they print. Fails at the first that ends with an error."""
        script = "".join(f"{line}\ncode=$?; [ $code -le {_worst(line)} ] || exit $code\n" for line in lines)
        done = subprocess.run(
            ["bash", "-xc", script],
            stdin=subprocess.DEVNULL,
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout


def _worst(line: str) -> int:
    return 1 if line.startswith(_MAY_FAIL) else 0


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Newcomer]:
    """The last commit, cloned into an empty folder."""
    subprocess.run(["git", "clone", "--quiet", "--no-local", str(ROOT), str(tmp_path / "rocelab")], check=True)
    newcomer = Newcomer(tmp_path / "rocelab", tmp_path / "state")
    yield newcomer
    newcomer.types([". .venv/bin/activate", "rocelab vm down"])


def test_the_readme_from_a_clean_clone(clone: Newcomer) -> None:
    """Every block with output, in its order: set up, an incast, a fault, its diagnosis and its report."""
    text = README.read_text(encoding="utf-8")
    lines = [
        line for block in blocks(text) for line in block if not line.startswith(("./scripts/demo", "./scripts/test"))
    ]
    said = clone.types([line for line in lines if "scenario" not in line])
    assert [header for header in headers(text) if header not in headers(said)] == []
    assert (clone.folder / "reports" / "first.html").is_file()


def test_a_wheel_in_an_empty_folder(tmp_path: Path) -> None:
    """Up, record, a scenario and a report, as the page about installation has them, without a checkout."""
    for name in ("wheel", "here"):
        (tmp_path / name).mkdir()
    programs = install(build(tmp_path / "wheel"), tmp_path / "env")
    newcomer = Newcomer(tmp_path / "here", tmp_path / "state", f"{programs}:{_SYSTEM}")
    try:
        newcomer.types(wheel_commands())
    finally:
        newcomer.types(["rocelab vm down"])
    made = {path.name.partition("-2")[0] for path in (tmp_path / "here/recordings").iterdir()}
    assert made == {"first", "pfc-storm"}
    assert (tmp_path / "here/reports/first.html").is_file()
