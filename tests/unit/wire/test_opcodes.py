from pathlib import Path as File

import pytest

from lab.kernel.process import find_tool, run
from lab.wire.build import Message, Path, rocev2
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
            frame = rocev2(PATH, Message(opcode, 17, payload=bytes(64)))
            writer.write([Record(number, 0, len(frame), Direction.INBOUND, frame)])
    told = run([find_tool("tshark", "tshark"), "-n", "-r", capture, "-V"]).stdout
    names = []
    for line in told.splitlines():
        if line.strip().startswith("Opcode: "):
            transport, name = line.split("(", 1)[1].split(") - ")
            names.append(f"{transport} {name.rsplit(' (', 1)[0]}".replace("only", "Only"))
    assert names == [opcode_name(opcode) for opcode in asked]


@pytest.mark.parametrize(
    ("value", "name"), [(0x15, "RC opcode 0x15"), (0x4C, "RD opcode 0x4c"), (0xFF, "reserved opcode 0xff")]
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
