"""The process whose forks run the VM's test files (tests/forks.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.fabric.command import ROOT
from tests.forks import ENDED
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path


CONSTANTS = """
from hypothesis import given, strategies
from hypothesis.internal.conjecture import providers

from lab.wire import udp_ports

@given(strategies.integers())
def test(number):
    assert udp_ports.ROCEV2_PORT not in providers._get_local_constants().integers
"""


def test_files_are_tested_in_forks_that_inherit_the_plugins(tmp_path: Path) -> None:
    """A plugin is imported once; each file has its own exit code, and a failure shows the compared values.

    Hypothesis does not read all sources of rocelab for constants.
    """
    log = tmp_path / "imports"
    (tmp_path / "noted.py").write_text(f"open({str(log)!r}, 'a').write('imported\\n')\n")
    bodies = {
        "test_good.py": "def test(): pass",
        "test_bad.py": "def test():\n    a = 3\n    assert a == 4",
        "test_broken.py": "import no_such_module",
        "test_empty.py": "",
        "test_constants.py": CONSTANTS,
    }
    for name, body in bodies.items():
        (tmp_path / name).write_text(body)
    done = subprocess.run(
        [sys.executable, "-m", "tests.forks", "--rootdir", str(tmp_path), "-p", "noted", "-p", "no:cacheprovider"],
        input="".join(f"{tmp_path / name}\n" for name in bodies),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    codes = [line.removeprefix(ENDED) for line in done.stdout.splitlines() if line.startswith(ENDED)]
    assert codes == ["0", "1", "2", "5", "0"]
    assert "assert 3 == 4" in done.stdout
    assert "no_such_module" in done.stdout
    assert log.read_text().splitlines() == ["imported"]
