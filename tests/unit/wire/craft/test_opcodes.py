from pathlib import Path as File

import pytest

from lab.kernel.process.process import find_tool, run
from lab.wire.craft.build import Path, RoceMessage, rocev2
from lab.wire.opcodes import Extension, Opcode, extensions, opcode_name
from lab.wire.pcapng import Direction, Interface, Record, Writer
from tests.unit.wire.opinions import known_to_tshark

PATH = Path("02:00:00:00:00:01", "02:00:00:00:00:02", "10.0.0.1", "10.0.0.2")


def test_names_are_spelled_as_in_the_specification() -> None:
    assert opcode_name(0x06) == "RC RDMA WRITE First"
    assert opcode_name(0x12) == "RC ATOMIC Acknowledge"
    assert opcode_name(0x1C) == "RC FLUSH"
    assert opcode_name(0x1D) == "RC ATOMIC WRITE"
    assert opcode_name(0x81) == "CNP"


def test_names_are_those_of_tshark(tmp_path: File) -> None:
    asked = [opcode for opcode in Opcode if opcode in known_to_tshark()]
    assert {*Opcode} - {*asked} <= {Opcode.RC_FLUSH, Opcode.RC_ATOMIC_WRITE, Opcode.CNP}
    capture = tmp_path / "all.pcapng"
    with capture.open("wb", buffering=0) as output:
        writer = Writer(output)
        writer.add_interface(Interface("leaf1:swp1"))
        for number, opcode in enumerate(asked):
            frame = rocev2(PATH, RoceMessage(opcode, 17, payload=bytes(64)))
            writer.write([Record(number, 0, len(frame), Direction.INBOUND, frame)])
    told = run([find_tool("tshark", "tshark"), "-n", "-r", capture, "-V"]).stdout
    names = []
    for line in told.splitlines():
        if line.strip().startswith("Opcode: "):
            transport, name = line.split("(", 1)[1].split(") - ")
            names.append(f"{transport} {name.rsplit(' (', 1)[0]}".replace("only", "Only"))
    assert names == [opcode_name(opcode) for opcode in asked]


@pytest.mark.parametrize(
    ("value", "name"), [(0x15, "RC opcode 0x15"), (0x57, "RD opcode 0x57"), (0xFF, "reserved opcode 0xff")]
)
def test_unassigned_values_are_named_by_transport_and_number(value: int, name: str) -> None:
    assert opcode_name(value) == name
    assert extensions(value) == ()


def test_every_value_has_a_name_of_its_own() -> None:
    assert len({opcode_name(value) for value in range(256)}) == 256


def test_extensions_are_in_wire_order() -> None:
    assert extensions(Opcode.RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE) == (Extension.RETH, Extension.IMMDT)
    assert extensions(Opcode.RC_RDMA_READ_RESPONSE_MIDDLE) == ()
    assert extensions(Opcode.RC_FLUSH) == (Extension.FETH, Extension.RETH)
    assert extensions(Opcode.RC_ATOMIC_WRITE) == (Extension.RETH,)
    assert extensions(Opcode.RC_ATOMIC_ACKNOWLEDGE) == (Extension.AETH, Extension.ATOMIC_ACK_ETH)
    assert sum(extension.size for extension in extensions(Opcode.CNP)) == 16


def test_xrc_and_rd_have_headers_of_their_own_before_the_others() -> None:
    """Annex A14: XRCETH in requests only. Section 9.3.1: RDETH in every RD packet, and DETH in its requests."""
    assert extensions(0xA0) == (Extension.XRCETH,)
    assert extensions(0xAA) == (Extension.XRCETH, Extension.RETH)
    assert extensions(0xB1) == (Extension.AETH,)
    assert extensions(0x46) == (Extension.RDETH, Extension.DETH, Extension.RETH)
    assert extensions(0x51) == (Extension.RDETH, Extension.AETH)


def test_xrc_and_rd_are_named_as_tshark_does(tmp_path: File) -> None:
    asked = [*range(0xA0, 0xB5), *range(0x40, 0x56)]
    template = rocev2(PATH, RoceMessage(Opcode.RC_SEND_ONLY, 17, payload=bytes(64)))
    capture = tmp_path / "all.pcapng"
    with capture.open("wb", buffering=0) as output:
        writer = Writer(output)
        writer.add_interface(Interface("leaf1:swp1"))
        for number, opcode in enumerate(asked):
            frame = template[:42] + bytes([opcode]) + template[43:]
            writer.write([Record(number, 0, len(frame), Direction.INBOUND, frame)])
    told = run([find_tool("tshark", "tshark"), "-n", "-r", capture, "-V"]).stdout
    names = [line.split("(", 1)[1].rsplit(" (", 1)[0] for line in told.splitlines() if "Opcode: " in line]
    assert [name.replace(") - ", " ").replace("only", "Only") for name in names] == list(map(opcode_name, asked))
