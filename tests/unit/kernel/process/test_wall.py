"""Times of day in the VM are those of the caller's clock, whatever the guest's own clock says."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from lab.dataplane import events
from lab.kernel.process import wall_clock

if TYPE_CHECKING:
    from pathlib import Path

NOON = 1_800_000_000.0


@pytest.fixture
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A guest 100 s after its boot, at noon; its first command took 10 virtual seconds and 300 of the host's."""
    monkeypatch.setattr(wall_clock, "PAIRS", tmp_path / "pairs")
    wall_clock.note(100, NOON)
    wall_clock.note(110, NOON + 300)
    wall_clock.note(410, NOON + 600)
    return tmp_path / "pairs"


@pytest.mark.usefixtures("pairs")
@pytest.mark.parametrize(
    ("boot", "wanted"),
    [
        (90, NOON - 10),  # before all commands: as fast as the host
        (100, NOON),
        (101, NOON + 30),  # while the command ran: a virtual second took 30
        (110, NOON + 300),
        (260, NOON + 450),  # while nothing ran
        (415, NOON + 605),  # after the last
    ],
)
def test_a_moment_lies_between_what_the_caller_said_before_and_after(boot: float, wanted: float) -> None:
    assert wall_clock.seconds_at(boot) == pytest.approx(wanted)
    assert events.clock(boot).timestamp() == pytest.approx(wanted)


def test_a_guest_that_continues_from_a_checkpoint_has_todays_time(pairs: Path) -> None:
    """Saved at 415 s; a day later a command comes at 416 s."""
    wall_clock.note(416, NOON + 86_400)
    assert wall_clock.seconds_at(420) == NOON + 86_404
    assert wall_clock.seconds_at(415) < NOON + 86_400
    assert pairs.exists()


def test_outside_the_vm_it_is_the_own_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wall_clock, "PAIRS", tmp_path / "none")
    before = time.time()
    assert before - 0.1 <= wall_clock.now() <= time.time() + 0.1
    assert wall_clock.stamp()[:2] == "20"


def test_the_file_does_not_grow_without_end(pairs: Path) -> None:
    for number in range(5000):
        wall_clock.note(1000 + number, NOON + 1000 + 2 * number)
    assert pairs.stat().st_size < 100_000
    assert wall_clock.seconds_at(5999) == NOON + 1000 + 2 * 4999
    assert wall_clock.seconds_at(5990.5) == NOON + 1000 + 2 * 4990.5


@pytest.mark.parametrize(
    ("zone", "expected"),
    [("UTC0", "<+0000>-0:00"), ("CET-1", "<+0100>-1:00"), ("EST5", "<-0500>+5:00"), ("XYZ-5:45", "<+0545>-5:45")],
)
def test_the_time_zone_is_one_that_needs_no_files(monkeypatch: pytest.MonkeyPatch, zone: str, expected: str) -> None:
    try:
        with monkeypatch.context() as changed:
            changed.setenv("TZ", zone)
            time.tzset()
            assert wall_clock.time_zone() == expected
            before = wall_clock.date_of(NOON).isoformat()
            changed.setenv("TZ", expected)
            time.tzset()
            assert wall_clock.date_of(NOON).isoformat() == before
    finally:
        time.tzset()
