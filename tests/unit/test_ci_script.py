"""scripts/test starts its parts in the right order. Stubs in place of the programs record their calls."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.patience import PATIENCE

SCRIPTS: Final = Path(__file__).parents[2] / "scripts"
RECORDS: Final = """#!/bin/sh
call="${{0##*/}} $*"
case "$call" in "rocelab vm up --name test0"*) sleep 0.2 ;; esac
echo "${{PYTHONDONTWRITEBYTECODE-}}$call" >>{calls}
case "$call" in {fails}*) exit {code} ;; esac
echo "1 passed"
"""
BOOTS: Final = "rocelab vm up --name test0 --time virtual"
PARTS: Final = ("python -m tests.fabric_workers", "python -m tests.shards")


def called(folder: Path, *parts: str, fails: str = "nothing", code: int = 1, expect: int = 0) -> list[str]:
    """Return the calls of ``scripts/test parts...`` in the order of their ends.

    ``fails`` is the beginning of calls that end with ``code``. A call with PYTHONDONTWRITEBYTECODE set begins with
    its value.
    """
    (folder / "scripts").mkdir()
    for name in ("test", "common.sh"):
        shutil.copy(SCRIPTS / name, folder / "scripts")
    calls, programs = folder / "calls", folder / ".venv/bin"
    programs.mkdir(parents=True)
    stub = RECORDS.format(calls=calls, fails=f'"{fails}"', code=code)
    names = ("rocelab", "pytest", "python", "sudo", "ruff", "mypy", "lint-imports")
    for path in (*(programs / name for name in names), folder / "scripts/setup", folder / "scripts/docs"):
        path.write_text(stub)
        path.chmod(0o755)
    argv = ["bash", str(folder / "scripts/test"), *parts]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE, env=environment, check=False
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return calls.read_text().splitlines()


def test_one_vm_is_up_before_the_parts_that_use_vms_begin(tmp_path: Path) -> None:
    """The other VMs resume from its checkpoint."""
    calls = called(tmp_path)
    begun = [next(number for number, call in enumerate(calls) if call.endswith(part)) for part in PARTS]
    assert calls.index(BOOTS) < min(begun)
    assert calls.count("rocelab vm down --name test0") == 1


def test_the_stress_tests_boot_no_vm_but_theirs(tmp_path: Path) -> None:
    assert [call for call in called(tmp_path, "stress") if "vm up" in call] == [
        "rocelab vm up --name stress --time host --cpus 2"
    ]


def test_each_unit_test_is_in_one_of_two_processes(tmp_path: Path) -> None:
    """What the one ignores of tests/unit, the other runs."""
    chosen = [call.partition("not long ")[2] for call in called(tmp_path, "unit") if call.startswith("pytest")]
    assert sorted(chosen) == [
        "tests/unit --ignore tests/unit/cli --ignore tests/unit/scenario",
        "tests/unit/cli tests/unit/scenario tests/browser",
    ]


@pytest.mark.parametrize("half", ["tests/unit --ignore", "tests/unit/cli"])
def test_a_failure_in_either_process_is_one(half: str, tmp_path: Path) -> None:
    called(tmp_path, "unit", fails=f"pytest --durations=30 --durations-min=3 -m not long {half}", expect=1)


@pytest.mark.parametrize(
    ("matching", "expect"), [("tests/unit --ignore", 0), ("tests/unit/cli", 0), ("", 1)], ids=["one", "other", "both"]
)
def test_one_process_may_have_no_test_that_matches_and_not_both(matching: str, expect: int, tmp_path: Path) -> None:
    """pytest ends with 5 if it has run no test."""
    fails = f"pytest --durations=30 --durations-min=3 -m not long -k some {matching}".rstrip()
    called(tmp_path, "unit", "--", "-k", "some", fails=fails, code=5, expect=expect)


def test_a_first_vm_that_does_not_start_is_a_failure(tmp_path: Path) -> None:
    assert BOOTS in called(tmp_path, "vm", fails=BOOTS, expect=1)
