"""Samples for a reader who may be suspended: the sampler waits for him, and is not taken for one that has failed."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from lab.errors import OperationFailed
from lab.telemetry.sample import stream_samples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.telemetry.sample.child_process import ChildProcess


class Sampler:
    """Answers or raises one thing after the other."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self.left = list(answers)

    def ask(self, _message: dict[str, Any]) -> dict[str, Any]:
        answer = self.left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


SILENT = OperationFailed("the sampler does not answer within 60 s")
GONE = {"gone": True, "failure": ""}
FINE = {"gone": False, "failure": ""}


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    os.set_blocking(ends[1], False)
    yield ends
    for end in ends:
        with suppress(OSError):
            os.close(end)


def gone_at_the_end(monkeypatch: pytest.MonkeyPatch, pipe: tuple[int, int], sampler: Sampler, *reads: bool) -> bool:
    said = iter(reads)
    monkeypatch.setattr(stream_samples, "_LOOK", 0.001)
    monkeypatch.setattr(stream_samples, "_is_read", lambda _: next(said))
    signals, waker = os.pipe()
    try:
        asked: ChildProcess = sampler  # type: ignore[assignment]
        return stream_samples._is_gone_at_the_end(asked, signals, pipe[1])
    finally:
        os.close(signals)
        os.close(waker)


def test_a_suspended_reader_is_waited_for(monkeypatch: pytest.MonkeyPatch, pipe: tuple[int, int]) -> None:
    sampler = Sampler(FINE, SILENT, GONE)
    assert gone_at_the_end(monkeypatch, pipe, sampler, True, False, False, True, False, False, True)
    assert sampler.left == []


def test_a_sampler_that_is_silent_to_one_who_reads_has_failed(
    monkeypatch: pytest.MonkeyPatch, pipe: tuple[int, int]
) -> None:
    with pytest.raises(OperationFailed, match="does not answer"):
        gone_at_the_end(monkeypatch, pipe, Sampler(SILENT), True, True)


def test_a_pipe_that_is_full_is_not_read(pipe: tuple[int, int]) -> None:
    assert stream_samples._is_read(pipe[1])
    with suppress(BlockingIOError):
        while True:
            os.write(pipe[1], bytes(4096))
    assert not stream_samples._is_read(pipe[1])
    os.read(pipe[0], 1 << 16)
    assert stream_samples._is_read(pipe[1])
