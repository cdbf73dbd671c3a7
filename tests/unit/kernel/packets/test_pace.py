"""Paces as people write them, and when packets are due by them."""

import pytest

from lab.kernel.packets.pace import SLACK, Pace, Schedule


@pytest.mark.parametrize(
    ("text", "pace"),
    [
        ("1000", Pace(1000)),
        ("1000pps", Pace(1000)),
        (" 50 PPS ", Pace(50)),
        ("10Mbit", Pace(10_000_000, counts_bits=True)),
        ("2.5Gb/s", Pace(2_500_000_000, counts_bits=True)),
    ],
)
def test_reads_packets_and_bits_per_second(text: str, pace: Pace) -> None:
    assert Pace.parse(text) == pace


@pytest.mark.parametrize("text", ["", "pps", "0", "0Mbit", "-5", "fast", "1.5", "1.5pps", "10MB"])
def test_refuses_what_is_no_pace(text: str) -> None:
    with pytest.raises(ValueError, match=r"would never send|is not a"):
        Pace.parse(text)


def test_bits_take_time_by_their_number_and_packets_do_not() -> None:
    assert Pace(1000).takes(60) == Pace(1000).takes(9000) == 0.001
    assert Pace(1_000_000, counts_bits=True).takes(125) == 0.001


def test_a_sender_that_keeps_up_sends_at_equal_distances() -> None:
    schedule = Schedule(Pace(100), now=5.0)
    moments = []
    for _ in range(4):
        moments.append(schedule.due)
        schedule.take(100, schedule.due)
    assert moments == pytest.approx([5.00, 5.01, 5.02, 5.03])


def test_a_sender_that_was_late_makes_up_for_the_slack_and_no_more() -> None:
    schedule = Schedule(Pace(100), now=0.0)
    late, burst = 10.0, 0
    while schedule.due <= late:
        schedule.take(100, late)
        burst += 1
    assert burst == pytest.approx(SLACK * 100 + 1, abs=1)
