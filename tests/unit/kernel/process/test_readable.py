"""Waiting for descriptors, also beside more than 1,024 open ones, which select(2) does not take."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lab
from lab.kernel.process.process import allow_descriptors, readable

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=[0, 1500])
def pipe(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """A pipe whose descriptors have at least this number."""
    allow_descriptors(2000)
    made = os.pipe()
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, request.param) for end in made]
    yield ends[0], ends[1]
    for end in (*made, *ends):
        os.close(end)


def test_what_can_be_read_is_at_once(pipe: tuple[int, int]) -> None:
    assert not readable(pipe[0], 0)
    assert not readable(pipe[0], 0.01)
    os.write(pipe[1], b"x")
    assert readable(pipe[0], 0)
    assert readable(pipe[0])


def test_a_process_that_has_ended_can_be_read() -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    handle = os.pidfd_open(child)
    assert readable(handle)
    os.close(handle)
    os.waitpid(child, 0)


def test_nothing_else_waits_by_a_call_that_takes_few_descriptors() -> None:
    folder = Path(lab.__file__).parent
    calls = [str(file.relative_to(folder)) for file in folder.rglob("*.py") if "select.select([" in file.read_text()]
    assert calls == []
