"""Links that are not Ethernet, as tshark reads them, and what is cut inside their headers."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING

import pytest
import zstandard

from lab.analysis.decode.columns import decode
from lab.analysis.read.capture_file import CaptureFile
from lab.analysis.read.records import Reader
from lab.analysis.results.fact_builder import analyse
from lab.cli.kit.capture_source import open_capture
from lab.errors import InvalidInput
from lab.kernel.process.process import find_tool, run
from lab.wire.pcapng import Direction
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcap, pcapng, records
from tests.unit.analysis.links import LINKS, MAC, cooked, cooked2

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RESERVED = bytes.fromhex("28b52ffd 20 10 070000")
"""A frame of 16 octets whose first block is of the type that does not exist (RFC 8878 section 3.1.1.2.2)."""
FRAMES = [packets.send(1), packets.send(2, path=packets.THERE6), packets.ack(2), *packets.write(3, 2)]


@pytest.mark.parametrize("name", LINKS)
def test_as_tshark_reads_it(tmp_path: Path, name: str) -> None:
    linktype, wrap = LINKS[name]
    file = tmp_path / "f.pcap"
    file.write_bytes(pcap([wrap(frame) for frame in FRAMES], linktype=linktype))
    fields = [f"-einfiniband.bth.{field}" for field in ("opcode", "destqp", "psn")]
    done = run([find_tool("tshark", "tshark"), "-n", "-r", file, "-Tfields", *fields])
    theirs = [tuple(int(word, 0) for word in line.split("\t")) for line in done.stdout.splitlines()]
    (roce,) = (decode(batch)[1] for batch in CaptureFile(io.BytesIO(file.read_bytes()), "f"))
    assert list(zip(roce.opcode.tolist(), roce.destqp.tolist(), roce.psn.tolist(), strict=True)) == theirs
    with file.open("rb") as stream:
        read = list(Reader(stream, "f"))
    assert [record.data[12:] for record in read] == [frame[12:] for frame in FRAMES]
    assert [record.length for record in read] == [len(frame) for frame in FRAMES]


def test_cooked_links_know_addresses_and_directions() -> None:
    for linktype, wrap, direction in ((113, cooked, Direction.OUTBOUND), (276, cooked2, Direction.INBOUND)):
        (record,) = Reader(io.BytesIO(pcap([wrap(FRAMES[0])], linktype=linktype)), "f")
        assert (record.direction, record.data[6:12]) == (direction, MAC)


@pytest.mark.parametrize("name", LINKS)
def test_what_is_cut_in_the_links_header_is_named(name: str) -> None:
    linktype, wrap = LINKS[name]
    cut = wrap(FRAMES[0])[: {"raw": 0, "loopback": 4}.get(name, 13)]
    with pytest.raises(InvalidInput, match=f"packet 2: cannot be decoded with link type {linktype}"):
        list(Reader(io.BytesIO(pcap([wrap(FRAMES[0]), cut], linktype=linktype)), "f"))


def test_a_simple_packet_is_a_packet() -> None:
    """draft-ietf-opsawg-pcapng section 4.4: no interface but the first, no time, and its length on the wire."""
    frame = FRAMES[0]
    padded = frame + bytes(-len(frame) & 3)
    total = 16 + len(padded)
    simple = (3).to_bytes(4, "little") + total.to_bytes(4, "little") + len(frame).to_bytes(4, "little")
    whole = pcapng(records([FRAMES[2]])) + simple + padded + total.to_bytes(4, "little")
    read = list(Reader(io.BytesIO(whole), "f"))
    assert [record.data for record in read] == [FRAMES[2], frame]
    assert read[0].timestamp == read[1].timestamp
    assert not analyse(io.BytesIO(whole), "f").damage_count


def frames(data: bytes) -> bytes:
    """Two frames of Zstandard, as ``zstd`` leaves them that packed a file in two pieces (RFC 8878 section 3)."""
    return zstandard.compress(data[:100]) + zstandard.compress(data[100:])


@pytest.mark.parametrize("pack", [gzip.compress, frames])
def test_compressed_and_from_standard_input(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    bare, packed = pcap(FRAMES), tmp_path / "packed"
    packed.write_bytes(pack(bare))
    words = [sys.executable, "-m", "lab", "dissect", "--summary", "--json"]
    told = [
        subprocess.run([*words, name], input=given, capture_output=True, check=True).stdout
        for name, given in ((str(packed), None), ("-", bare), ("-", pack(bare)))
    ]
    assert [packet["bth"]["psn"] for packet in json.loads(told[0])["packets"]] == [1, 2, 2, 3, 4]
    assert told[0] == told[1] == told[2]


def test_a_capture_whose_compressed_end_is_missing_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    random = Random(1).randbytes(3 << 17)  # which does not get smaller: blocks of 128 KiB, so that one is whole
    whole = pcap([random[start : start + 9000] for start in range(0, len(random), 9000)])
    packed = zstandard.compress(whole)
    (tmp_path / "cut.zst").write_bytes(packed[: 2 * len(packed) // 3])
    with open_capture(tmp_path / "cut.zst") as stream:
        facts = analyse(stream, "cut.zst")
    assert 0 < facts.packets < len(random) // 9000
    assert facts.damage_count == 1


@pytest.mark.parametrize("data", [b"\x1f\x8b\x08\0garbage", RESERVED])
def test_what_cannot_be_unpacked_is_said_so(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "f"
    file.write_bytes(data)
    for command in ("analyze", "dissect"):
        done = subprocess.run(
            [sys.executable, "-m", "lab", command, str(file)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert "cannot unpack" in done.stderr
