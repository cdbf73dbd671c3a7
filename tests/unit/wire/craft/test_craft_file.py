"""Packets described in YAML: the good, the bad with every problem named, and the hostile."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.errors import InvalidInput
from lab.wire.craft.craft_file import load_packets
from lab.wire.craft.packet_craft import craft
from lab.wire.craft.packet_spec import PacketKind, PacketSpec
from lab.wire.frame import decode

GOOD = """\
defaults: {dst: 10.0.0.9, qp: 0x12}
packets:
  - {kind: write, psn: 100, va: 0x1000, rkey: 0x22, payload: hello}
  - kind: write
    psn: 101
    wrong-psn: 5
  - {kind: nak, psn: 101, qp: 7, src: 10.0.0.8}
"""
BAD = """\
defaults: {dst: fd00::1, qp: 0x1111111}
packets:
  - {kind: writ, va: yes}
  - {kind: write, part: middle, rkey: 1, qp: 1, src: 10.0.0.1}
  - {kind: nak, psn: -1, colour: red, reson: x, qp: 2}
  - 17
  - {psn: 1, qp: 2}
  - {kind: send, bad-icrc: 1, src-mac: here, payload: [1], qp: 2}
also: this
"""
PROBLEMS = """\
bad.yaml:1: defaults.qp: '0x1111111' is out of range; choose 0 to 16777215 (0xffffff)
bad.yaml:3: packets[0].kind: 'writ' is not known; did you mean 'write'?
bad.yaml:3: packets[0].va: 'yes' is not a whole number; choose 0 to 18446744073709551615 (0xffffffffffffffff)
bad.yaml:4: packets[1].rkey: has no place in RC RDMA WRITE Middle; leave it out
bad.yaml:4: packets[1].src: is IPv4 and the receiver's IPv6; give both addresses of one family
bad.yaml:5: packets[2].colour: is not a known key; see `rocelab craft --help`
bad.yaml:5: packets[2].psn: -1 is out of range; choose 0 to 16777215 (0xffffff)
bad.yaml:5: packets[2].reson: is not a known key; did you mean 'reason'?
bad.yaml:6: packets[3]: must be a mapping, not 17; write it like `- kind: ack`
bad.yaml:7: packets[4].kind: is missing; add it: write, read, send, ack, nak, cnp, pfc, ...
bad.yaml:8: packets[5].bad-icrc: 1 is neither true nor false; write true or false
bad.yaml:8: packets[5].payload: must be one value, not a list; write it on one line
bad.yaml:8: packets[5].src-mac: 'here' cannot be read; write it like 02:00:00:00:00:01
bad.yaml:9: also: is not a known key; beside packets there is only defaults"""


def test_packets_share_their_defaults() -> None:
    packets = load_packets(GOOD, "good.yaml")
    assert [packet.kind for packet in packets] == [PacketKind.WRITE, PacketKind.WRITE, PacketKind.NAK]
    assert [(*packet.ends, packet.qp) for packet in packets] == [
        ("10.0.0.1", "10.0.0.9", 0x12),
        ("10.0.0.1", "10.0.0.9", 0x12),
        ("10.0.0.8", "10.0.0.9", 7),
    ]
    assert [decode(craft(packet).frame).damage for packet in packets] == [""] * 3


def test_a_file_may_be_one_packet() -> None:
    (packet,) = load_packets("kind: pfc\nclasses: 3=1,4=2\n", "one.yaml")
    assert packet.classes == {3: 1, 4: 2}


def test_every_problem_is_named_with_its_line() -> None:
    with pytest.raises(InvalidInput) as refused:
        load_packets(BAD, "bad.yaml")
    assert str(refused.value) == PROBLEMS


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "must be a mapping, not nothing"),
        ("- 1\n", "must be a mapping, not a list"),
        ("packets: []\n", "packets: must be a list of 1 to 10000 packets"),
        ("packets: 3\n", "packets: must be a list of 1 to 10000 packets"),
        ("packets: [{kind: ack}]\ndefaults: 1\n", "defaults: must be a mapping, not 1"),
        ("kind: &a ack\n", "kind: has an anchor"),
        ("kind: [\n", "is not valid YAML"),
        ("kind: ack\nkind: nak\n", "kind: is there twice"),
    ],
)
def test_the_shape_of_the_file_is_checked(text: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        load_packets(text, "x.yaml")
    assert problem in str(refused.value)


values = st.one_of(
    st.integers(), st.booleans(), st.text(max_size=12), st.floats(), st.none(), st.just([]), st.just({"a": 1})
)
keys = st.sampled_from([field.alias or name for name, field in PacketSpec.model_fields.items()]) | st.text(max_size=5)


@settings(max_examples=300)
@given(st.sampled_from(PacketKind), st.dictionaries(keys, values, max_size=6))
def test_any_values_are_crafted_or_refused(kind: PacketKind, written: dict[str, object]) -> None:
    text = "\n".join(f"{key!r}: {value!r}" for key, value in (written | {"kind": kind.value}).items())
    with suppress(InvalidInput):
        (packet,) = load_packets(text, "any.yaml")
        assert decode(craft(packet).frame).damage == ""


@pytest.mark.parametrize("kind", ["[write]", "{a: nak}", "[[]]", "null", "true", "7"])
def test_a_kind_that_is_no_word_is_refused_like_any_other(kind: str) -> None:
    """It is looked at before the other fields are, for the defaults of a CNP."""
    with pytest.raises(InvalidInput, match=r"^x.yaml:1: (packets\[0\]\.)?kind: "):
        load_packets(f"packets: [{{kind: {kind}}}]", "x.yaml")


@settings(max_examples=300)
@given(st.text(alphabet=st.sampled_from("kind:packets{}[],- \n\"'0x1=wrteackpf&*!"), max_size=60))
def test_any_text_is_crafted_or_refused(text: str) -> None:
    with suppress(InvalidInput):
        load_packets(text, "any.yaml")
