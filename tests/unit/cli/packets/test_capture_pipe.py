"""A capture to standard output whose reader leaves, as Wireshark does, ends like any other command there."""

from __future__ import annotations

import os
from io import FileIO

import pytest

from lab.cli.packets.capture import _reader_may_leave
from lab.errors import OperationFailed
from lab.wire.pcapng import Writer


def write_to_nobody(output: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with FileIO(writing, "w") as pipe, _reader_may_leave(output):
        Writer(pipe)


def test_a_reader_that_leaves_is_no_failure() -> None:
    with pytest.raises(BrokenPipeError):  # main() exits with 141 then, as after SIGPIPE
        write_to_nobody("-")


def test_any_other_output_that_breaks_is_one() -> None:
    with pytest.raises(OperationFailed, match="cannot write the capture: Broken pipe"):
        write_to_nobody("a/fifo")
