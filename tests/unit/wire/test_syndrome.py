import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.wire.syndrome import AckKind, NakCode, Syndrome


@pytest.mark.parametrize(
    ("octet", "text"),
    [
        (0x00, "ACK, 0 credits"),
        (0x05, "ACK, 6 credits"),
        (0x1E, "ACK, 32768 credits"),
        (0x1F, "ACK"),
        (0x20, "RNR NAK, wait 655.4 ms"),
        (0x21, "RNR NAK, wait 10 us"),
        (0x2E, "RNR NAK, wait 1.28 ms"),
        (0x3F, "RNR NAK, wait 491.5 ms"),
        (0x45, "reserved syndrome 0x45"),
        (0x60, "NAK, PSN Sequence Error"),
        (0x61, "NAK, Invalid Request"),
        (0x62, "NAK, Remote Access Error"),
        (0x63, "NAK, Remote Operational Error"),
        (0x64, "NAK, Invalid RD Request"),
        (0x65, "reserved syndrome 0x65"),
    ],
)
def test_says_what_the_tables_of_the_specification_say(octet: int, text: str) -> None:
    assert str(Syndrome.decode(octet)) == text


@given(st.integers(0, 0x7F))
def test_round_trip(octet: int) -> None:
    assert Syndrome.decode(octet).octet == octet


def test_reserved_top_bit_is_ignored() -> None:
    assert Syndrome.decode(0xE0) == Syndrome(AckKind.NAK, NakCode.PSN_SEQUENCE_ERROR)


def test_only_rnr_naks_have_a_wait() -> None:
    with pytest.raises(ValueError, match="ACK carries no RNR timer"):
        _ = Syndrome.decode(0x1F).rnr_wait
