"""Importing needs no program, no compiler and no compiled object."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import lab

_SCRIPT: Final = """
import importlib, pkgutil, traceback
import lab

walk = pkgutil.walk_packages(lab.__path__, "lab.", onerror=lambda name: None)
names = [each.name for each in walk if not each.name.endswith("__main__")]
failed = []
for name in names:
    try:
        importlib.import_module(name)
    except Exception:
        failed.append(name + ": " + traceback.format_exc().strip().splitlines()[-1])
print(lab.__path__[0], len(names), *failed, sep="\\n")
"""


def test_every_module_imports_without_a_compiler_and_without_compiled_objects(tmp_path: Path) -> None:
    copy = tmp_path / "lab"
    shutil.copytree(Path(lab.__path__[0]), copy, ignore=shutil.ignore_patterns("*.bpf-*.o", "shipped"))
    environment = {
        "PATH": str(tmp_path / "no-programs"),
        "PYTHONPATH": str(tmp_path),
        "HOME": str(tmp_path / "home"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    argv = [sys.executable, "-c", _SCRIPT]
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    place, count, *failed = done.stdout.splitlines()
    assert place == str(copy)
    assert int(count) > 300
    assert failed == []
