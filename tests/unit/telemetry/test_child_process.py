"""Processes of a recorder's own: they answer, end with their parent however that ends, and hold nothing of it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from lab.errors import Interrupted, OperationFailed, UsageError
from lab.kernel.process.signals import outside_contexts
from lab.telemetry.sample import child_process
from lab.telemetry.sample.child_process import ChildProcess, Control, failure, lasting_child
from tests.patience import PATIENCE

FDS = Path("/proc/self/fd")
_PARENT = """
import sys, time
from lab.telemetry.sample.child_process import ChildProcess
child = ChildProcess("the child", lambda control: control.heard())
print(child.pid, flush=True)
time.sleep(60)
"""


def answers(control: Control) -> None:
    while (said := control.heard()) is not None:
        control.say({"open": sorted(int(name.name) for name in FDS.iterdir()), "said": said})


def test_it_answers_and_has_open_what_it_was_to_keep(tmp_path: Path) -> None:
    with (tmp_path / "mine").open("w") as mine, (tmp_path / "its").open("w") as its:
        child = ChildProcess("the child", answers, [its.fileno()])
        said = child.ask({"do": "this"})
        assert said["said"] == {"do": "this"}
        assert its.fileno() in said["open"]
        assert mine.fileno() not in said["open"]
        assert child.end() == 0


def test_one_that_fails_says_why_and_then_nobody_answers() -> None:
    def fails(control: Control) -> None:
        control.heard()
        raise OperationFailed("it cannot be", "try another")

    child = ChildProcess("the child", fails)
    said = child.ask({})
    assert said["error"] == "it cannot be: try another"
    assert repr(failure(said)) == repr(OperationFailed("it cannot be", "try another"))
    with pytest.raises(OperationFailed, match="the child has ended"):
        child.ask({})
    assert child.end() == 1


def test_one_that_failed_before_it_was_asked_says_why_all_the_same() -> None:
    def fails(_: Control) -> None:
        raise UsageError("it was wrong")

    child = ChildProcess("the child", fails)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert repr(failure(child.ask({}))) == repr(UsageError("it was wrong", ""))
    assert child.end() == 1


def test_one_that_failed_with_our_words_unread_says_why_all_the_same() -> None:
    def fails(control: Control) -> None:
        select.select([control.descriptors[0]], [], [])
        raise UsageError("it was wrong")

    child = ChildProcess("the child", fails)
    assert repr(failure(child.ask({}))) == repr(UsageError("it was wrong", ""))
    assert child.end() == 1


@pytest.mark.parametrize("missed", [1, 2])
def test_an_answer_that_came_too_late_is_not_that_of_the_next_question(missed: int) -> None:
    held, go = os.pipe()

    def slow(control: Control) -> None:
        while (said := control.heard()) is not None:
            if said["number"] == 0:
                os.read(held, 1)
            control.say(said)

    child = ChildProcess("the child", slow, [held])
    for number in range(missed):
        with pytest.raises(OperationFailed, match=r"the child does not answer within 0\.05 s"):
            child.ask({"number": number}, timeout=0.05)
    os.write(go, b"x")
    for number in range(missed, missed + 2):
        assert child.ask({"number": number}) == {"number": number}
    assert child.end() == 0
    for end in (held, go):
        os.close(end)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_its_parent(number: signal.Signals) -> None:
    parent = subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = os.pidfd_open(int(parent.stdout.readline()))
    try:
        parent.send_signal(number)
        parent.wait(timeout=PATIENCE)
        ended = select.poll()
        ended.register(child, select.POLLIN)
        assert ended.poll(30_000)
    finally:
        os.close(child)
        parent.stdout.close()


def test_a_signal_while_a_lasting_child_starts_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It outlives its parent, which would not know it: the error comes before the child has a name there."""
    forked, ended = child_process._fork, list[int]()

    def interrupted_fork() -> tuple[int, set[signal.Signals | int]]:
        pid, mask = forked()
        if pid:
            signal.raise_signal(signal.SIGTERM)
        return pid, mask

    def interrupt(number: int) -> NoReturn:
        raise Interrupted(signal.Signals(number).name)

    monkeypatch.setattr(child_process, "_fork", interrupted_fork)
    usual = signal.signal(signal.SIGTERM, outside_contexts(interrupt))
    try:
        with (
            pytest.raises(Interrupted, match="SIGTERM"),
            lasting_child("the child", answers, lambda child: ended.append(child.end())),
        ):
            pytest.fail("the block was entered")
    finally:
        signal.signal(signal.SIGTERM, usual)
    assert ended == [0]


def test_a_child_that_is_ended_at_once_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parent's handler holds signals then, and would keep this one for ever."""
    monkeypatch.setattr(os, "setsid", lambda: os.kill(os.getpid(), signal.SIGTERM))
    child = ChildProcess("the child", lambda control: control.say({}))
    assert child.end() == -signal.SIGTERM
