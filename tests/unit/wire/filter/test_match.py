"""The predicate against Wireshark's display filters, on one packet of every kind."""

from ipaddress import ip_address

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

from lab.errors import UsageError
from lab.wire.craft.build import cnp, pause, pfc, rocev2, vxlan
from lab.wire.filter.match import matches
from lab.wire.filter.parse import parse
from lab.wire.frame import decode
from lab.wire.headers import PauseFrame, PfcFrame
from lab.wire.opcodes import Opcode
from tests.unit.wire.conftest import Tshark
from tests.unit.wire.filter.filters import plain, tag
from tests.unit.wire.packets import IP4, IP6, VTEPS, crafted

FRAMES = [
    *(rocev2(path, crafted(opcode)) for path in (IP4, IP6) for opcode in Opcode if opcode is not Opcode.CNP),
    cnp(IP4, 0x11),
    vxlan(VTEPS, 10, rocev2(IP4, crafted(Opcode.RC_RDMA_WRITE_FIRST))),
    vxlan(VTEPS, 11, cnp(IP4, 0x12)),
    bytes(
        Ether()
        / IP(src="10.252.0.1", dst="10.252.0.2")
        / UDP(sport=40000, dport=6081)
        / Raw(b"\0\0\x65\x58\0\0\x0c\0" + rocev2(IP4, crafted(Opcode.RC_SEND_ONLY)))
    ),
    bytes(
        Ether()
        / IP(src="10.252.0.1", dst="10.252.0.2")
        / UDP(sport=40000, dport=6081)
        / Raw(b"\0\0\x88\xb5\0\0\x0d\0" + bytes(40))
    ),
    pfc("02:00:00:00:00:01", PfcFrame.of({3: 65535})),
    pause("02:00:00:00:00:01", PauseFrame(7)),
    *plain()[3:7],
    tag(rocev2(IP4, crafted(Opcode.RC_SEND_ONLY)), 0x8100),
    bytes(Ether() / Dot1Q(vlan=200) / Dot1Q(vlan=7) / IP(src="10.0.1.9", dst="10.0.0.2") / UDP(dport=81)),
    bytes(Ether() / Dot1Q(vlan=100, prio=5) / IP(src="10.0.1.9", dst="10.0.0.2", ttl=9) / UDP(sport=7, dport=9)),
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
        ("geneve.vni==12", "geneve.vni == 12"),
        ("vni>9", "vxlan.vni > 9 or geneve.vni > 9"),
        ("host 10.0.0.1 and not roce", "ip.addr == 10.0.0.1 and not infiniband"),
        ("host fd00::2", "ipv6.addr == fd00::2"),
        ("src 10.252.0.1", "ip.src == 10.252.0.1"),
        ("ect", "ip.dsfield.ecn in {1, 2} or ipv6.tclass.ecn in {1, 2}"),
        ("dscp==26 and not host fd00::1", "ip.dsfield.dscp == 26"),
        ("dscp == 26", "ip.dsfield.dscp == 26 or ipv6.tclass.dscp == 26"),
        ("ecn == 3", "ip.dsfield.ecn == 3 or ipv6.tclass.ecn == 3"),
        ("ttl == 64", "ip.ttl == 64 or ipv6.hlim == 64"),
        ("pfc", "macc.opcode == 0x0101"),
        ("pause", "macc.opcode == 0x0001"),
        ("not (roce or vni>0)", "not infiniband and not vxlan and not geneve"),
    ],
)
def test_a_filter_takes_what_wireshark_takes_in_other_words(tshark: Tshark, ours: str, theirs: str) -> None:
    expression = parse(ours)
    taken = [str(number) for number, frame in enumerate(FRAMES, 1) if matches(expression, decode(frame))]
    assert [row[0] for row in tshark(FRAMES, "frame.number", options=("-Y", theirs))] == taken


@pytest.mark.parametrize(
    "text",
    [
        "infiniband",
        "infiniband.bth",
        "infiniband.bth.destqp == 0xabcde",
        "infiniband.bth.psn > 3 and infiniband.bth.opcode != 10",
        "infiniband.bth.opcode == 10 || vxlan.vni == 11",
        "vxlan.vni > 0",
        "geneve.vni > 0",
        "vxlan.vni != 10",
        "ip.addr == 10.0.0.1",
        "ip.addr == 10.0.0.0/24",
        "ip.src == 10.0.1.0/24 or ipv6.src == fd00::/16",
        "ip.dst == 10.0.0.2 and tcp",
        "ip.addr != 10.0.0.1",
        "ipv6.src != fd00::1",
        "ip.addr == 0.0.0.0/0",
        "ipv6.addr == ::/0",
        "ip.dsfield.dscp == 26",
        "ipv6.tclass.dscp == 26",
        "ipv6.tclass.ecn != 3",
        "ip.ttl == 64",
        "ipv6.hlim < 64",
        "udp.port == 4791 and not vxlan.vni == 10",
        "udp.srcport == 7",
        "udp.dstport == 53",
        "tcp.port == 80",
        "tcp.port == 4791",
        "tcp.port != 80",
        "tcp.dstport == 4791 or tcp.srcport == 4791",
        "udp.port == 80",
        "udp.port == 81",
        "udp.dstport != 53",
        "udp.srcport < 100",
        "tcp.port == 4789",
        "vlan.id == 7",
        "vlan.id == 200",
        "vlan.id != 200",
        "tcp.srcport == 20 or tcp.dstport == 81",
        "vlan.id == 100",
        "vlan.priority == 3",
        "udp",
        "tcp",
    ],
)
def test_wiresharks_own_words(tshark: Tshark, text: str) -> None:
    """The same text for both, on packets of which it takes some."""
    taken = [str(number) for number, frame in enumerate(FRAMES, 1) if matches(parse(text), decode(frame))]
    assert [row[0] for row in tshark(FRAMES, "frame.number", options=("-Y", text))] == taken
    assert len(taken) < len(FRAMES)


@pytest.mark.parametrize("text", ["ip.addr == fd00::1", "ipv6.dst == 10.0.0.2", "ip.src == fd00::/16"])
def test_an_address_of_the_other_version_is_refused_as_by_wireshark(text: str) -> None:
    with pytest.raises(UsageError, match="no address of IPv"):
        parse(text)


def test_a_name_with_addresses_of_both_versions_means_those_of_the_field() -> None:
    both = [ip_address("10.0.0.1"), ip_address("fd00::1")]
    assert parse("ip.src == h1", lambda _: both) == parse("src 10.0.0.1")
    assert parse("ipv6.src == h1", lambda _: both) == parse("src fd00::1")


def test_the_languages_own_ports_are_those_of_both_transports() -> None:
    udp, tcp = (bytes(Ether() / IP() / kind(sport=1, dport=4791)) for kind in (UDP, TCP))
    told = {text: [matches(parse(text), decode(frame)) for frame in (udp, tcp)] for text in
            ("port==4791", "udp.port==4791", "tcp.port==4791", "tcp.dstport!=80", "udp.dstport!=80")}  # fmt: skip
    assert told == {
        "port==4791": [True, True], "udp.port==4791": [True, False], "tcp.port==4791": [False, True],
        "tcp.dstport!=80": [False, True], "udp.dstport!=80": [True, False],
    }  # fmt: skip


def test_the_interface_is_that_of_the_packet_or_its_node() -> None:
    frame = decode(FRAMES[0])
    for text, wanted in (("interface==leaf1:swp1", True), ("interface==leaf1", True), ("interface==leaf", False)):
        assert matches(parse(text), frame, "leaf1:swp1") == wanted
    assert matches(parse("frame.interface_name != leaf1"), frame, "leaf11:swp1")


def test_a_bad_icrc_and_one_that_nobody_knows() -> None:
    good = rocev2(IP4, crafted(Opcode.RC_SEND_ONLY))
    wrong, cut = good[:-1] + bytes([good[-1] ^ 1]), good[:-1]
    told = [(decode(good), "ok"), (decode(wrong), "bad"), (decode(cut, len(good)), "unknown")]
    for frame, what in told:
        assert [word for word in ("ok", "bad", "unknown") if matches(parse(f"icrc=={word}"), frame)] == [what]
        assert matches(parse("icrc!=ok"), frame) == (what != "ok")
    assert not matches(parse("icrc!=ok"), decode(plain()[0])), "no ICRC is none that is bad"
