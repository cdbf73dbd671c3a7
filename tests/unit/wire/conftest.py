"""tshark as the second opinion on what this room writes: a requirement of the test suite, never skipped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from lab.kernel.process import find_tool, run
from lab.wire.pcapng import Direction, Interface, Record, Writer

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = tuple(word for name in ("rpcordma", "infiniband.eoib") for word in ("--disable-protocol", name))
"""Guesses about what RDMA carries, which would stop at our payloads before they come to the ICRC."""

Tshark = Callable[..., list[list[str]]]


@pytest.fixture
def tshark(tmp_path: Path) -> Tshark:
    """Rows of the named fields, one row a frame."""

    def ask(frames: Sequence[bytes], *fields: str, options: Sequence[str] = ()) -> list[list[str]]:
        capture = tmp_path / "asked.pcapng"
        with capture.open("wb", buffering=0) as output:
            writer = Writer(output)
            writer.add_interface(Interface("leaf1:swp1"))
            writer.write(
                Record(number * 1000, 0, len(frame), Direction.INBOUND, frame) for number, frame in enumerate(frames)
            )
        wanted = [argument for field in fields for argument in ("-e", field)]
        done = run([find_tool("tshark", "tshark"), "-n", *PLAIN, *options, "-r", capture, "-T", "fields", *wanted])
        return [line.split("\t") for line in done.stdout.splitlines()]

    return ask
