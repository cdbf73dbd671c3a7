"""Every opcode and answer, exchanged anew by live queue pairs: decoded, and in every field as tshark reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.analysis.read.records import Reader
from lab.wire.frame import Icrc, decode
from lab.wire.opcodes import Opcode
from tests.unit.wire.opinions import FIELDS, ask_tshark, ours, theirs
from tests.unit.wire.rxe_flush import mended
from tests.vm.record_vectors import record

if TYPE_CHECKING:
    from pathlib import Path as File

    from tests.vm.conftest import Path

pytestmark = [pytest.mark.vm, pytest.mark.long]


def test_every_opcode_is_what_tshark_reads(path: Path, tmp_path: File) -> None:
    file = tmp_path / "recorded.pcapng"
    file.write_bytes(record(path, path.pair))
    with file.open("rb") as stream:
        packets = [bytes(captured.data) for captured in Reader(stream, file.name)]
    frames = [decode(mended(data)) for data in packets]
    assert {frame.bth.opcode for frame in frames if frame.bth} == {*Opcode} - {Opcode.CNP}
    assert {(frame.icrc, frame.fault) for frame in frames} == {(Icrc.OK, "")}
    told = [ours(frame, data) for frame, data in zip(frames, packets, strict=True)]
    assert [theirs(row) for row in ask_tshark(file, *FIELDS)] == told
