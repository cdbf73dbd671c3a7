"""A terminal as a file: asciicast v2 by asciinema's documentation, in the time of the recording."""

from __future__ import annotations

import io
import json

from lab.telemetry.record.recorded_shell import Cast

START = 5_000_000_000


def test_what_is_shown_comes_with_the_recordings_time_and_no_character_in_two() -> None:
    file, moments = io.StringIO(), iter([START + 250_000_000, START + 1_000_000_000])
    cast = Cast(file, START, lambda: next(moments))
    cast.header((24, 80), {"realtime_offset_ns": 1_700_000_000 * 10**9}, "a title")
    euro = "1 €".encode()
    assert cast.output(euro[:3]) == euro[:3]
    assert cast.output(euro[3:] + b"\xff\r\n") == euro[3:] + b"\xff\r\n"
    header, *events = map(json.loads, file.getvalue().splitlines())
    assert header == {"version": 2, "width": 80, "height": 24, "timestamp": 1_700_000_005, "title": "a title"}
    assert events == [[0.25, "o", "1 "], [1.0, "o", "€\ufffd\r\n"]]


def test_half_a_character_is_no_line_of_its_own_and_a_size_is_columns_first_and_before_what_is_shown_in_it() -> None:
    file = io.StringIO()
    cast = Cast(file, START, lambda: START + 10**9)
    cast.output("€".encode()[:1])
    assert file.getvalue() == ""
    cast.resized(30, 90)
    assert file.getvalue() == "", "a signal may come while a line is written"
    cast.output("€".encode()[1:])
    assert [*map(json.loads, file.getvalue().splitlines())] == [[1.0, "r", "90x30"], [1.0, "o", "€"]]
