"""Files that tshark and Wireshark's tools must read as we meant them, and theirs that we must."""

import contextlib
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.analysis.read.records import Reader
from lab.errors import InvalidInput, OperationFailed
from lab.kernel.process.process import find_tool, run
from lab.wire.pcapng import Direction, Interface, Record, Statistics, Writer

START = 1_700_000_000_123_456_789
PACKETS = [
    Record(START, 0, 60, Direction.OUTBOUND, bytes(60)),
    Record(START + 1, 1, 61, Direction.INBOUND, bytes(range(61))),
    Record(START + 1_000_000_007, 0, 1500, Direction.UNKNOWN, bytes(62)),
    Record(START + 2_000_000_000, 1, 63, Direction.INBOUND, bytes(63)),
]
COUNTED = Statistics(received=12, dropped=8, start=START, end=START + 3_000_000_000)


def written(
    packets: list[Record] = PACKETS, interfaces: tuple[str, ...] = ("leaf1:swp1", "spine1:swp2"), counted: bool = True
) -> bytes:
    output = io.BytesIO()
    writer = Writer(output)
    for name in interfaces:
        writer.add_interface(Interface(name, speed=100_000_000, snaplen=262144))
    writer.write(packets)
    for number in range(len(interfaces) if counted else 0):
        writer.write_statistics(number, COUNTED)
    return output.getvalue()


def read(data: bytes) -> list[Record]:
    return list(Reader(io.BytesIO(data), "f.pcapng"))


def test_tshark_reads_it(tmp_path: Path) -> None:
    capture = tmp_path / "f.pcapng"
    capture.write_bytes(written())
    fields = (
        "frame.interface_name",
        "frame.time_epoch",
        "frame.len",
        "frame.cap_len",
        "frame.packet_flags_direction",
    )
    wanted = [word for field in fields for word in ("-e", field)]
    done = run([find_tool("tshark", "tshark"), "-n", "-r", capture, "-T", "fields", *wanted])
    assert [line.split("\t") for line in done.stdout.splitlines()] == [
        ["leaf1:swp1", "1700000000.123456789", "60", "60", "0x00000002"],
        ["spine1:swp2", "1700000000.123456790", "61", "61", "0x00000001"],
        ["leaf1:swp1", "1700000001.123456796", "1500", "62", "0x00000000"],
        ["spine1:swp2", "1700000002.123456789", "63", "63", "0x00000001"],
    ]


def test_capinfos_finds_nothing_amiss(tmp_path: Path) -> None:
    capture = tmp_path / "f.pcapng"
    capture.write_bytes(written())
    told = run([find_tool("capinfos", "wireshark-common"), capture]).stdout
    for line in ("nanoseconds (9)", "Number of packets:   4", "Strict time order:   True", "Speed = 100000000"):
        assert line in told
    assert told.count("Number of stat entries = 1") == 2


def test_round_trip() -> None:
    reader = Reader(io.BytesIO(written()), "f.pcapng")
    assert list(reader) == PACKETS
    assert [interface.name for interface in reader.interfaces] == ["leaf1:swp1", "spine1:swp2"]
    assert reader.interfaces[0].speed == 100_000_000
    assert reader.statistics == {0: COUNTED, 1: COUNTED}


@given(
    st.lists(
        st.builds(
            Record,
            timestamp=st.integers(0, 2**63 - 1),
            interface=st.integers(0, 1),
            length=st.integers(300, 70000),
            direction=st.sampled_from(Direction),
            data=st.binary(max_size=300),
        ),
        max_size=600,
    )
)
@settings(max_examples=30)
def test_any_packets_round_trip(packets: list[Record]) -> None:
    assert read(written(packets)) == packets


def test_blocks_are_laid_out_as_in_the_draft() -> None:
    """draft-ietf-opsawg-pcapng section 4.3: an enhanced packet block, octet by octet."""
    block = written([PACKETS[1]], counted=False)[-(28 + 64 + 16) :]
    words = [int.from_bytes(block[at : at + 4], "little") for at in range(0, 28, 4)]
    assert words == [6, 108, 1, (START + 1) >> 32, (START + 1) & 0xFFFFFFFF, 61, 61]
    assert block[28 : 28 + 61] == bytes(range(61))
    assert block[28 + 61 :] == bytes(3) + bytes([2, 0, 4, 0, 1, 0, 0, 0, 0, 0, 0, 0, 108, 0, 0, 0])


@pytest.mark.parametrize("kind", ["pcapng", "pcap"])
def test_reads_what_wiresharks_tools_write(tmp_path: Path, kind: str) -> None:
    ours, theirs = tmp_path / "ours.pcapng", tmp_path / "theirs"
    ours.write_bytes(written())
    run([find_tool("editcap", "wireshark-common"), "-F", kind, ours, theirs])
    expected = [packet._replace(interface=0, direction=0) for packet in PACKETS] if kind == "pcap" else PACKETS
    unit = 1000 if kind == "pcap" else 1
    assert [packet._replace(timestamp=packet.timestamp // unit) for packet in read(theirs.read_bytes())] == [
        packet._replace(timestamp=packet.timestamp // unit) for packet in expected
    ]


def test_microseconds_and_big_endian_are_understood() -> None:
    section = bytes.fromhex("0a0d0d0a0000001c1a2b3c4d00010000ffffffffffffffff0000001c")
    interface = bytes.fromhex("0000000100000014000100000000ffff00000014")
    packet = bytes.fromhex("00000006000000240000000000000001000000020000000200000004abcd000000000024")
    assert read(section + interface + packet) == [Record((2**32 + 2) * 1000, 0, 4, 0, b"\xab\xcd")]


def test_a_name_cannot_steer_the_terminal() -> None:
    reader = Reader(io.BytesIO(written([], ("\x1b[2Jevil\n",))), "f.pcapng")
    assert list(reader) == []
    assert reader.interfaces[0].name == "?[2Jevil?"


def _patched(data: bytes, offset: int, value: int) -> bytes:
    return data[:offset] + value.to_bytes(4, "little") + data[offset + 4 :]


WHOLE = written()
SECTION = int.from_bytes(WHOLE[4:8], "little")
DESCRIBED = int.from_bytes(WHOLE[SECTION + 4 : SECTION + 8], "little")
FIRST_PACKET = len(written([], counted=False))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "is empty"),
        (b"\x7fELF" + bytes(60), "is neither pcapng nor pcap"),
        (WHOLE[:6], "block 1 at byte 0: the file ends inside it"),
        (_patched(WHOLE, 8, 7), "block 1 at byte 0: has no byte order magic"),
        (_patched(WHOLE, 12, 2), "block 1 at byte 0: is of pcapng version 2, known is 1"),
        (_patched(WHOLE, SECTION + 4, 2**31), f"block 2 at byte {SECTION}: has a length field of 2147483648 bytes"),
        (_patched(WHOLE, SECTION + 4, 8), f"block 2 at byte {SECTION}: has a length field of 8 bytes"),
        (_patched(WHOLE, SECTION + DESCRIBED - 4, 4), f"has length {DESCRIBED} at its start and 4 at its end"),
        (
            _patched(WHOLE, FIRST_PACKET + 8, 9),
            "packet 1: refers to an interface that is not described before it",
        ),
        (
            _patched(WHOLE, FIRST_PACKET + 20, 5000),
            "packet 1: its block is shorter than its captured length",
        ),
        (WHOLE[:-1], "the file ends inside it"),
    ],
)
def test_damage_is_named_with_its_place(data: bytes, complaint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(data)
    assert str(caught.value).startswith("f.pcapng: ")
    assert complaint in str(caught.value)


def test_packets_before_the_damage_are_handed_out() -> None:
    packets = iter(Reader(io.BytesIO(WHOLE[: FIRST_PACKET + 150]), "f.pcapng"))
    assert next(packets) == PACKETS[0]
    with pytest.raises(InvalidInput, match="block 5"):
        next(packets)


@settings(max_examples=500)
@given(
    st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=8), st.integers(0, len(WHOLE))
)
def test_damaged_files_raise_nothing_else(flips: list[tuple[int, int]], kept: int) -> None:
    damaged = bytearray(WHOLE)
    for offset, value in flips:
        damaged[offset] = value
    with contextlib.suppress(InvalidInput):
        read(bytes(damaged[:kept]))


@given(st.binary(max_size=300))
def test_noise_after_a_good_header_raises_nothing_else(noise: bytes) -> None:
    with contextlib.suppress(InvalidInput):
        read(WHOLE[:FIRST_PACKET] + noise)


class FullDisk(io.FileIO):
    """Takes ``room`` bytes in all, then says ENOSPC, after a partial write as file systems do."""

    room = 10_000

    def write(self, data: bytes | memoryview, /) -> int:  # type: ignore[override]
        taken = min(len(data), self.room - self.tell())
        if taken <= 0:
            raise OSError(28, "No space left on device")
        return super().write(data[:taken])


def test_a_full_disk_leaves_a_valid_file(tmp_path: Path) -> None:
    capture = tmp_path / "f.pcapng"
    with FullDisk(capture, "w") as output:
        writer = Writer(output)
        writer.add_interface(Interface("leaf1:swp1"))
        described = output.tell()
        packet = Record(START, 0, 100, Direction.INBOUND, bytes(100))
        for _ in range((10_000 - described) // 144):
            writer.write([packet])
        with pytest.raises(OperationFailed, match="cannot write the capture: No space left"):
            writer.write([packet])
    kept = read(capture.read_bytes())
    assert len(kept) == (10_000 - described) // 144
