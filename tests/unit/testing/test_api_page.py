"""The page about the Python API shows the example that the VM's tests run, and modules that there are."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Final

from lab.cli.machine.docs import PAGES

PAGE: Final = (PAGES / "api.md").read_text(encoding="utf-8")


def test_the_example_is_the_one_that_runs() -> None:
    example = (PAGES / "examples/api/storm.py").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert shown in example
    assert example.removesuffix(shown).count("\n") == 2  # its docstring and a line


def test_every_module_is_there() -> None:
    named = re.findall(r"^\| `(lab[\w.]+)`", PAGE, re.MULTILINE)
    assert len(named) == 8
    assert all(find_spec(name) for name in named)
