"""Programs that are watched: lines while they run, nothing left after an interrupt."""

import os
import select
from pathlib import Path

import pytest

from lab.errors import CommandFailed
from lab.kernel.process import stream_output


def test_lines_come_while_the_program_runs(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    script = f"echo first; until [ -e {gate} ]; do sleep 0.01; done; echo second >&2"
    seen: list[str] = []

    def on_line(line: str) -> None:
        seen.append(line)
        gate.touch()

    stream_output.stream(["sh", "-c", script], on_line)
    assert seen == ["first", "second"]


def test_a_failure_carries_the_last_lines() -> None:
    with pytest.raises(CommandFailed) as failure:
        stream_output.stream(["sh", "-c", "echo E: no mirror; exit 9"], lambda _line: None)
    assert (failure.value.returncode, failure.value.stderr) == (9, "E: no mirror")


def test_an_interrupt_ends_the_program_and_its_children() -> None:
    ends: list[int] = []

    def on_line(line: str) -> None:
        ends.extend(os.pidfd_open(int(pid)) for pid in line.split())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stream_output.stream(["sh", "-c", "trap '' TERM; sleep 100 & echo $$ $!; wait"], on_line, grace=0.1)
    # A killed process closes its output, which is what stream waits for, an instant before it has ended.
    for end in ends:
        assert select.select([end], [], [], 10)[0]
        os.close(end)
    assert len(ends) == 2
