"""How several verdicts come out together."""

import pytest

from lab.scenario.verdict import Outcome, expect, unknown, worst


@pytest.mark.parametrize(
    ("outcomes", "together"),
    [
        ([Outcome.PASS, Outcome.PASS], Outcome.PASS),
        ([Outcome.PASS, Outcome.UNKNOWN], Outcome.UNKNOWN),
        ([Outcome.UNKNOWN, Outcome.FAIL, Outcome.PASS], Outcome.FAIL),
        ([], Outcome.UNKNOWN),
    ],
)
def test_the_worst_counts_and_nothing_is_not_a_pass(outcomes: list[Outcome], together: Outcome) -> None:
    assert worst(outcomes) is together


def test_a_verdict_has_its_evidence() -> None:
    assert (expect(True, "3 of 3").outcome, expect(False, "2 of 3").outcome) == (Outcome.PASS, Outcome.FAIL)
    assert unknown("nobody looked") == type(unknown(""))(Outcome.UNKNOWN, "nobody looked")
