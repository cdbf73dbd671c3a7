"""The qdisc of a NIC with limited QPs, on a simulated kernel with two CPUs: while packets wait, its timer is set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.models.port_model import run_on_sources

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping
    from pathlib import Path

_MUTANTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "a packet that begins to wait late": ("pace.h", "rl_wake(&port.state->wake", "(void)(&port.state->wake"),
    "a timer of a link that was down": ("queue.h", "sch->q.qlen ? state->wake : 0", "state->wake"),
    "clocks apart": ("queue.h", "#define RL_CLOCKS_APART 1000ull", "#define RL_CLOCKS_APART 0ull"),
    "a timer that fires too late": ("queue.h", "state->armed <= state->wake", "true"),
    "a packet that is due before the others": ("pace.h", "limiter->due < port->state->due", "false"),
    "a packet that passes those that wait": ("pace.h", "rl_has_packets(limiter) || limiter->due", "limiter->due"),
    "a packet that does not wait": ("pace.h", "limiter->due > port->state->looked_at", "false"),
    "an entry behind the last": ("pace.h", "rl_due_at(heap, heap->cursor)[1] = RL_NEVER", "(void)0"),
    "a busy port that says it is idle": ("schedule.h", "state->idle = 0; /* what", "/* what"),
    "an entry that is no more": ("pace.h", "*rl_due_at(heap, heap->count) = RL_NEVER", "(void)0"),
}


def simulate(folder: Path, seeds: int, *changes: tuple[str, str, str]) -> subprocess.CompletedProcess[str]:
    """Run schedules of 5,000 events on the sources with these changes."""
    return run_on_sources("qdisc", folder, (seeds, 5000), changes)


@pytest.mark.parametrize("seeds", [30, pytest.param(1000, marks=pytest.mark.long)])
def test_whatever_happens_the_timer_is_set_in_time(tmp_path: Path, seeds: int) -> None:
    ended = simulate(tmp_path, seeds)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("mistake", _MUTANTS)
def test_a_mistake_is_seen(tmp_path: Path, mistake: str) -> None:
    ended = simulate(tmp_path, 300, _MUTANTS[mistake])
    assert ended.stdout.startswith(("LOST", "STUCK", "HEAP", "QUEUE", "IDLE")), ended.stdout
