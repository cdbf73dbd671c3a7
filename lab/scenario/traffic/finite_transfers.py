"""Finite transfers: a number of messages, whose completion times are recorded."""

from __future__ import annotations

from dataclasses import asdict
from itertools import accumulate
from typing import TYPE_CHECKING

from lab.model.hosts import parse_pair
from lab.rdma.completion import complete, complete_each
from lab.rdma.measure import BandwidthTest, Verb
from lab.rdma.nic_choice import find_pair
from lab.telemetry.read.transfers import Transfer
from lab.telemetry.store.recording_folder import RecordKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.rdma.completion import Completion
    from lab.scenario.stage import Stage
    from lab.telemetry.read.recording import Recording


def transfer(
    stage: Stage, *pairs: str, messages: int, size: int = 65536, qps: int = 1, verb: Verb = Verb.WRITE
) -> None:
    """Transfer ``messages`` messages of ``size`` bytes on each QP of pairs like ``h1:h4``, all pairs at once.

    Returns when all are complete. The time of each pair is in ``Recording.transfers``.
    """
    test = BandwidthTest(verb=verb, size=size, qps=qps, duration=None, iterations=messages)
    stage.recorder.note("transfer", pairs=list(pairs), messages=messages, size=size, qps=qps, verb=verb.value)
    found = [find_pair(stage.fabric, *parse_pair(pair)) for pair in pairs]
    _keep(stage, verb, size, qps, complete(found, test))


def fetch(stage: Stage, *pairs: str, messages: int, size: int = 65536) -> None:
    """Let ``h1`` of a pair ``h1:h4`` read messages from ``h4`` one after the other, all pairs at once.

    Returns when all are complete. Each message is timed, from its request to its last octet. One more message is read
    than is timed.
    """
    stage.recorder.note("fetch", pairs=list(pairs), messages=messages, size=size)
    found = [find_pair(stage.fabric, *parse_pair(pair)) for pair in pairs]
    _keep(stage, Verb.READ, size, 1, complete_each(found, size, messages))


def message_seconds(rec: Recording, phase: str, span: tuple[int, int] | None = None) -> list[float]:
    """Return the seconds of each timed message of a phase; with ``span``, of those within these times in ns."""
    found = []
    for each in rec.transfers(phase):
        ends = [each.ns + round(seconds * 1e9) for seconds in accumulate(each.times, initial=0.0)]
        for seconds, since, until in zip(each.times, ends, ends[1:], strict=False):
            if span is None or (span[0] <= since and until <= span[1]):
                found.append(seconds)
    return found


def _keep(stage: Stage, verb: Verb, size: int, qps: int, completions: Iterable[Completion]) -> None:
    for each in sorted(completions, key=lambda one: one.began + one.seconds):
        finished = Transfer(
            ns=round(each.began * 1e9),
            src=str(each.pair.src),
            dst=str(each.pair.dst),
            verb=verb.value,
            size=size,
            qps=qps,
            messages=each.messages,
            seconds=each.seconds,
            times=each.times,
        )
        stage.recorder.record(RecordKind.TRANSFER, **asdict(finished))
