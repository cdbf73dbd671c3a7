"""Priority for a while."""

import os

import pytest

from lab.kernel.process.nice import before_others


def nice() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


def test_comes_before_others_and_returns() -> None:
    usual = nice()
    with before_others():
        assert nice() == (min(usual, -10) if os.geteuid() == 0 else usual)
    assert nice() == usual


def test_returns_after_an_error() -> None:
    usual = nice()
    with pytest.raises(ValueError, match="now"), before_others():
        raise ValueError("now")
    assert nice() == usual


def test_goes_on_without_the_right_to(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, asked = nice(), []

    def refuse(*arguments: int) -> None:
        asked.append(arguments)
        if len(asked) == 1:
            raise PermissionError

    monkeypatch.setattr(os, "setpriority", refuse)
    with before_others():
        pass
    assert asked[-1][-1] == usual


def policy() -> int:
    return os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK


def test_what_is_urgent_comes_before_other_sessions_too_and_returns() -> None:
    with before_others() as priority:
        priority.be_urgent(True)
        assert policy() == (os.SCHED_RR if os.geteuid() == 0 else os.SCHED_OTHER)
        priority.be_urgent(False)
        assert policy() == os.SCHED_OTHER
        priority.be_urgent(True)
    assert policy() == os.SCHED_OTHER


def test_what_is_urgent_goes_on_without_the_right_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with before_others() as priority:
        priority.be_urgent(True)
    assert policy() == os.SCHED_OTHER
