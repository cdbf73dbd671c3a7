"""The qdisc of a NIC with limited QPs, on a simulated kernel with two CPUs: while packets wait, its timer is set."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from lab.dataplane.port_layout import SOURCE
from tests import models

if TYPE_CHECKING:
    from collections.abc import Mapping

_HERE: Final = Path(models.__path__[0]) / "port"
_FOR_CLANG: Final = (
    ("kernel.h", "#pragma clang", "#pragma of_clang"),
    ("kernel.h", "#define NULL ((void *)0)", ""),
    ("kernel.h", "#define rl_may_loop()", "#define rl_may_loop() true\n#define rl_may_loop_of_bpf()"),
)
"""What the machine's own compiler does not know."""
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
    for header in SOURCE.parent.glob("*.[ch]"):
        shutil.copy(header, folder)
    for name, before, after in (*_FOR_CLANG, *changes):
        text = (folder / name).read_text()
        assert before in text, f"{name} has no {before!r}"
        (folder / name).write_text(text.replace(before, after))
    program = folder / "qdisc"
    argv = ["gcc", "-w", "-O2", f"-I{folder}", f"-I{_HERE}", "-o", str(program), str(_HERE / "qdisc.c")]
    subprocess.run(argv, check=True, timeout=60)
    return subprocess.run([program, str(seeds), "5000"], capture_output=True, text=True, timeout=250, check=False)


@pytest.mark.parametrize("seeds", [30, pytest.param(1000, marks=pytest.mark.long)])
def test_whatever_happens_the_timer_is_set_in_time(tmp_path: Path, seeds: int) -> None:
    ended = simulate(tmp_path, seeds)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("mistake", _MUTANTS)
def test_a_mistake_is_seen(tmp_path: Path, mistake: str) -> None:
    ended = simulate(tmp_path, 300, _MUTANTS[mistake])
    assert ended.stdout.startswith(("LOST", "STUCK", "HEAP", "QUEUE", "IDLE")), ended.stdout
