"""The predicate against Wireshark's display filters, on one packet of every kind."""

import pytest

from lab.wire.build import cnp, pause, pfc, rocev2, vxlan
from lab.wire.filter.match import matches
from lab.wire.filter.parse import parse
from lab.wire.frame import decode
from lab.wire.headers import Pause, Pfc
from lab.wire.opcodes import Opcode
from tests.unit.wire.conftest import Tshark
from tests.unit.wire.packets import IP4, IP6, VTEPS, crafted

FRAMES = [
    *(rocev2(path, crafted(opcode)) for path in (IP4, IP6) for opcode in Opcode if opcode is not Opcode.CNP),
    cnp(IP4, 0x11),
    vxlan(VTEPS, 10, rocev2(IP4, crafted(Opcode.RC_RDMA_WRITE_FIRST))),
    vxlan(VTEPS, 11, cnp(IP4, 0x12)),
    pfc("02:00:00:00:00:01", Pfc.of({3: 65535})),
    pause("02:00:00:00:00:01", Pause(7)),
]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("qpn==0x11", "infiniband.bth.destqp == 0x11"),
        ("psn in 0xfed00..0xfee00", "infiniband.bth.psn >= 0xfed00 and infiniband.bth.psn <= 0xfee00"),
        ("opcode==write", "infiniband.bth.opcode in {6..11, 0x26..0x2b}"),
        ("opcode==send", "infiniband.bth.opcode in {0..5, 0x16, 0x17, 0x20..0x25, 0x64, 0x65}"),
        ("opcode==read", "infiniband.bth.opcode in {0x0c..0x10}"),
        ("cnp", "infiniband.bth.opcode == 0x81"),
        ("ack", "infiniband.aeth.syndrome.opcode == 0 and infiniband.bth.opcode in {0x11, 0x12}"),
        ("vni==10", "vxlan.vni == 10"),
        ("host 10.0.0.1 and not roce", "ip.addr == 10.0.0.1 and not infiniband"),
        ("host fd00::2", "ipv6.addr == fd00::2"),
        ("src 10.252.0.1", "ip.src == 10.252.0.1"),
        ("ect", "ip.dsfield.ecn in {1, 2} or ipv6.tclass.ecn in {1, 2}"),
        ("dscp==26 and not host fd00::1", "ip.dsfield.dscp == 26"),
        ("pfc", "macc.opcode == 0x0101"),
        ("pause", "macc.opcode == 0x0001"),
        ("not (roce or vni>0)", "not infiniband and not vxlan"),
    ],
)
def test_a_filter_takes_what_wireshark_takes(tshark: Tshark, ours: str, theirs: str) -> None:
    expression = parse(ours)
    taken = [str(number) for number, frame in enumerate(FRAMES, 1) if matches(expression, decode(frame))]
    assert [row[0] for row in tshark(FRAMES, "frame.number", options=("-Y", theirs))] == taken
