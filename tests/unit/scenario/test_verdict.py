"""How several verdicts come out together."""

import pytest

from lab.scenario.verdict import VerdictOutcome, expect, in_words, unknown, worst


@pytest.mark.parametrize(
    ("outcomes", "together"),
    [
        ([VerdictOutcome.PASS, VerdictOutcome.PASS], VerdictOutcome.PASS),
        ([VerdictOutcome.PASS, VerdictOutcome.UNKNOWN], VerdictOutcome.UNKNOWN),
        ([VerdictOutcome.UNKNOWN, VerdictOutcome.FAIL, VerdictOutcome.PASS], VerdictOutcome.FAIL),
        ([], VerdictOutcome.UNKNOWN),
    ],
)
def test_the_worst_counts_and_nothing_is_not_a_pass(outcomes: list[VerdictOutcome], together: VerdictOutcome) -> None:
    assert worst(outcomes) is together


def test_a_verdict_has_its_evidence() -> None:
    assert (expect(True, "3 of 3").outcome, expect(False, "2 of 3").outcome) == (
        VerdictOutcome.PASS,
        VerdictOutcome.FAIL,
    )
    assert unknown("nobody looked") == type(unknown(""))(VerdictOutcome.UNKNOWN, "nobody looked")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (True, "yes"),
        ([True, False], "yes, no"),
        ([0, 1, 0], "0, 1, 0"),
        ({"b", "a"}, "a, b"),
        ([], "none"),
        ({"swp1": 1500}, "swp1 1500"),
        ([[True, True], [True, False]], "yes, yes; yes, no"),
        ({"baseline": {}, "observe": {"leaf2:swp1": 7}}, "baseline none; observe leaf2:swp1 7"),
        ("h1", "h1"),
        (1.5, "1.5"),
    ],
)
def test_evidence_has_words_where_python_has_brackets(value: object, told: str) -> None:
    assert in_words(value) == told
