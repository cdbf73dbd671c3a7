"""Work for a fabric besides ``Stage.writing``: queues that stand still, and what programs said in a phase."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from lab.errors import UsageError
from lab.rdma.flows import flowing
from lab.rdma.measure import BandwidthTest
from lab.rdma.nic import find_pair, parse_pair

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.scenario.stage import Stage
    from lab.telemetry.recording import Command, Recording


@contextlib.contextmanager
def circulating(stage: Stage, *pairs: str, packets: int, size: int = 4096) -> Iterator[None]:
    """Keep so many ``packets`` of each pair under way meanwhile, one of each QP: the queue before them stands still.

    A QP sends its next message of ``size`` bytes, which fits in a packet, when the last one was acknowledged.
    """
    test = BandwidthTest(size=size, qps=packets, tx_depth=1)
    stage.recorder.note("traffic", pairs=list(pairs), qps=packets, size=size, tx_depth=1, tclass=test.tclass)
    with flowing([find_pair(stage.fabric, *parse_pair(pair)) for pair in pairs], test):
        yield


def commands(rec: Recording, phase: str, program: str) -> list[Command]:
    """The commands of this program that were run in a phase; UsageError when it has none, or was not."""
    within = rec.phase(phase)
    found = [
        each
        for each in rec.commands
        if each.argv[0] == program and within.start <= each.ns and each.end_ns <= within.end
    ]
    if not found:
        raise UsageError(f"{rec.name}: no {program} was run in phase {phase}", "see rocelab record show")
    return found


def said(rec: Recording, phase: str, program: str) -> str:
    """All that a program printed in a phase; UsageError as of ``commands``."""
    return "\n".join(each.stdout for each in commands(rec, phase, program))
