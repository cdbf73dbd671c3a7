"""Crafted packets: what each description becomes, read back by our decoder and by tshark."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import InvalidInput
from lab.wire.craft.build import cnp
from lab.wire.craft.craft_file import packet_from_options
from lab.wire.craft.packet_craft import craft, opcode
from lab.wire.craft.packet_spec import PacketKind, PacketSpec, Part, Transport
from lab.wire.frame import DecodedFrame, Icrc, decode
from lab.wire.headers import Aeth, AtomicEth, Deth, Feth, PauseFrame, PfcFrame, Reth
from lab.wire.opcodes import Opcode, opcode_name
from lab.wire.syndrome import AckKind, NakCode, Syndrome
from tests.unit.wire.packets import IP4

if TYPE_CHECKING:
    from collections.abc import Callable

    Tshark = Callable[..., list[list[str]]]


def spec(kind: str, **keys: Any) -> PacketSpec:
    return packet_from_options({"kind": kind} | {name.replace("_", "-"): value for name, value in keys.items()})


def made(kind: str, **keys: Any) -> DecodedFrame:
    frame = decode(craft(spec(kind, **keys)).frame)
    assert frame.damage == ""
    return frame


WITH_HEADERS: list[tuple[str, dict[str, Any], Opcode, dict[str, Any]]] = [
    ("write", {"va": "0x1000", "rkey": 5, "payload": "abcde"}, Opcode.RC_RDMA_WRITE_ONLY,
     {"reth": Reth(0x1000, 5, 5), "payload": 5}),
    ("write", {"part": "first", "dmalen": 9000, "payload-size": 1024}, Opcode.RC_RDMA_WRITE_FIRST,
     {"reth": Reth(0, 0, 9000), "payload": 1024}),
    ("write", {"part": "last", "transport": "uc", "immdt": 7}, Opcode.UC_RDMA_WRITE_LAST_WITH_IMMEDIATE,
     {"immdt": 7, "reth": None}),
    ("read", {"va": 8, "rkey": 9, "dmalen": 65536}, Opcode.RC_RDMA_READ_REQUEST, {"reth": Reth(8, 9, 65536)}),
    ("read-response", {"msn": 3, "payload-hex": "de ad"}, Opcode.RC_RDMA_READ_RESPONSE_ONLY,
     {"aeth": Aeth(Syndrome(AckKind.ACK, 31), 3), "payload": 2}),
    ("read-response", {"part": "middle"}, Opcode.RC_RDMA_READ_RESPONSE_MIDDLE, {"aeth": None}),
    ("send", {"invalidate": "0xbeef"}, Opcode.RC_SEND_ONLY_WITH_INVALIDATE, {"ieth": 0xBEEF}),
    ("send", {"transport": "ud", "qkey": 1, "srcqp": 2}, Opcode.UD_SEND_ONLY, {"deth": Deth(1, 2)}),
    ("cmpswap", {"va": 8, "compare": 1, "swap": 2}, Opcode.RC_CMPSWAP, {"atomiceth": AtomicEth(8, 0, 2, 1)}),
    ("fetchadd", {"rkey": 3, "add": 2**64 - 1}, Opcode.RC_FETCHADD, {"atomiceth": AtomicEth(0, 3, 2**64 - 1)}),
    ("atomic-ack", {"original": 6, "msn": 1}, Opcode.RC_ATOMIC_ACKNOWLEDGE,
     {"origremdt": 6, "aeth": Aeth(Syndrome(AckKind.ACK, 31), 1)}),
    ("atomic-write", {"va": 8, "rkey": 9, "payload-hex": "01 23 45 67 89 ab cd ef"}, Opcode.RC_ATOMIC_WRITE,
     {"reth": Reth(8, 9, 8), "feth": None, "payload": 8}),
    ("flush", {"va": 8, "rkey": 9, "dmalen": 65536}, Opcode.RC_FLUSH,
     {"feth": Feth(0, 1), "reth": Reth(8, 9, 65536), "payload": 0}),
    ("flush", {"rkey": 9, "selectivity": "region", "placement": "persistence"}, Opcode.RC_FLUSH,
     {"feth": Feth(1, 2), "reth": Reth(0, 9, 0)}),
    ("flush", {"rkey": 9, "dmalen": 1, "placement": "both"}, Opcode.RC_FLUSH, {"feth": Feth(0, 3)}),
    ("ack", {"credits": 5, "msn": 8}, Opcode.RC_ACKNOWLEDGE, {"aeth": Aeth(Syndrome(AckKind.ACK, 5), 8)}),
    ("nak", {}, Opcode.RC_ACKNOWLEDGE, {"aeth": Aeth(Syndrome(AckKind.NAK, NakCode.PSN_SEQUENCE_ERROR), 0)}),
    ("rnr-nak", {"timer": 1}, Opcode.RC_ACKNOWLEDGE, {"aeth": Aeth(Syndrome(AckKind.RNR_NAK, 1), 0)}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "keys", "expected", "headers"), WITH_HEADERS)
def test_each_kind_has_the_headers_of_its_opcode(
    kind: str, keys: dict[str, Any], expected: Opcode, headers: dict[str, Any]
) -> None:
    frame = made(kind, qp="0xABCDEF", psn=77, pkey="0x7fff", **{key.replace("-", "_"): keys[key] for key in keys})
    assert frame.bth is not None
    assert (frame.bth.opcode, frame.bth.destqp, frame.bth.psn, frame.bth.pkey) == (expected, 0xABCDEF, 77, 0x7FFF)
    assert {name: getattr(frame, name) for name in headers} == headers
    assert frame.icrc is Icrc.OK


@pytest.mark.parametrize("code", NakCode, ids=lambda code: code.name)
def test_naks_by_reason(code: NakCode) -> None:
    frame = made("nak", reason=code.name.lower().replace("_", "-"))
    assert frame.aeth == Aeth(Syndrome(AckKind.NAK, code), 0)


def test_every_opcode_can_be_crafted() -> None:
    described = [
        PacketSpec.model_validate({"kind": kind.value, "transport": transport.value, "part": part.value, **more})
        for kind, transport, part, more in product(PacketKind, Transport, Part, ({}, {"immdt": 1}, {"invalidate": 1}))
    ]
    assert {opcode(each) for each in described} == {*Opcode, None}


def test_the_path_is_as_described() -> None:
    frame = made("ack", src="fd00::7", dst="fd00::8", dscp=46, ecn="ce", sport=5, src_mac="02:AA:00:00:00:01")
    assert (frame.src, frame.dst, frame.dscp, frame.ecn, frame.sport) == ("fd00::7", "fd00::8", 46, 3, 5)


@pytest.mark.parametrize(
    ("keys", "src", "dst"),
    [
        ({}, "10.0.0.1", "10.0.0.2"),
        ({"dst": "fd00::9"}, "fd00::1", "fd00::9"),
        ({"src": "fd00::9"}, "fd00::9", "fd00::2"),
        ({"dst": "10.0.0.9"}, "10.0.0.1", "10.0.0.9"),
    ],
)
def test_an_address_that_is_not_given_is_of_the_others_family(keys: dict[str, str], src: str, dst: str) -> None:
    frame = made("ack", **keys)
    assert (frame.src, frame.dst) == (src, dst)
    outer = made("ack", vni=1, **{f"vtep_{key}": value for key, value in keys.items()})
    assert (":" in outer.src, ":" in outer.dst) == (":" in src, ":" in dst)


@pytest.mark.parametrize(
    ("keys", "vlan", "pcp"), [({"vlan": 100}, 100, 0), ({"pcp": 3}, 0, 3), ({"vlan": 4095, "pcp": 7}, 4095, 7)]
)
def test_a_tag_is_the_one_that_was_described(keys: dict[str, int], vlan: int, pcp: int, tshark: Tshark) -> None:
    tagged, plain = craft(spec("write", payload="x", **keys)).frame, craft(spec("write", payload="x")).frame
    frame = decode(tagged)
    assert (frame.vlan, frame.pcp, frame.icrc) == (vlan, pcp, Icrc.OK)
    assert tagged[:12] + tagged[16:] == plain
    fields = ("vlan.id", "vlan.priority", "infiniband.bth.opcode")
    assert tshark([tagged], *fields) == [[str(vlan), str(pcp), str(int(Opcode.RC_RDMA_WRITE_ONLY))]]


def test_a_tunnel_wears_the_tag() -> None:
    frame = made("write", vni=10, vlan=7, pcp=4)
    assert (frame.vlan, frame.pcp) == (7, 4)
    assert frame.inner is not None
    assert frame.inner.vlan is None


def test_a_cnp_is_the_one_of_the_builder() -> None:
    assert craft(spec("cnp", qp=0x118)).frame == cnp(replace(IP4, dscp=48, ecn=0), 0x118)


def test_a_cnp_is_not_in_the_class_of_the_data(tshark: Tshark) -> None:
    """A notification that waits behind what it is to slow down comes too late; no switch has to mark it."""
    frames = [craft(spec("cnp")).frame, craft(spec("cnp", dscp=26, ecn="ect0")).frame, craft(spec("write")).frame]
    assert tshark(frames, "ip.dsfield.dscp", "ip.dsfield.ecn") == [["48", "0"], ["26", "2"], ["26", "2"]]


def test_a_bad_icrc_is_all_that_is_wrong(tshark: Tshark) -> None:
    for kind in ("write", "cnp", "ack"):
        good, bad = craft(spec(kind)), craft(spec(kind, bad_icrc=True))
        assert decode(bad.frame).icrc is Icrc.BAD
        assert decode(bad.frame).damage == ""
        assert bad.frame[42:-4] == good.frame[42:-4]
        assert bad.note == "the ICRC is wrong: the receiver drops this without an answer"
        # A checksum that is wrong as well would be caught before anybody looks at the ICRC. 1 is tshark's "good".
        assert tshark([bad.frame], "udp.checksum.status", options=("-o", "udp.check_checksum:TRUE")) == [["1"]]


@pytest.mark.parametrize(
    ("psn", "wrong", "sent", "note"),
    [
        (100, 5, 105, "PSN 100 is due, 5 before this: RC answers NAK, PSN Sequence Error"),
        (100, -1, 99, "PSN 100 is due, 1 after this: a duplicate, answered and not done again"),
        (0xFFFFFF, 1, 0, "PSN 16777215 is due, 1 before this: RC answers NAK, PSN Sequence Error"),
        (0, -1, 0xFFFFFF, "PSN 0 is due, 1 after this: a duplicate, answered and not done again"),
    ],
)
def test_a_wrong_psn_is_off_by_as_much_as_was_asked(psn: int, wrong: int, sent: int, note: str) -> None:
    crafted = craft(spec("send", psn=psn, wrong_psn=wrong))
    bth = decode(crafted.frame).bth
    assert bth is not None
    assert (bth.psn, crafted.note) == (sent, note)


def test_a_tunnel_takes_dscp_and_ecn_over() -> None:
    frame = made("write", vni=10, dscp=46, ecn="ce", vtep_src="10.252.0.7", vtep_sport=9)
    assert (frame.vni, frame.src, frame.sport, frame.dscp, frame.ecn) == (10, "10.252.0.7", 9, 46, 3)
    assert frame.inner is not None
    assert (frame.inner.icrc, frame.inner.dscp) == (Icrc.OK, 46)


def test_pause_times_are_quanta_at_the_rate() -> None:
    assert made("pause").pause == PauseFrame(0xFFFF)
    assert made("pause", quanta="335.5392ms", rate="100Mbit").pause == PauseFrame(0xFFFF)
    # 512 bit times are 51.2 ns at 10 Gb/s; 100 us are 1953.1 of them, and a part of one counts whole.
    assert made("pfc", classes="3=100us,4=0,7=9", rate="10Gbit").pfc == PfcFrame.of({3: 1954, 4: 0, 7: 9})


def test_a_vector_may_enable_other_classes_than_have_times() -> None:
    quanta = (0, 0, 0, 9, 0, 0, 0, 0)
    assert made("pfc", classes="3=9", vector="0x8010").pfc == PfcFrame(0x8010, quanta)


def test_a_class_has_one_time() -> None:
    with pytest.raises(InvalidInput, match=r"'3=1, 3=65535' cannot be read; .* each class once"):
        made("pfc", classes="3=1, 3=65535")


@given(st.dictionaries(st.integers(0, 7), st.integers(0, 0xFFFF), min_size=1))
def test_classes_are_written_as_pairs(classes: dict[int, int]) -> None:
    text = ", ".join(f"{priority}={quanta}" for priority, quanta in classes.items())
    assert made("pfc", classes=text).pfc == PfcFrame.of(classes)


MISFITS: list[tuple[str, dict[str, Any], str]] = [
    ("write", {"part": "middle", "va": 1}, "--va: has no place in RC RDMA WRITE Middle; leave it out"),
    ("write", {"part": "first"}, "--dmalen: is missing; add it: how many bytes the whole message has"),
    ("read", {}, "--dmalen: is missing; add it: how many bytes the whole message has"),
    ("flush", {}, "--dmalen: is missing; add it: how many bytes there are to flush"),
    ("flush", {"dmalen": 1, "payload": "x"}, "--payload: has no place in RC FLUSH; leave it out"),
    ("flush", {"dmalen": 1, "placement": "global"},
     "--placement: 'global' is not known; choose global-visibility, persistence, both"),
    ("write", {"transport": "tcp"}, "--transport: 'tcp' is not known; choose rc, uc, ud"),
    ("write", {"transport": "RC"}, "--transport: 'RC' is not known; did you mean 'rc'?"),
    ("atomic-write", {"payload": "short"}, "--payload: has 5 bytes, and an ATOMIC WRITE writes 8; give 8"),
    ("atomic-write", {"payload_size": 8, "selectivity": "region"},
     "--selectivity: has no place in RC ATOMIC WRITE; leave it out"),
    ("read", {"transport": "uc"},
     "KIND: there is no UC RDMA READ REQUEST; change transport, part, immdt or invalidate"),
    ("send", {"immdt": 1, "part": "first"},
     "KIND: there is no RC SEND FIRST WITH IMMEDIATE; change transport, part, immdt or invalidate"),
    ("ack", {"reason": "invalid-request"}, "--reason: has no place in RC Acknowledge; leave it out"),
    ("ack", {"payload": "x"}, "--payload: has no place in RC Acknowledge; leave it out"),
    ("cnp", {"psn": 1}, "--psn: has no place in CNP; leave it out"),
    ("pfc", {"pcp": 1}, "--pcp: has no place in pfc; leave it out"),
    ("pause", {"vector": 1}, "--vector: has no place in pause; leave it out"),
    ("pfc", {"vni": 1}, "--vni: has no place in pfc; leave it out"),
    ("pause", {"quanta": "1ms"}, "--quanta: 1 ms are no quanta yet; give the rate of the link, like 10Gbit"),
    ("pfc", {"classes": "1=1s", "rate": "1Gbit"},
     "--classes: 1 s are 1953125 quanta at 1 Gb/s, and a frame has room for 65535; choose a shorter time"),
    ("send", {"payload": "x", "payload_size": 3},
     "--payload-size: is a second payload; give one of payload, payload-hex, payload-size"),
    ("send", {"vtep_src": "10.0.0.1"}, "--vtep-src: has no place in RC SEND Only; give a vni, or leave it out"),
    ("send", {"src": "10.0.0.1", "dst": "fd00::1"},
     "--src: is IPv4 and the receiver's IPv6; give both addresses of one family"),
    ("send", {"vni": 1, "vtep_src": "10.0.0.1", "vtep_dst": "fd00::1"},
     "--vtep-src: is IPv4 and the receiver's IPv6; give both addresses of one family"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "keys", "problem"), MISFITS)
def test_what_contradicts_itself_is_named(kind: str, keys: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        spec(kind, **keys)
    assert str(refused.value) == f"rocelab craft: {problem}"


def test_an_unchecked_description_is_not_crafted() -> None:
    with pytest.raises(ValueError, match="dmalen: is missing"):
        craft(PacketSpec(kind="read"))  # type: ignore[arg-type]  # as written in a file


def test_every_kind_is_whole_to_tshark(tshark: Tshark) -> None:
    keys: dict[str, dict[str, Any]] = {
        "read": {"dmalen": 1},
        "flush": {"dmalen": 1},
        "atomic-write": {"payload_size": 8},
    }
    plain = [craft(spec(kind.value, **keys.get(kind.value, {}))).frame for kind in PacketKind]
    rows = tshark(plain, "infiniband.bth.opcode", "macc.opcode", "_ws.malformed")
    expected = [decode(frame) for frame in plain]
    for frame, (roce, control, malformed) in zip(expected, rows, strict=True):
        assert malformed == ""
        assert (int(roce) if roce else None) == (frame.bth.opcode if frame.bth else None), opcode_name(0)
        assert bool(control) == (frame.pfc is not None or frame.pause is not None)
