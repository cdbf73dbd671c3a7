"""The scenario rehash-on-failure, judged: each check has a recording that it passes, fails, and cannot tell of."""

from copy import deepcopy
from pathlib import Path

import pytest

from lab.scenario.judge import judge
from lab.scenario.probes.ecmp import moved
from tests.unit.scenario.played import Act, Acts, Printed, failing, outcomes, play, spoilt

NAME = "rehash-on-failure"
FLOWS = 1024


def surveyed(*regions: tuple[str, int]) -> Printed:
    """What ip(8) answers, of flows that are so many by each interface, in the order of their hashes."""
    ways = [way for way, many in regions for _ in range(many)]
    assert len(ways) == FLOWS
    answers = [f"10.0.0.5 from 10.0.0.1 via inet6 fe80::1 dev {way} \n    cache iif swp5 \n" for way in ways]
    return "leaf1", "ip -batch -", "".join(answers), 0


FOUR = surveyed(("swp1", 256), ("swp2", 256), ("swp3", 256), ("swp4", 256))
REGIONS = surveyed(("swp2", 341), ("swp3", 342), ("swp4", 341))
"""The hash divided anew (RFC 2992): a quarter had to, and 85 + 171 did not."""
MODULO = surveyed(("swp2", 256), ("swp3", 85), ("swp4", 85), ("swp2", 86), ("swp3", 256), ("swp4", 85), ("swp2", 171))
BUCKETS = surveyed(("swp2", 86), ("swp3", 85), ("swp4", 85), ("swp2", 256), ("swp3", 256), ("swp4", 256))
ONE_MORE = surveyed(("swp2", 86), ("swp3", 85), ("swp4", 85), ("swp2", 255), ("swp3", 257), ("swp4", 256))
NONE = {"leaf1:swp1": {"tx_packets": 0}, "h3": {"out_of_seq_request": 0}}
LATE = {"h3": {"out_of_seq_request": 7}}
GOOD: Acts = {
    "baseline": Act(NONE, [FOUR]),
    "observe": Act(LATE, [REGIONS]),
    "fix": Act(LATE),
    "resilient": Act(NONE, [FOUR]),
    "verify": Act(NONE, [BUCKETS]),
}


def test_a_good_run_passes(tmp_path: Path) -> None:
    assert set(outcomes(play(tmp_path, NAME, GOOD)).values()) == {"pass"}


@pytest.mark.parametrize(
    ("phase", "thing", "counter", "wrong"),
    [
        ("baseline", "leaf1:swp1", "tx_packets", "unrelated-flows-retransmit"),
        ("baseline", "h3", "out_of_seq_request", "unrelated-flows-retransmit"),
        ("resilient", "leaf1:swp1", "tx_packets", "nothing-is-out-of-sequence"),
        ("verify", "h3", "out_of_seq_request", "nothing-is-out-of-sequence"),
    ],
)
def test_a_packet_too_many_fails_a_check(phase: str, thing: str, counter: str, wrong: str, tmp_path: Path) -> None:
    assert failing(tmp_path, NAME, spoilt(GOOD, (phase, thing, counter, 1))) == [wrong]


def test_without_any_out_of_sequence_nothing_was_sent_again(tmp_path: Path) -> None:
    quiet = spoilt(GOOD, ("observe", "h3", "out_of_seq_request", 0))
    assert failing(tmp_path, NAME, quiet) == ["unrelated-flows-retransmit"]


@pytest.mark.parametrize(
    ("phase", "printed", "wrong"),
    [
        ("observe", MODULO, "half-of-all-flows-move"),
        ("observe", BUCKETS, "half-of-all-flows-move"),
        ("verify", REGIONS, "only-affected-flows-move"),
        ("verify", ONE_MORE, "only-affected-flows-move"),
        ("verify", FOUR, "only-affected-flows-move"),
    ],
)
def test_other_shares_than_those_of_theory_fail(phase: str, printed: Printed, wrong: str, tmp_path: Path) -> None:
    acts = deepcopy(GOOD)
    acts[phase].ran = [printed]
    assert failing(tmp_path, NAME, acts) == [wrong]


@pytest.mark.parametrize(
    ("phase", "wanting"),
    [
        ("baseline", {"half-of-all-flows-move"}),
        ("observe", {"half-of-all-flows-move"}),
        ("resilient", {"only-affected-flows-move"}),
        ("verify", {"only-affected-flows-move"}),
    ],
)
def test_a_phase_in_which_nobody_asked_the_kernel_is_unknown(phase: str, wanting: set[str], tmp_path: Path) -> None:
    acts = deepcopy(GOOD)
    acts[phase].ran = []
    found = outcomes(play(tmp_path, NAME, acts))
    assert {name for name, outcome in found.items() if outcome == "unknown"} == wanting
    assert {outcome for name, outcome in found.items() if name not in wanting} == {"pass"}


def test_a_run_that_was_killed_tells_nothing(tmp_path: Path) -> None:
    found = judge(play(tmp_path, NAME, GOOD).killed()).verdicts
    assert {verdict.outcome.value for verdict in found.values()} == {"unknown"}


def test_flows_that_take_another_way_have_moved_and_those_without_one_too() -> None:
    assert moved({1: "swp1", 2: "swp2", 3: "swp3"}, {1: "swp2", 2: "swp2"}) == {1, 3}
