"""The CPU of virtual time never waits while a call runs: every timer is met at its instruction."""

import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.vm

TICK = 0.01
"""Seconds of one unit of /proc/stat (USER_HZ)."""


def idle() -> float:
    """Seconds in which the CPU had nothing to do (proc_stat(5): idle and iowait)."""
    words = Path("/proc/stat").read_text().splitlines()[0].split()
    return (int(words[4]) + int(words[5])) * TICK


def test_nothing_is_idle_while_a_call_sleeps() -> None:
    before = idle()
    time.sleep(3)  # what is looked at
    assert idle() - before <= 2 * TICK


def test_a_timer_is_met_within_the_time_of_its_interrupt() -> None:
    """100 sleeps of 10 ms: a host that wakes the CPU is late by more than that when it is busy, every time."""
    late = []
    for _ in range(100):
        due = time.clock_gettime(time.CLOCK_MONOTONIC) + 0.01
        time.sleep(0.01)
        late.append(time.clock_gettime(time.CLOCK_MONOTONIC) - due)
    assert sorted(late)[90] < 0.0005
