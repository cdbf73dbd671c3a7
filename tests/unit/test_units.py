"""Units as people write them, against values worked out by hand and the clause on pause quanta."""

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.units import (
    counted,
    exact_rate,
    exact_time,
    format_rate,
    format_size,
    format_time,
    parse_rate,
    parse_size,
    parse_time,
    quanta_to_seconds,
    seconds_to_quanta,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1500", 1500),
        ("9000B", 9000),
        ("400KB", 400_000),
        ("400kb", 400_000),
        ("64KiB", 65_536),
        ("1.5MiB", 1_572_864),
        (" 2 GB ", 2 * 10**9),
        ("1TB", 10**12),
        ("0.001KB", 1),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("1000", 1000),
        ("100Mbit", 10**8),
        ("10Gb/s", 10**10),
        ("25Gb/s", 25 * 10**9),
        ("2.5Gbit/s", 25 * 10**8),
        ("64 kbit", 64_000),
        ("400 gbit", 4 * 10**11),
    ],
)
def test_rates(text: str, rate: int) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5us", 5e-6), ("300ms", 0.3), ("2s", 2.0), ("2", 2.0), ("10ns", 1e-8), ("1.5m", 90.0), ("1h", 3600)],
)
def test_times(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "fast", "-1KB", "1KB2", "1,5KB", "1e3", "0x10", "KB", "1 K B", "1Kbit", "²KB", "1.KB"]
)
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{text!r} is not a size; write it like 64KiB, 400KB or 9000")):
        parse_size(text)


@pytest.mark.parametrize("text", ["", "100MB", "10Gbitt", "-1Gbit", "1Gib", "10 Gb /s"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(ValueError, match="is not a rate; write it like 100Mbit or 10Gbit"):
        parse_rate(text)


@pytest.mark.parametrize("text", ["", "soon", "-1s", "1 minute", "5µs"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time; write it like 5us, 300ms or 2s"):
        parse_time(text)


def test_parts_of_a_byte_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'0\.5' is not a whole number of bytes"):
        parse_size("0.5")
    with pytest.raises(ValueError, match="not a whole number of bits per second"):
        parse_rate("0.0001kbit")


@given(st.text())
def test_parsing_any_text_gives_a_value_or_a_value_error(text: str) -> None:
    for parse in (parse_size, parse_rate, parse_time):
        try:
            assert parse(text) >= 0
        except ValueError as error:
            assert "write it like" in str(error) or "whole number" in str(error)  # noqa: PT017 - either is right


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (97_300_000, "97.3 Mb/s"),
        (10**9, "1 Gb/s"),
        (0, "0 b/s"),
        (999, "999 b/s"),
        (1.25e12, "1.25 Tb/s"),
        (5e3, "5 kb/s"),
    ],
)
def test_rates_are_shown(value: float, text: str) -> None:
    assert format_rate(value) == text


def test_sizes_and_times_are_shown() -> None:
    assert [format_size(value) for value in (0, 999, 65_540, 2e9)] == ["0 B", "999 B", "65.54 KB", "2 GB"]
    assert [format_time(value) for value in (0, 8.2e-6, 0.3, 90, 5e-9)] == [
        "0 ns",
        "8.2 us",
        "300 ms",
        "90 s",
        "5 ns",
    ]


@given(st.integers(0, 10**13))
def test_what_is_shown_can_be_read_back_to_four_digits(rate: int) -> None:
    assert abs(parse_rate(format_rate(rate)) - rate) <= rate * 5.1e-4


def test_one_quantum_is_512_bit_times() -> None:
    """IEEE 802.3 clause 31B.2: 65535 quanta are 3.355 ms at 10 Gb/s and 335.5 ms at 100 Mb/s."""
    assert quanta_to_seconds(1, 512) == 1.0
    assert quanta_to_seconds(65_535, 10**10) == pytest.approx(3.355392e-3)
    assert quanta_to_seconds(65_535, 10**8) == pytest.approx(0.3355392)


@given(st.integers(0, 65_535), st.integers(10**6, 10**11))
def test_quanta_cover_the_time_asked_for(quanta: int, rate: int) -> None:
    seconds = quanta_to_seconds(quanta, rate)
    covered = seconds_to_quanta(seconds, rate)
    assert Fraction(covered * 512, rate) >= Fraction(seconds)
    assert abs(covered - quanta) <= 1


def test_a_part_of_a_quantum_is_rounded_up() -> None:
    assert seconds_to_quanta(513 / 10**9, 10**9) == 2
    assert seconds_to_quanta(0.0, 10**9) == 0


@pytest.mark.parametrize(("text", "instead"), [("100Mbps", "100Mbit"), ("25 gbps", "25 gbit"), ("64BPS", "64bit")])
def test_a_unit_that_tc_reads_as_bytes_is_refused(text: str, instead: str) -> None:
    """tc(8): "bps: Bytes per second"."""
    with pytest.raises(ValueError, match=f"{text!r} can mean bits, or bytes as in tc; write {instead}"):
        parse_rate(text)


def test_one_is_singular_and_nothing_else() -> None:
    assert [counted(number, "packet") for number in (0, 1, 2)] == ["0 packets", "1 packet", "2 packets"]
    assert [counted(number, "latency", "latencies") for number in (1, 3)] == ["1 latency", "3 latencies"]


@given(st.integers(1, 25 * 10**9))
def test_exact_rates_are_read_back(rate: int) -> None:
    assert parse_rate(exact_rate(rate)) == rate


@given(st.floats(1e-9, 60))
def test_exact_times_are_read_back(seconds: float) -> None:
    assert parse_time(exact_time(seconds)) == seconds


def test_exact_values_are_short_where_they_can_be() -> None:
    assert [exact_rate(rate) for rate in (10**9, 25 * 10**8, 64_000, 1)] == ["1Gbit", "2500Mbit", "64kbit", "1bit"]
    assert [exact_time(each) for each in (0.0, 0.3, 5e-6, 2.5e-6, 60.0)] == ["0s", "300ms", "5us", "2500ns", "60s"]
