"""A capability that lacks skips the tests that need it, and fails them when it is required."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def pytest_on_a_lacking_machine(tmp_path: Path, require: str) -> subprocess.CompletedProcess[str]:
    """Run one test that is marked ``vm`` where nothing is found, as the capabilities of a bare machine."""
    (tmp_path / "vm").mkdir()
    (tmp_path / "vm/test_something.py").write_text("def test_something() -> None:\n    pass\n")
    ours = (ROOT / "tests/conftest.py").read_text()
    lacking = "def look(host, wanted):\n    return {entry.name: ProbeFinding(False) for entry in wanted}\n"
    (tmp_path / "conftest.py").write_text(f"{ours}\nfrom lab.kernel.bpf.probe import ProbeFinding\n{lacking}")
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    argv += ["--rootdir", str(tmp_path), str(tmp_path)]
    environment = os.environ | {"ROCELAB_REQUIRE": require, "PYTHONPATH": str(ROOT)}
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)


@pytest.mark.parametrize("require", ["", "fabric"])
def test_a_lack_skips(tmp_path: Path, require: str) -> None:
    done = pytest_on_a_lacking_machine(tmp_path, require)
    assert done.returncode == 0, done.stdout
    assert "1 skipped" in done.stdout
    assert "needs root" in done.stdout


@pytest.mark.parametrize("require", ["all", "vm"])
def test_a_lack_fails_where_it_is_required(tmp_path: Path, require: str) -> None:
    done = pytest_on_a_lacking_machine(tmp_path, require)
    assert done.returncode == 1, done.stdout
    assert "ROCELAB_REQUIRE asks for it" in done.stdout
