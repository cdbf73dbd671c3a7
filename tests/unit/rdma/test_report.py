"""perftest's output is read from recordings of the real thing, whole and damaged; nothing is ever made up."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.rdma.measure import percentile
from lab.rdma.perftest_report import NoMessage, parse_bandwidth, parse_cycles, parse_mtu, parse_qps, read_fields

DATA = Path(__file__).parent / "data"
MIB = 2**20


def recorded(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


WRITE_JSON, WRITE_TEXT = recorded("write-25.01.json"), recorded("write-25.01.txt")


@pytest.mark.parametrize(
    ("name", "size", "messages", "mib_per_second"),
    [("write-25.01", 65536, 4383, 136.94), ("write-4.5", 65536, 200, 105.73)],
)
@pytest.mark.parametrize("source", ["json", "table"])
def test_both_sources_of_both_versions_say_the_same(
    name: str, size: int, messages: int, mib_per_second: float, source: str
) -> None:
    text = recorded(f"{name}.json") if source == "json" else ""
    report = parse_bandwidth(text, recorded(f"{name}.txt") if source == "table" else "", size)
    assert (report.size, report.messages, report.mtu) == (size, messages, 4096)
    assert report.seconds == pytest.approx(messages * size / (mib_per_second * MIB))


def test_small_messages_are_measured_by_the_message_rate_which_is_rounded_less() -> None:
    report = parse_bandwidth(recorded("send-25.01.json"), "", 4096)
    assert report.seconds == pytest.approx(2000 / 0.013288e6)


def test_measured_for_four_seconds_with_margins_of_one_it_lasted_two() -> None:
    assert parse_bandwidth(WRITE_JSON, "", 65536).seconds == pytest.approx(2.0, rel=1e-3)


def test_valid_json_is_read_as_json() -> None:
    loaded = json.loads(WRITE_JSON)
    flat = {key: str(value) for part in loaded.values() for key, value in part.items()}
    read = read_fields(WRITE_JSON)
    assert read.keys() == flat.keys()
    assert all(read[key] == value or float(read[key]) == float(value) for key, value in flat.items())


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace(",\n", "\n"),
        lambda text: text.replace("\n}", ",\n}"),
        lambda text: text.replace('"', ""),
        lambda text: text.replace('"BW_peak": 0.00', '"BW_peak": nan'),
        lambda text: text + text,
        lambda text: "some warning: yes\n" + text,
        lambda text: text.replace("\n", " "),
    ],
    ids=["no commas", "trailing commas", "no quotes", "nan", "twice", "noise", "one line"],
)
def test_json_that_is_none_is_read_all_the_same(damage: object) -> None:
    assert callable(damage)
    assert parse_bandwidth(damage(WRITE_JSON), "", 65536) == parse_bandwidth(WRITE_JSON, "", 65536)


@given(cut=st.integers(0, len(WRITE_JSON)))
def test_a_report_cut_short_is_read_right_or_not_at_all(cut: int) -> None:
    whole = parse_bandwidth(WRITE_JSON, "", 65536)
    try:
        assert parse_bandwidth(WRITE_JSON[:cut], "", 65536) == whole
    except ValueError:
        assert parse_bandwidth(WRITE_JSON[:cut], WRITE_TEXT, 65536) == whole


@given(cut=st.integers(0, len(WRITE_TEXT)))
def test_a_table_cut_short_is_read_right_or_not_at_all(cut: int) -> None:
    try:
        assert parse_bandwidth("", WRITE_TEXT[:cut], 65536).messages == 4383
    except ValueError:
        assert cut <= WRITE_TEXT.rindex("\n-")


@given(noise=st.text(max_size=300))
def test_noise_is_refused(noise: str) -> None:
    with pytest.raises(ValueError, match="in its JSON"):
        parse_bandwidth(noise, noise, 65536)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"BW_average": 136.94', '"BW_average": nan', "nan for a number"),
        ('"BW_average": 136.94', '"BW_average": 1.37', "contradicting figures"),
        ('"n_iterations": 4383', '"n_iterations": 0', "no message"),
        ('"MsgSize": 65536', '"MsgSize": 4096', "message size 4096"),
        ('"Mtu": 4096', '"Mtu": big', "invalid literal"),
        ('"MsgRate": 0.002191', '"MsgRate": 0.002191,\n"MsgRate": 0.9', "no MsgRate"),
    ],
)
def test_what_cannot_be_is_refused(old: str, new: str, why: str) -> None:
    assert old in WRITE_JSON
    with pytest.raises(ValueError, match=why):
        parse_bandwidth(WRITE_JSON.replace(old, new), "", 65536)


def test_the_zero_that_perftest_reports_for_a_killed_server_is_no_measurement() -> None:
    with pytest.raises(NoMessage, match="no message in its JSON, no message in its table"):
        parse_bandwidth(recorded("killed-server-25.01.json"), recorded("killed-server-25.01.txt"), 65536)


def test_a_clock_that_ran_backwards_is_told_from_no_messages() -> None:
    text = WRITE_JSON.replace("136.94", "0.00").replace("0.002191", "0.000000")
    report = parse_bandwidth(text, "", 65536)
    assert (report.messages, report.seconds) == (4383, math.inf)


@pytest.mark.parametrize(
    ("name", "iterations"), [("write-lat-25.01", 50), ("read-lat-25.01", 20), ("write-lat-4.5", 20)]
)
def test_samples_agree_with_perftests_own_table_where_that_is_right(name: str, iterations: int) -> None:
    text = recorded(f"{name}.txt")
    samples = sorted(parse_cycles(text, iterations))
    row = text.rstrip("-\n").splitlines()[-1].split()
    minimum, second_largest, typical, average = map(float, row[2:6])
    assert len(samples) == iterations - 1
    # Samples are printed with six digits.
    assert samples[0] == pytest.approx(minimum, rel=1e-5)
    # It drops the two largest samples before all else, and then calls the larger of those the maximum.
    assert samples[-2] == pytest.approx(second_largest, rel=1e-5)
    assert samples[-1] > second_largest * 1.01
    assert statistics.fmean(samples[:-2]) == pytest.approx(average, rel=1e-5)
    assert statistics.median(samples[:-2]) == pytest.approx(typical, rel=1e-5)
    assert percentile(samples[:-2], 50) == pytest.approx(typical, rel=0.05)


def test_missing_repeated_or_unreadable_samples_are_refused() -> None:
    text = recorded("read-lat-25.01.txt")
    for damaged in (text.replace("7, 301990\n", ""), text + "1, 3.0\n", text.replace("301990", "301990 cycles")):
        with pytest.raises(ValueError, match="samples instead of 19"):
            parse_cycles(damaged, 20)
    for value in ("nan", "inf", "-5.0"):
        with pytest.raises(ValueError, match=f"{value} for a number"):
            parse_cycles(text.replace("301990", value), 20)


def test_microseconds_are_not_taken_for_cycles() -> None:
    text = recorded("read-lat-25.01.txt")
    for other in (text.replace("#, cycles", "#, usec"), ""):
        with pytest.raises(ValueError, match="no samples in cycles"):
            parse_cycles(other, 20)


def test_no_message_in_one_source_and_damage_in_the_other_is_damage() -> None:
    with pytest.raises(ValueError, match="no message in its JSON, no one row") as refused:
        parse_bandwidth(recorded("killed-server-25.01.json"), "", 65536)
    assert not isinstance(refused.value, NoMessage)


def test_the_qps_of_both_sides_are_read() -> None:
    assert parse_qps(recorded("write-25.01.txt")) == ([0x11, 0x12], [0x11, 0x12])
    assert parse_qps(
        " local address: LID 0000 QPN 0x001a PSN 0x1\n remote address: LID 0000 QPN 0x01ff PSN 0x2\n"
    ) == (
        [26],
        [511],
    )
    assert parse_qps("Couldn't connect") == ([], [])


def test_the_path_mtu_is_read_once() -> None:
    assert parse_mtu(WRITE_TEXT) == 4096
    with pytest.raises(ValueError, match="no path MTU"):
        parse_mtu("Mtu unknown")
