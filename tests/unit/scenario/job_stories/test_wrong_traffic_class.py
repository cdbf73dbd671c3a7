"""A wrong traffic class: each check has a recording that it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from scenarios.wrong_traffic_class import BOTTLENECK, HOSTS, NICS
from tests.unit.scenario.tale import Growth, Ranks, Tale, each, failing, outcomes, together

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = "wrong-traffic-class"
DROPS: Final = f"{BOTTLENECK} queue0_drop_shared_packets"


def sent(priority: int, other: int) -> Growth:
    """What NICs send in a priority, and a few packets in the other one."""
    return together(each(NICS, f"tx_prio{priority}_packets", 1800), each(NICS, f"tx_prio{other}_packets", 30))


LOSSLESS: Final = together(sent(3, 0), each(NICS, "rx_prio3_pause", 40))
COUNTED: Final[Tale] = {"baseline": LOSSLESS, "observe": together(sent(0, 3), {DROPS: 1500}), "verify": LOSSLESS}


def steps(*transfers: float) -> list[Ranks]:
    return [dict.fromkeys(HOSTS, (200.0, transfer)) for transfer in transfers]


JOBS: Final = {"baseline": steps(310, 311, 309), "observe": steps(2490, 1390, 2430), "verify": steps(312, 310, 311)}


def test_a_good_one_passes(tmp_path: Path) -> None:
    found = outcomes(tmp_path, NAME, COUNTED, 9.0, jobs=JOBS)
    assert set(found.values()) == {"pass"}, found


@pytest.mark.parametrize(
    ("phase", "transfers", "wrong"),
    [
        ("baseline", (340, 340, 340), {"a-step-takes-what-its-bytes-take", "the-job-recovers"}),
        ("baseline", (270, 270, 270), {"a-step-takes-what-its-bytes-take", "the-job-recovers"}),
        ("observe", (2490, 310, 2430), {"a-step-is-longer-by-ack-timeouts"}),
        ("observe", (2490, 1600, 2430), {"a-step-is-longer-by-ack-timeouts"}),
        ("observe", (310, 310, 310), {"a-step-is-longer-by-ack-timeouts"}),
        ("verify", (340, 340, 340), {"the-job-recovers"}),
    ],
)
def test_each_time_can_fail(phase: str, transfers: tuple[float, ...], wrong: set[str], tmp_path: Path) -> None:
    jobs = {**JOBS, phase: steps(*transfers)}
    assert failing(tmp_path, NAME, COUNTED, {}, seconds=9.0, jobs=jobs) == wrong


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"observe": sent(3, 0)}, "the-job-is-in-another-class"),
        ({"verify": sent(0, 3)}, "the-job-is-in-another-class"),
        ({"observe": {DROPS: 0}}, "only-then-packets-are-dropped"),
        ({"verify": {DROPS: 1}}, "only-then-packets-are-dropped"),
        ({"baseline": {"leaf1:swp6 queue3_drop_headroom_packets": 1}}, "only-then-packets-are-dropped"),
        ({"observe": {"h2:eth1 rx_prio3_pause": 1}}, "only-then-packets-are-dropped"),
        ({"verify": each(NICS, "rx_prio3_pause", 0)}, "only-then-packets-are-dropped"),
    ],
)
def test_each_counter_can_fail(changes: Tale, wrong: str, tmp_path: Path) -> None:
    assert failing(tmp_path, NAME, COUNTED, changes, seconds=9.0, jobs=JOBS) == {wrong}


def test_without_a_job_its_figures_are_unknown(tmp_path: Path) -> None:
    found: dict[str, Any] = outcomes(tmp_path, NAME, COUNTED, 9.0)
    known = {"the-job-is-in-another-class", "only-then-packets-are-dropped", "no-link-or-session-changes"}
    assert {name for name, outcome in found.items() if outcome != "unknown"} == known
