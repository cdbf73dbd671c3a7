"""The language of expectations: what it takes, what it refuses, and how it judges."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import UsageError
from lab.model.values.expectation import Comparison, ExpectationUnit, ExpectationVerdict, FigureValue, judge, parse


def only(text: str) -> Comparison:
    (comparison,) = parse(text)
    return comparison


def test_a_figure_of_places_is_compared_with_a_number() -> None:
    assert only(" goodput( h1, h4 )>=90Mbit ") == Comparison(
        "goodput( h1, h4 )>=90Mbit", "goodput", ("h1", "h4"), ">=", "90Mbit"
    )
    assert only("drops == 0").arguments == only("drops() == 0").arguments == ()
    assert [each.figure for each in parse("drops == 0 and marks(leaf1:swp3) > 1 and  x < 2")] == [
        "drops",
        "marks",
        "x",
    ]


@pytest.mark.parametrize(
    "text",
    ["", "drops", "== 0", "drops = 0", "drops == 0 or x == 1", "drops == (0)", "f(a b) == 1", "f(g(x)) == 1",
     "__import__('os') == 1", "drops == 0 and", "and drops == 0", "1 < drops < 2", "drops == 0; x == 1", "f(,) == 1",
     "f(a,) == 1", "drops == 0\x00"],
)  # fmt: skip
def test_anything_else_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="is no expectation: write it like drops == 0"):
        parse(text)


@given(st.text(max_size=200))
def test_no_text_breaks_it(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert parse(text)


@pytest.mark.parametrize(
    ("text", "value", "unit", "verdict", "seen"),
    [
        ("drops == 0", 0, ExpectationUnit.NUMBER, ExpectationVerdict.PASS, "0"),
        ("drops == 0", 7, ExpectationUnit.NUMBER, ExpectationVerdict.FAIL, "7"),
        ("drops != 7", 7, ExpectationUnit.NUMBER, ExpectationVerdict.FAIL, "7"),
        ("goodput >= 90Mbit", 90_000_000, ExpectationUnit.RATE, ExpectationVerdict.PASS, "90 Mb/s"),
        ("goodput > 90Mbit", 90_000_000, ExpectationUnit.RATE, ExpectationVerdict.FAIL, "90 Mb/s"),
        ("goodput <= 90Mb/s", 90_000_001, ExpectationUnit.RATE, ExpectationVerdict.FAIL, "90 Mb/s"),
        ("pg3_watermark_bytes < 64KiB", 65_535, ExpectationUnit.BYTES, ExpectationVerdict.PASS, "65.53 KB"),
        ("p99 < 1ms", 0.0009, ExpectationUnit.SECONDS, ExpectationVerdict.PASS, "900 us"),
        ("p99 < 1ms", None, ExpectationUnit.SECONDS, ExpectationVerdict.UNKNOWN, "not measured"),
    ],
)
def test_judgements(
    text: str, value: float | None, unit: ExpectationUnit, verdict: ExpectationVerdict, seen: str
) -> None:
    judgement = judge(only(text), FigureValue(value, unit, "not measured"))
    assert (judgement.verdict, judgement.seen, judgement.value) == (verdict, seen, value)


@pytest.mark.parametrize(
    ("text", "unit", "told"),
    [
        ("goodput > 90MB", ExpectationUnit.RATE, "goodput > 90MB: goodput is a rate"),
        ("goodput > 90Mbps", ExpectationUnit.RATE, "can mean bits, or bytes"),
        ("drops == 1KB", ExpectationUnit.NUMBER, "drops is a plain number: write a number in place of 1KB"),
        ("p99 < 1Mbit", ExpectationUnit.SECONDS, "p99 is a time"),
    ],
)
def test_a_unit_that_the_figure_has_not_is_refused_though_nothing_was_measured(
    text: str, unit: ExpectationUnit, told: str
) -> None:
    for value in (1.0, None):
        with pytest.raises(UsageError, match=told):
            judge(only(text), FigureValue(value, unit))


def test_a_line_break_in_an_expectation_is_a_blank_in_its_verdict() -> None:
    assert [each.text for each in parse("goodput(h1,\nh4) >=\t1")] == ["goodput(h1, h4) >= 1"]
