"""What mirrors wrap packets in, as tshark unwraps it."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING

import pytest

from lab.analysis.decode.columns import decode
from lab.analysis.read.capture_file import CaptureFile
from lab.analysis.read.records import Reader
from lab.analysis.results.fact_builder import analyse
from lab.kernel.process.process import find_tool, run
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng, records
from tests.unit.analysis.mirrors import HEADERS, SPECTRUM, mirrored

if TYPE_CHECKING:
    from pathlib import Path

FRAMES = [*packets.write(1, 3), packets.ack(3), packets.send(4, path=packets.THERE6), packets.tagged(packets.send(5))]


@pytest.mark.parametrize("tag", [b"", b"\x81\x00\x00\x05"])
@pytest.mark.parametrize("kind", HEADERS)
def test_as_tshark_unwraps_it(tmp_path: Path, kind: str, tag: bytes) -> None:
    data = pcapng(records([mirrored(frame, HEADERS[kind], tag) for frame in FRAMES]))
    file = tmp_path / "f.pcapng"
    file.write_bytes(data)
    done = run([find_tool("tshark", "tshark"), "-n", "-r", file, "-Tfields", "-einfiniband.bth.psn"])
    theirs = [int(line) for line in done.stdout.splitlines()]
    (roce,) = (decode(batch)[1] for batch in CaptureFile(io.BytesIO(data), "f"))
    assert roce.psn.tolist() == theirs == [1, 2, 3, 3, 4, 5]
    assert [record.data for record in Reader(io.BytesIO(data), "f")] == FRAMES


def test_a_mirrored_capture_is_the_capture() -> None:
    """Flows, messages and pauses are those of the mirrored port."""
    bare = analyse(io.BytesIO(pcapng(records(FRAMES))), "f")
    seen = analyse(io.BytesIO(pcapng(records([mirrored(frame, HEADERS["II"]) for frame in FRAMES]))), "f")
    assert (seen.flows, seen.mirrored) == (bare.flows, len(FRAMES))


@pytest.mark.parametrize("tag", [b"", b"\x81\x00\x00\x05"])
def test_what_sonic_sends_on_a_spectrum_is_unwrapped(tag: bytes) -> None:
    """tshark does not know it: what comes out must be what went in."""
    data = pcapng(records([mirrored(frame, SPECTRUM, tag) for frame in FRAMES]))
    assert [record.data for record in Reader(io.BytesIO(data), "f")] == FRAMES
    bare = analyse(io.BytesIO(pcapng(records(FRAMES))), "f")
    seen = analyse(io.BytesIO(data), "f")
    assert (seen.flows, seen.mirrored, seen.not_decoded) == (bare.flows, len(FRAMES), {})


def test_what_is_cut_or_no_mirror_stays_as_it_is() -> None:
    whole = mirrored(FRAMES[0], HEADERS["II"])
    keyed = mirrored(FRAMES[0], struct.pack("!HHI", 0x2000, 0x88BE, 7))
    other = mirrored(FRAMES[0], struct.pack("!HH", 0, 0x0800))
    data = pcapng(records([whole[:58], keyed, other, packets.send(9)]))
    assert [record.data for record in Reader(io.BytesIO(data), "f")] == [whole[:58], keyed, other, packets.send(9)]
    assert analyse(io.BytesIO(data), "f").mirrored == 0
