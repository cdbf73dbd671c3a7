"""Every octet of a frame is shown once, in order, beside the name of its header."""

from hypothesis import given
from hypothesis import strategies as st

from lab.wire.craft.build import Path, RoceMessage, rocev2, vxlan
from lab.wire.explain.explanation import explain
from lab.wire.explain.hexview import hex_lines
from lab.wire.opcodes import Opcode
from tests.unit.wire.packets import IP4, VTEPS, messages, paths


@given(paths, messages(), st.booleans())
def test_shows_every_octet_once(path: Path, message: RoceMessage, tunnelled: bool) -> None:
    data = rocev2(path, message)
    if tunnelled:
        data = vxlan(VTEPS, 10, data)
    headers = explain(data).headers
    lines = list(hex_lines(data, headers))
    assert bytes.fromhex("".join(line[6:53] for line in lines)) == data
    names = [name for line in lines if (name := line[73:])]
    assert names == [header.name.split(",")[0] for header in headers if header.size]


@given(st.binary(max_size=200))
def test_shows_every_octet_of_noise(data: bytes) -> None:
    lines = list(hex_lines(data, explain(data).headers))
    assert b"".join(bytes.fromhex(line[6:53]) for line in lines) == data


def test_a_line_has_offset_octets_text_and_header() -> None:
    data = rocev2(IP4, RoceMessage(Opcode.RC_SEND_ONLY, 0x11, payload=b"hello, world!!!!plus", icrc=b"seal"))
    lines = list(hex_lines(data, explain(data).headers))
    assert lines[-3:] == [
        "0036  68 65 6c 6c 6f 2c 20 77 6f 72 6c 64 21 21 21 21  hello, world!!!!  Data",
        "0046  70 6c 75 73                                      plus",
        "004a  73 65 61 6c                                      seal              ICRC",
    ]
