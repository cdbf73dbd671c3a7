"""A VM's state is kept, and others continue from it: by hand, and by themselves when `up` has been done before."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.vm.checkpoints import checkpoint
from tests.fabric.command import hosts
from tests.patience import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[3]


class Machine:
    """``rocelab`` with a VM and a folder of checkpoints of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.state, self.checkpoints = folder / "state", folder / "checkpoints"
        self._environment = {
            **os.environ,
            "ROCELAB_VM_STATE": str(self.state),
            "ROCELAB_CHECKPOINTS": str(self.checkpoints),
            "PYTHONPATH": str(ROOT),
        }

    def start(self, *words: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        argv = [sys.executable, "-m", "lab", *words]
        return subprocess.Popen(
            argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT, env=self._environment
        )

    def __call__(self, *words: str, expect: int = 0) -> str:
        program = self.start(*words)
        out, err = program.communicate(timeout=1200)
        assert program.returncode == expect, f"{words} ended with {program.returncode}: {out}{err}"
        return out if expect == 0 else err

    def guest(self, script: str) -> str:
        return self("vm", "run", "--", "sh", "-c", script).strip()

    def names(self, kind: str) -> set[str]:
        return {one["name"] for one in json.loads(self("vm", "checkpoint", "ls", "--json")) if one["what"] == kind}

    def up(self, topology: Path) -> Any:
        return json.loads(self("--vm", "up", str(topology), "--json"))


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """It resumes from a copy of the checkpoint of the VM that booted last, if that fits. Otherwise it boots."""
    made = Machine(tmp_path_factory.mktemp("machine"))
    checkpoint.folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    with checkpoint._locked():  # no command prunes it meanwhile
        for booted in [one for one in checkpoint.every() if one.name.startswith("booted-")][:1]:
            shutil.copytree(booted.folder, made.checkpoints / booted.name)
    yield made
    made("vm", "down")
    shutil.rmtree(made.checkpoints)  # gigabytes, which pytest would keep for three runs


@pytest.fixture(scope="module")
def topology() -> Iterator[Path]:
    """Inside the checkout, where the guest sees it."""
    file = hosts(ROOT / "tests/fabric", f"pair{os.getpid()}", "h1", "h2")
    yield file
    file.unlink()


def test_a_state_that_was_saved_is_continued_from(machine: Machine) -> None:
    machine("vm", "up", "--time", "virtual")
    assert machine.names("booted")
    machine.guest("echo kept >/root/mark")
    assert "checkpoint mine" in machine("vm", "checkpoint", "save", "mine")
    # It goes on, with the folders that it had given up for a moment.
    assert machine.guest("cat /root/mark; ls scripts/setup /rocelab/scripts/setup") == (
        "kept\n/rocelab/scripts/setup\nscripts/setup"
    )
    machine.guest("echo later >/root/mark")
    assert "mine exists" in machine("vm", "checkpoint", "save", "mine", expect=2)
    assert "is up" in machine("vm", "checkpoint", "restore", "mine", expect=2)
    machine("vm", "down")
    assert "no checkpoint other" in machine("vm", "checkpoint", "restore", "other", expect=2)
    machine("vm", "checkpoint", "restore", "mine")
    assert machine.guest("cat /root/mark; ls scripts/setup") == "kept\nscripts/setup"
    assert abs(float(machine.guest("date +%s")) - time.time()) < 60
    assert json.loads(machine("vm", "status", "--json"))["checkpoint"] == "mine"
    machine("vm", "checkpoint", "rm", "mine")
    assert machine.names("saved by hand") == set()


def test_a_vm_in_use_is_not_saved_and_not_harmed(machine: Machine) -> None:
    machine("vm", "up", "--time", "virtual")
    reader = machine.start("vm", "run", "--", "sh", "-c", "echo here; read line; echo there")
    assert reader.stdout is not None
    assert reader.stdout.readline() == "here\n"
    assert "a command runs in the VM" in machine("vm", "checkpoint", "save", "busy", expect=1)
    reader.send_signal(signal.SIGINT)
    reader.communicate(timeout=PATIENCE)
    # What keeps a shared folder busy is told of by the guest itself.
    machine.guest("sleep 600 >/dev/null 2>&1 & echo $! >/root/pid")
    assert "busy" in machine("vm", "checkpoint", "save", "busy", expect=1)
    machine.guest("kill $(cat /root/pid)")
    machine("vm", "checkpoint", "save", "free")
    machine("vm", "checkpoint", "rm", "free")


def cut_short(machine: Machine, file: str, octets: int, how: signal.Signals) -> int:
    """Save, and send the signal as soon as a file of this pattern has so many octets: how it ended."""
    saving = machine.start("vm", "checkpoint", "save", "cut")
    with contextlib.suppress(FileNotFoundError):
        while saving.poll() is None and not any(
            each.stat().st_size >= octets for each in machine.state.parent.glob(file)
        ):
            os.sched_yield()
    saving.send_signal(how)
    saving.communicate(timeout=PATIENCE)
    return saving.returncode


FROZEN = ("state/frozen", 0)
DISK = ("checkpoints/.saving-*/disk.qcow2", 1)
MEMORY = ("checkpoints/.saving-*/memory", 1 << 20)


@pytest.mark.parametrize(
    ("file", "octets", "how"),
    [
        pytest.param(*FROZEN, signal.SIGKILL, marks=pytest.mark.long),
        pytest.param(*FROZEN, signal.SIGINT, marks=pytest.mark.long),
        pytest.param(*DISK, signal.SIGKILL, marks=pytest.mark.long),
        (*DISK, signal.SIGINT),
        (*MEMORY, signal.SIGKILL),
        pytest.param(*MEMORY, signal.SIGINT, marks=pytest.mark.long),
    ],
)
def test_a_save_that_is_cut_short_leaves_a_vm_that_goes_on(
    machine: Machine, file: str, octets: int, how: signal.Signals
) -> None:
    """Before the guest stands still, while its disk is copied, and while its memory is written."""
    machine("vm", "up", "--time", "virtual")
    code = cut_short(machine, file, octets, how)
    while (machine.checkpoints / "cut").exists():  # it was done before it was cut
        machine("vm", "checkpoint", "rm", "cut")
        code = cut_short(machine, file, octets, how)
    assert code == (130 if how is signal.SIGINT else -how)
    assert machine.guest("ls scripts/setup; echo more >>/root/mark; sync; echo goes on") == "scripts/setup\ngoes on"
    assert not (machine.state / "frozen").exists()
    machine("vm", "checkpoint", "save", "whole")
    assert not list(machine.checkpoints.glob(".saving-*"))
    machine("vm", "checkpoint", "rm", "whole")


def test_a_fabric_that_was_up_before_is_there_at_once(machine: Machine, topology: Path) -> None:
    machine("vm", "down")
    assert not machine.up(topology)["restored"]
    assert "exists" in machine("--vm", "up", str(topology), expect=2)  # it was built here, not restored
    machine("vm", "down")
    assert machine.up(topology)["restored"]
    machine("--vm", "exec", "h1", "--", "ping", "-c", "1", "-W", "5", "h2")
    assert "exists" in machine("--vm", "up", str(topology), expect=2)


@pytest.mark.long
def test_it_is_there_in_a_vm_that_has_only_booted_and_not_for_another_file(machine: Machine, topology: Path) -> None:
    machine("vm", "down")
    machine.up(topology)
    machine("vm", "down")
    machine("vm", "up")
    assert machine.up(topology)["restored"]
    machine("vm", "down")
    hosts(topology.parent, topology.stem, "h1", "h2", "h3")
    assert not machine.up(topology)["restored"]
    assert len(machine.names("a fabric that `up` has built")) == 2


@pytest.mark.long
def test_a_damaged_checkpoint_is_removed_and_the_fabric_built(machine: Machine, topology: Path) -> None:
    machine("vm", "down")
    for folder in machine.checkpoints.glob("[bu]*-*"):
        os.truncate(folder / "memory", 1 << 20)
    assert not machine.up(topology)["restored"]
    machine("vm", "down")
    assert machine.up(topology)["restored"]
