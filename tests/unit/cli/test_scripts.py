"""The help of ./scripts/..., which installs, starts and changes nothing."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPTS = sorted(
    path.name for path in (ROOT / "scripts").iterdir() if path.is_file() and path.read_bytes().startswith(b"#!")
)


def run(script: str, *words: str, where: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it with programs of which each fails that would change the machine: python, pip, rocelab, sudo, apt-get."""
    return subprocess.run(
        [ROOT / "scripts" / script, *words],
        cwd=where,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH whose first folder has programs that fail the test when they are called."""
    for name in ("python", "python3", "rocelab", "sudo", "apt-get", "dpkg-query"):
        (tmp_path / name).write_text("#!/bin/sh\necho called $0 $* >&2\nexit 99\n", encoding="ascii")
        (tmp_path / name).chmod(0o755)
    return f"{tmp_path}:{os.environ['PATH']}"


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_help_is_printed_and_nothing_is_done(script: str, flag: str, path: str, tmp_path: Path) -> None:
    """From any folder, and without the packages that setup would install."""
    done = run(script, flag, where=tmp_path, PATH=path, PYTHON="/nowhere")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"./scripts/{script}" in done.stdout
    assert not done.stdout.startswith("#")


def test_the_tour_refuses_a_part_that_it_does_not_have(path: str, tmp_path: Path) -> None:
    done = run("tour", "incast", "incats", where=tmp_path, PATH=path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tour: no part incats; there is incast ")


@pytest.mark.parametrize("script", ["dashboard.py", "site.py"])
def test_a_script_in_python_uses_the_code_of_its_own_checkout(script: str, tmp_path: Path) -> None:
    """Another one may be installed, and the caller be in any folder."""
    for file, text in (
        ("lab/__init__.py", "raise SystemExit('own')"),
        ("stubs/sphinx/application.py", "Sphinx = None"),  # it may be missing
    ):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(text, encoding="ascii")
    (tmp_path / "scripts").mkdir()
    copied = shutil.copy(ROOT / "scripts" / script, tmp_path / "scripts")
    argv = [sys.executable, copied, "new"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path / 'stubs'}:{ROOT}"}
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (1, "own\n")


def chapters() -> list[str]:
    """The pages of the site, as ``scripts/site.py`` has them; Sphinx is not needed to read them."""
    tree = ast.parse((ROOT / "scripts" / "site.py").read_text(encoding="utf-8"))
    (found,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "CHAPTERS"
        and node.value is not None
    ]  # fmt: skip
    return [page for pages in found.values() for page in pages]


def test_each_page_is_in_one_chapter_of_the_site() -> None:
    """Sphinx would reject another one only in CI, where the site is built."""
    generated = {"modules", "commands", "CONTRIBUTING"}
    pages = chapters()
    assert len(pages) == len(set(pages))
    assert set(pages) - generated == {page.stem for page in (ROOT / "lab" / "docs").glob("*.md")}
