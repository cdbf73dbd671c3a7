"""The machine code that keeps the CPU of virtual time from waiting, and when it runs."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.rdma.sysfs import until
from lab.vm.calls.request import ATTENDED, GuestRequest
from lab.vm.host.vm_state import process_start
from lab.vm.image.arch import ARCHES

_IDLER = """
import sys
from lab.vm.image.arch import host_arch
from lab.vm.guest.idle_loop import Idler
idler = Idler(host_arch())
for line in sys.stdin:
    with idler.awake(), idler.awake():
        with idler.awake():
            print(idler._pid, flush=True)
        sys.stdin.readline()
    print("asleep", flush=True)
"""


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def ran(pid: int) -> int:
    """Nanoseconds on a CPU (Documentation/scheduler/sched-stats.rst)."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


@contextmanager
def idling() -> Iterator["subprocess.Popen[str]"]:
    words = [sys.executable, "-c", _IDLER]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def said(process: "subprocess.Popen[str]") -> str:
    """What it answers to a line."""
    assert process.stdin
    assert process.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def test_it_runs_as_long_as_a_call_needs_it_and_gives_way_to_everything() -> None:
    with idling() as process:
        looped(process)
        looped(process)


def looped(process: "subprocess.Popen[str]") -> None:
    """One call of it, in which the idler gets some of the CPU."""
    pid = int(said(process))
    assert os.sched_getscheduler(pid) == os.SCHED_IDLE
    before = ran(pid)
    assert until(lambda: ran(pid) > before, 30)
    assert state(pid) == "R"
    assert said(process) == "asleep"
    assert until(lambda: state(pid) == "T", 30)


def test_it_ends_with_its_parent() -> None:
    with idling() as process:
        pid = int(said(process))
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert until(lambda: process_start(pid) is None, 30)


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        ("x86_64", "90 90 90 e9 f8 ff ff ff"),  # as GNU as has it: nop; nop; nop; jmp .-3
        ("aarch64", "1f2003d5 1f2003d5 1f2003d5 fdffff17"),  # nop; nop; nop; b .-12
    ],
)
def test_the_loop_jumps_back_to_its_beginning(machine: str, code: str) -> None:
    assert ARCHES[machine].idle_loop(3) == bytes.fromhex(code)


@pytest.mark.parametrize(
    ("environment", "attended"), [({ATTENDED: "1"}, True), ({ATTENDED: "0"}, False), ({}, False)]
)
def test_a_second_lasts_a_second_when_the_host_says_so(environment: dict[str, str], attended: bool) -> None:
    assert GuestRequest(("rocelab", "capture"), "/", environment, (24, 80), "").attended is attended
