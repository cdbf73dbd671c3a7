"""What filters mean, and how wrong ones are answered."""

import contextlib
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import UsageError
from lab.wire.filter.expression import All, Any, Field, Host, Not, Side, Within
from lab.wire.filter.parse import MAX_DEPTH, MAX_TEXT, parse

QPN = Within(Field.QPN, ((17, 17),))
CE = Within(Field.ECN, ((3, 3),))
CNP = Within(Field.OPCODE, ((0x81, 0x81),))


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("qpn==0x11", QPN),
        (" QPN == 17 ", QPN),
        ("psn in 100..200", Within(Field.PSN, ((100, 200),))),
        ("psn in 16777210..5", Within(Field.PSN, ((0, 5), (16777210, 16777215)))),
        ("vni!=10", Within(Field.VNI, ((0, 9), (11, 2**24 - 1)))),
        ("dscp<1", Within(Field.DSCP, ((0, 0),))),
        ("dscp<0", Within(Field.DSCP, ())),
        ("dscp>=62", Within(Field.DSCP, ((62, 63),))),
        ("opcode==rc_rdma_write_only", Within(Field.OPCODE, ((0x0A, 0x0A),))),
        ("opcode==RC-RDMA-READ-REQUEST", Within(Field.OPCODE, ((0x0C, 0x0C),))),
        ("opcode==write", Within(Field.OPCODE, ((0x06, 0x0B), (0x26, 0x2B), (0x46, 0x4B), (0xA6, 0xAB)))),
        ("opcode==atomic", Within(Field.OPCODE, ((0x12, 0x14), (0x1D, 0x1D), (0x52, 0x54), (0xB2, 0xB4)))),
        ("opcode==flush", Within(Field.OPCODE, ((0x1C, 0x1C),))),
        ("opcode!=cnp", Within(Field.OPCODE, ((0, 0x80), (0x82, 255)))),
        ("opcode==0x0a", Within(Field.OPCODE, ((0x0A, 0x0A),))),
        ("host 10.0.0.1", Host(Side.ANY, (ip_address("10.0.0.1"),))),
        ("src fd00::1", Host(Side.SOURCE, (ip_address("fd00::1"),))),
        ("dst ::1", Host(Side.DESTINATION, (ip_address("::1"),))),
        ("host h1", Host(Side.ANY, (ip_address("10.9.9.9"),))),
        ("qpn==17 or ce and cnp", Any((QPN, All((CE, CNP))))),
        ("(qpn==17||ce)&&!cnp", All((Any((QPN, CE)), Not(CNP)))),
        ("not not ce", Not(Not(CE))),
    ],
)
def test_a_filter_means(text: str, meaning: object) -> None:
    assert parse(text, lambda name: [ip_address("10.9.9.9")] if name == "h1" else []) == meaning


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "position 1: expected 'not', '(', or one of qpn, psn, opcode, vni, dscp, host, src, dst, roce, cnp"),
        ("qpn=0x11", "position 4: '=' means nothing here"),
        ("qpn 5", "position 5: expected ==, !=, <, <=, >, >= or 'in' after qpn, found '5'"),
        ("qpn == x", "position 8: expected a number from 0 to 16777215, found 'x'"),
        ("dscp==64", "position 7: expected a number from 0 to 63, found '64'"),
        ("opcode==wrote", "position 9: expected a number from 0 to 255 or the name of an opcode, found 'wrote'"),
        ("opcode<write", "position 8: expected a number after <, found 'write'"),
        ("psn in 5", "position 9: expected '..' and the last value, found the end"),
        ("vni in 9..5", "position 11: expected 9 or more, found '5'"),
        ("host", "position 5: expected an IP address or the name of a host, found the end"),
        ("host )", "position 6: expected an IP address or the name of a host, found ')'"),
        ("(ce", "position 4: expected 'and', 'or' or ')', found the end"),
        ("ce cnp", "position 4: expected 'and', 'or' or the end, found 'cnp'"),
        ("ce and", "position 7: expected 'not', '('"),
        ("host h1", "no fabric is at hand to look up 'h1': write its IP address"),
        ("not " * (MAX_DEPTH + 1) + "ce", f"expected no more than {MAX_DEPTH} parentheses and 'not'"),
        ("(" * (MAX_DEPTH + 1) + "ce", f"expected no more than {MAX_DEPTH} parentheses and 'not'"),
        (" " * (MAX_TEXT + 1), f"a filter of {MAX_TEXT + 1} characters"),
    ],
)
def test_a_wrong_filter_is_answered_with_the_place_and_what_may_stand_there(text: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert complaint in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


WORDS = st.sampled_from(["(", ")", "not", "and", "qpn", "==", "5", "in", "..", "host", "h1", "ce"])


@given(st.text(max_size=60) | st.lists(WORDS).map(" ".join))
def test_noise_is_a_filter_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        parse(text)
