"""tshark as the second opinion on what this room writes: a requirement of the test suite, never skipped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from lab.wire.pcapng import Direction, Interface, Record, Writer
from tests.unit.wire.opinions import ask_tshark

if TYPE_CHECKING:
    from pathlib import Path

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
        return ask_tshark(capture, *fields, options=options)

    return ask
