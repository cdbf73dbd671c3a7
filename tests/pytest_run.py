"""pytest with the plug-in, as a process of its own in a folder of a user's tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
EXAMPLE: Final = ROOT / "lab" / "docs" / "examples" / "pytest"
"""The example that people copy."""


def words(*more: str | Path) -> list[str]:
    """The command line."""
    options = ["-p", "no:rocelab", "-p", "lab.testing.plugin", "-p", "no:cacheprovider", "--rootdir", "."]
    return [sys.executable, "-m", "pytest", *options, *map(str, more)]


def run(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end; what the machine lacks is a failure."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ROCELAB_REQUIRE": "all", "COLUMNS": "200"}
    return subprocess.run(
        words(*more), cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
