"""The results of a file's tests in a VM, parsed from the output of pytest."""

from __future__ import annotations

import json
import os
import queue
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from lab.vm.host import vm_state
from tests import private_machine, shards
from tests.fabric_workers import FABRIC, MachineForks
from tests.patience import PATIENCE
from tests.shards import Outcome

if TYPE_CHECKING:
    from pathlib import Path

RED = Outcome("tests/vm/fabrics/test_qos.py", 9.0, 1, """
FAILED or not, a line of somebody's output
=========================== short test summary info ============================
FAILED tests/vm/fabrics/test_qos.py::test_marks[h1 - h2] - AssertionError: assert 3 == 4
ERROR tests/vm/fabrics/test_qos.py::test_pauses - OSError: gone - for good
FAILED tests/vm/fabrics/test_qos.py::test_pauses - OSError: gone
============= 2 failed, 17 passed, 1 skipped, 1 error in 46.09s ================
""")  # fmt: skip
LOST = Outcome("tests/vm/fabrics/test_qos.py", 9.0, 4, "the VM is gone\n")


def test_results_are_those_of_the_last_line() -> None:
    assert RED.counts == {"passed": 17, "failed": 2, "error": 1, "skipped": 1}


def test_what_is_red_or_lost_fails_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    good = Outcome("tests/vm/test_port.py", 1.0, 0, "3 passed in 1.0s\n")
    assert shards.summarised([good], 1.0) == 0
    for bad in (RED, LOST):
        assert shards.summarised([good, bad], 1.0) == 1
        assert f"FAILED {bad.file}\n" in capsys.readouterr().out


def test_nothing_to_run_is_no_failure() -> None:
    assert Outcome("tests/vm/fabrics/test_qos.py", 0.1, 5, "19 deselected in 0.1s\n").good


def test_a_file_is_run_where_it_has_tests_of_the_kind() -> None:
    """A whole file of ``long`` tests, one that has some, and one that has none."""
    whole, some, none = (
        f"tests/vm/{name}.py" for name in ("overlay/test_multihoming", "fabrics/test_spin_up", "fabrics/test_qos")
    )
    assert {whole, some, none} & set(shards.test_files(shards.VM, long=True)) == {whole, some}
    assert {whole, some, none} & set(shards.test_files(shards.VM, long=False)) == {some, none}


def test_seconds_are_known_of_every_file_of_fabrics() -> None:
    """The longest are begun first."""
    known = json.loads((FABRIC / "seconds.json").read_text(encoding="ascii"))
    assert known.keys() == {path.name for path in FABRIC.rglob("test_*.py")}


@pytest.mark.parametrize("long", [True, False])
def test_every_file_is_in_one_session(long: bool) -> None:
    """Those that share a fabric are in one session, but for ``long`` tests."""
    sessions = shards.sessions(shards.VM, long=long)
    found = [file for session in sessions for file in session.split()]
    assert sorted(found) == shards.test_files(shards.VM, long=long)
    assert any(" " in session for session in sessions) is not long


def test_a_challenge_is_run_in_both_parts() -> None:
    """Most of the tests of its file are ``long``, by a mark that another file has a name for."""
    name = "tests/vm/overlay/test_tenant_challenges.py"
    assert {name in shards.test_files(shards.VM, long=long) for long in (True, False)} == {True}


def test_of_a_green_file_the_sums_are_shown_and_what_took_long(capsys: pytest.CaptureFixture[str]) -> None:
    slow = "24.13s call     tests/vm/test_a.py::test_b"
    said = f"..\n==== slowest 4 durations ====\n{slow}\n2 passed in 30.00s\n"
    shards.shown(Outcome("tests/vm/test_a.py", 200.0, 0, said))
    assert capsys.readouterr().out.splitlines() == [
        slow,
        "2 passed in 30.00s",
        "--- tests/vm/test_a.py: 200 s, exit code 0",
    ]


def test_seconds_of_a_core_are_shown_where_they_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    shards.shown(Outcome("tests/vm/test_a.py", 200.0, 0, "2 passed in 30.00s\n", 61.7))
    assert capsys.readouterr().out.splitlines()[-1] == "--- tests/vm/test_a.py: 200 s, 62 s of a core, exit code 0"


def test_a_vm_that_is_not_up_has_used_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROCELAB_VM_STATE", str(tmp_path / "vm"))
    assert shards.VmForks("test0", []).cpu_seconds() == 0.0


def test_the_seconds_of_a_vm_are_those_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process stands for the VM's: what it computes between two looks is what is added."""
    vm = SimpleNamespace(running=lambda: SimpleNamespace(pid=os.getpid()))
    monkeypatch.setattr(vm_state, "state_folder", lambda _name: vm)
    forks = shards.VmForks("test0", [])
    began = forks.cpu_seconds()
    assert began is not None
    ends = time.process_time() + 0.2
    while time.process_time() < ends:
        pass
    used = forks.cpu_seconds()
    assert used is not None
    assert 0.15 <= used - began <= time.process_time() - (ends - 0.2) + 0.05


def test_the_seconds_of_a_private_machine_are_those_of_its_cgroup(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A program that waits for its input stands for the machine."""
    monkeypatch.setattr(private_machine, "cgroup_of", lambda pid: tmp_path / str(pid))
    forks = MachineForks(["cat"])
    assert forks.cpu_seconds() == 0.0
    forks._running = shards.started("cat")
    try:
        assert forks.cpu_seconds() is None
        group = tmp_path / str(forks._running.pid)
        group.mkdir()
        (group / "cpu.stat").write_text(
            "usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\n", encoding="ascii"
        )
        assert forks.cpu_seconds() == 1.5
    finally:
        forks.close()


def test_a_file_whose_tests_cannot_be_run_fails_and_the_others_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for the outcome of each file waits no longer than for the last."""
    files: queue.SimpleQueue[str] = queue.SimpleQueue()
    outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    for name in ("one", "two", "three"):
        files.put(name)
    forks = shards.Forks([])
    shard = shards.Shard(forks, files, outcomes)
    ended: list[str] = []

    def tested(file: str) -> tuple[int, str]:
        if file != "two":
            raise RuntimeError(f"{file} cannot be run")
        return 0, "1 passed in 1s\n"

    monkeypatch.setattr(forks, "tested", tested)
    monkeypatch.setattr(forks, "end", lambda: ended.append("end"))
    shard.start()
    found = [outcomes.get(timeout=PATIENCE) for _ in range(3)]
    shard.join(PATIENCE)
    assert [(each.file, each.good) for each in found] == [("one", False), ("two", True), ("three", False)]
    assert "RuntimeError: one cannot be run" in found[0].output
    assert ended == ["end", "end"]
