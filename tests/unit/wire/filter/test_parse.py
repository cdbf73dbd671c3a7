"""What filters mean, and how wrong ones are answered."""

import contextlib
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import UsageError
from lab.wire.filter.expression import AddressSide, All, Any, FilterField, HostCondition, LinkCondition, Not, Within
from lab.wire.filter.parse import MAX_DEPTH, MAX_TEXT, parse

QPN = Within(FilterField.QPN, ((17, 17),))
CE = Within(FilterField.ECN, ((3, 3),))
CNP = Within(FilterField.OPCODE, ((0x81, 0x81),))


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("qpn==0x11", QPN),
        (" QPN == 17 ", QPN),
        ("psn in 100..200", Within(FilterField.PSN, ((100, 200),))),
        ("psn in 16777210..5", Within(FilterField.PSN, ((0, 5), (16777210, 16777215)))),
        ("vni!=10", Within(FilterField.VNI, ((0, 9), (11, 2**24 - 1)))),
        ("dscp<1", Within(FilterField.DSCP, ((0, 0),))),
        ("dscp<0", Within(FilterField.DSCP, ())),
        ("dscp>=62", Within(FilterField.DSCP, ((62, 63),))),
        ("opcode==rc_rdma_write_only", Within(FilterField.OPCODE, ((0x0A, 0x0A),))),
        ("opcode==RC-RDMA-READ-REQUEST", Within(FilterField.OPCODE, ((0x0C, 0x0C),))),
        ("opcode==write", Within(FilterField.OPCODE, ((0x06, 0x0B), (0x26, 0x2B), (0x46, 0x4B), (0xA6, 0xAB)))),
        ("opcode==atomic", Within(FilterField.OPCODE, ((0x12, 0x14), (0x1D, 0x1D), (0x52, 0x54), (0xB2, 0xB4)))),
        ("opcode==flush", Within(FilterField.OPCODE, ((0x1C, 0x1C),))),
        ("opcode!=cnp", Within(FilterField.OPCODE, ((0, 0x80), (0x82, 255)))),
        ("opcode==0x0a", Within(FilterField.OPCODE, ((0x0A, 0x0A),))),
        ("host 10.0.0.1", HostCondition(AddressSide.ANY, (ip_address("10.0.0.1"),))),
        ("src fd00::1", HostCondition(AddressSide.SOURCE, (ip_address("fd00::1"),))),
        ("dst ::1", HostCondition(AddressSide.DESTINATION, (ip_address("::1"),))),
        ("host h1", HostCondition(AddressSide.ANY, (ip_address("10.9.9.9"),))),
        ("host == h1", HostCondition(AddressSide.ANY, (ip_address("10.9.9.9"),))),
        ("src 10.0.0.0/8", HostCondition(AddressSide.SOURCE, (), (ip_network("10.0.0.0/8"),))),
        ("host != 10.0.0.1", Not(HostCondition(AddressSide.ANY, (ip_address("10.0.0.1"),)))),
        (
            "ip.addr != 10.0.0.1",
            All(
                (
                    Not(HostCondition(AddressSide.ANY, (ip_address("10.0.0.1"),))),
                    Within(FilterField.VERSION, ((4, 4),)),
                )
            ),
        ),
        ("infiniband.bth.destqp == 0x11", QPN),
        ("Infiniband.BTH.destqp==17", QPN),
        ("ttl<2", Within(FilterField.TTL, ((0, 1),))),
        ("vlan in 5..9 and pcp==3", All((Within(FilterField.VLAN, ((5, 9),)), Within(FilterField.PCP, ((3, 3),))))),
        ("sport==49153", Within(FilterField.SPORT, ((49153, 49153),))),
        ("port==53", Any((Within(FilterField.SPORT, ((53, 53),)), Within(FilterField.DPORT, ((53, 53),))))),
        ("port!=0", All((Within(FilterField.SPORT, ((1, 65535),)), Within(FilterField.DPORT, ((1, 65535),))))),
        ("port in 5..6", Any((Within(FilterField.SPORT, ((5, 6),)), Within(FilterField.DPORT, ((5, 6),))))),
        ("icrc==BAD", Within(FilterField.ICRC, ((1, 1),))),
        ("tcp", Within(FilterField.TRANSPORT, ((6, 6),))),
        ("interface == leaf1:swp1", LinkCondition("leaf1:swp1")),
        ("frame.interface_name!=Leaf1", Not(LinkCondition("Leaf1"))),
        ("conn==0x11@10.0.0.5", LinkCondition("0x11@10.0.0.5")),
        ("qpn==17 or ce and cnp", Any((QPN, All((CE, CNP))))),
        ("(qpn==17||ce)&&!cnp", All((Any((QPN, CE)), Not(CNP)))),
        ("not not ce", Not(Not(CE))),
    ],
)
def test_a_filter_means(text: str, meaning: object) -> None:
    assert parse(text, lambda name: [ip_address("10.9.9.9")] if name == "h1" else [], LinkCondition) == meaning


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "position 1: expected 'not', '(', or one of qpn, psn, opcode, vni, dscp, ecn, ttl, sport, "),
        ("qpn=0x11", "position 4: '=' means nothing here: write == to compare"),
        ("qpn 5", "position 5: expected ==, !=, <, <=, >, >= or 'in' after qpn, found '5'"),
        ("qpn == x", "position 8: expected a number from 0 to 16777215, found 'x'"),
        ("dscp==64", "position 7: expected a number from 0 to 63, found '64'"),
        ("opcode==wrote", "position 9: expected a number from 0 to 255 or the name of an opcode, found 'wrote'"),
        ("icrc==wrong", "position 7: expected a number from 0 to 2, ok, bad or unknown, found 'wrong'"),
        ("infiniband.bth.destqpn==1", "no condition 'infiniband.bth.destqpn': did you mean 'infiniband.bth.destqp'?"),
        ("vlna==1", "position 1: there is no condition 'vlna': did you mean 'vlan'?"),
        ("ce and zzzzzz", "position 8: there is no condition 'zzzzzz': there is qpn, psn, "),
        (
            "infiniband.aeth.syndrome==96",
            "no condition 'infiniband.aeth.syndrome': the conditions on responses are ack, nak and rnr",
        ),
        ("src port 4791", "position 5: src takes hosts: of ports write sport==4791 or dport==4791"),
        ("rocev2", "there is no condition 'rocev2': did you mean 'roce'?"),
        (
            "host 10.0.0.1/24",
            "position 6: expected a network like 10.0.0.0/24 (10.0.0.1/24 has host bits set), found",
        ),
        ("interface", "position 10: expected == or != after interface, found the end"),
        ("interface==(", "expected a name after interface, found '('"),
        ("conn==0x11", "conn==0x11: the two ends of a connection are known of a file only: write host A and host B"),
        ("opcode<write", "position 8: expected a number after <, found 'write'"),
        ("psn in 5", "position 9: expected '..' and the last value, found the end"),
        ("vni in 9..5", "position 11: expected 9 or more, found '5'"),
        ("host", "position 5: expected an IP address or the name of a host, found the end"),
        ("host )", "position 6: expected an IP address or the name of a host, found ')'"),
        ("(ce", "position 4: expected 'and', 'or' or ')', found the end"),
        ("ce cnp", "position 4: expected 'and', 'or' or the end, found 'cnp'"),
        ("ce and", "position 7: expected 'not', '('"),
        ("host h1", "no fabric is running to look up 'h1': write its IP address"),
        ("not " * (MAX_DEPTH + 1) + "ce", f"expected at most {MAX_DEPTH} nested parentheses and 'not'"),
        ("(" * (MAX_DEPTH + 1) + "ce", f"expected at most {MAX_DEPTH} nested parentheses and 'not'"),
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
