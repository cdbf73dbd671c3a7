"""rocelab as people have it who install its wheel: in a virtual environment of its own, outside the checkout.

Its dependencies are those of this environment, by a path file; nothing is downloaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def build(folder: Path) -> Path:
    """Build the wheel into a folder."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, where=ROOT)
    (built,) = folder.glob("*.whl")
    return built


def install(wheel: Path, folder: Path) -> Path:
    """Install it in a new virtual environment in ``folder``; its folder of commands."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel)
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip())
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    return folder / "bin"


def run(*words: object, where: Path | None = None, expect: int = 0) -> str:
    """Run a program without this environment's variables; its output, with the errors where it is to fail."""
    surroundings = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(
        [str(word) for word in words], cwd=where, env=surroundings, capture_output=True, text=True, check=False
    )
    assert done.returncode == expect, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout + (done.stderr if expect else "")
