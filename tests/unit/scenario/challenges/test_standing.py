"""Whoever attends a challenge: where it stays, what has it go on, and what of that is recorded."""

from __future__ import annotations

import itertools
import os
import signal
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lab.backends import registry
from lab.backends.backend import Fabric
from lab.errors import Interrupted, OperationFailed, UsageError
from lab.faults.ledger import Ledger
from lab.kernel.process import process
from lab.scenario import library
from lab.scenario.challenges import challenge_process, challenge_record
from lab.scenario.challenges.challenge_process import GO_ON, WaitingStage
from lab.scenario.challenges.challenge_record import Challenge
from lab.telemetry.record.recorder import Recorder
from lab.telemetry.store.recording_folder import RecordKind
from tests.unit.running import Running, run
from tests.unit.scenario.test_stage import TOPOLOGY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Kept:
    """A recorder that keeps what it is told, in order."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *_: object) -> None:
        self.told.append("ended")

    def note(self, text: str, **_: Any) -> int:
        self.told.append(text)
        return 0

    def record(self, record_kind: RecordKind, /, *, ns: int | None = None, **data: Any) -> int:
        assert record_kind is RecordKind.TRUTH
        self.told.append(f"{data['did']} {data['kind']}")
        return ns or 0

    def rest(self) -> None:
        self.told.append("rests")

    def wake(self) -> None:
        self.told.append("wakes")


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    before = signal.signal(GO_ON, signal.SIG_IGN)
    yield run(TOPOLOGY, tmp_path, monkeypatch)
    signal.signal(GO_ON, before)


def stage_of(ran: Running, stands: Callable[[], None]) -> tuple[WaitingStage, Kept]:
    fabric, kept, made = Fabric(ran.state, TOPOLOGY, registry.backend(registry.DEFAULT)), Kept(), Challenge(ran.state)
    made.prepare()
    stage: Any = WaitingStage(
        fabric, kept, 1, lambda _: None, recording=kept, challenge=made, stands=stands  # type: ignore[arg-type]
    )  # fmt: skip
    return stage, kept


def say(number: int) -> None:
    os.kill(os.getpid(), number)


def test_it_stays_until_it_is_told_and_records_nothing_meanwhile(ran: Running) -> None:
    stage, kept = stage_of(ran, lambda: None)
    rounds: list[int] = []

    def again() -> None:
        entry = stage.inject("pauses-ignored", "h1")
        stage.recorder.note("unheard")
        stage.heal(entry)
        rounds.append(len(rounds))
        if len(rounds) == 3:
            say(GO_ON)
            stage.hold(3600)

    stage.inject("pauses-ignored", "h2")
    stage.linger(again)
    assert rounds == [0, 1, 2]
    stage.recorder.note("heard")
    assert kept.told == ["inject pauses-ignored", "rests", "wakes", "heard"]
    stage.linger(lambda: pytest.fail("it stayed twice"))
    say(GO_ON)


def test_a_workload_that_ends_at_once_is_not_repeated_without_a_pause(
    ran: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long one is repeated at once."""
    stage, _ = stage_of(ran, lambda: None)
    now, pauses = itertools.count(step=0.04), list[float]()

    def readable(asked: int, seconds: float) -> bool:
        pauses.append(round(seconds, 9))
        return len(pauses) == 4 and process.readable(asked)

    def again() -> None:
        if len(pauses) == 2:
            next(now)
            next(now)
        if len(pauses) == 3:
            say(GO_ON)

    monkeypatch.setattr(challenge_process, "process", SimpleNamespace(readable=readable))
    monkeypatch.setattr(challenge_process, "time", SimpleNamespace(monotonic=lambda: next(now)))
    stage.linger(again)
    assert pauses == [0.0, 0.06, 0.0, 0.06]


def test_asked_to_leave_it_leaves(ran: Running) -> None:
    stage, kept = stage_of(ran, lambda: say(signal.SIGTERM))
    with pytest.raises(Interrupted, match="ended by SIGTERM"):
        stage.linger()
    assert kept.told == ["rests", "wakes"]


def test_a_fabric_that_is_gone_is_told(ran: Running) -> None:
    stage, _ = stage_of(ran, ran.state.forget)
    with pytest.raises(UsageError, match="fabric stage was taken down"):
        stage.linger(lambda: None)


@pytest.mark.parametrize("lingers", [True, False])
def test_how_it_ended_is_written_down(ran: Running, monkeypatch: pytest.MonkeyPatch, lingers: bool) -> None:
    stage, kept = stage_of(ran, lambda: None)
    monkeypatch.setattr(Recorder, "begin", lambda *_, **__: kept)

    def tale(played: Any, _: object) -> None:
        played.inject("pauses-ignored", "h1")
        if lingers:
            played.linger(lambda: say(GO_ON))

    scenario = replace(library.find("incast"), run=tale)
    if lingers:
        challenge_process._attend(stage.fabric, scenario, 1, stage.challenge, lambda: None)
        assert stage.challenge.ended() == ""
    else:
        with pytest.raises(OperationFailed, match="lingers nowhere"):
            challenge_process._attend(stage.fabric, scenario, 1, stage.challenge, lambda: None)
        assert "lingers nowhere" in (stage.challenge.ended() or "")
    assert Ledger.of(ran.state).entries() == ()
    assert kept.told[-1] == "ended"
    assert challenge_record.lasting(ran.state) is None
