"""GOAL by the grammar of LogGOPSim's txt2bin: each send has its receive, and ranks send the algorithms' bytes."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

import pytest

from lab.jobs.job_spec import Collective
from lab.jobs.rank_schedule import OperationKind
from lab.jobs.schedule_arithmetic import transfers
from lab.jobs.traces.goal_text import collective_messages, goal_text
from lab.jobs.training_schedule import training_schedule
from lab.jobs.training_spec import load_training

TEXT: Final = """
ranks: 8
steps: 2
compute: 360ms
layers: 2
allreduce: 400000
tensor: {ranks: 2, allreduce: 50000}
pipeline: {ranks: 2, activations: 100000, microbatches: 2}
expert: {ranks: 2, alltoall: 80000}
storage: {host: h9, load: 60000, checkpoint: 200000, every: 2}
"""
MADE: Final = training_schedule(load_training(TEXT, "spec"), [f"h{number}" for number in range(1, 10)])
SEND: Final = re.compile(r"l(\d+): send (\d+)b to (\d+) tag (\d+)")
RECEIVE: Final = re.compile(r"l(\d+): recv (\d+)b from (\d+) tag (\d+)")
CALC: Final = re.compile(r"l(\d+): calc (\d+)")
REQUIRES: Final = re.compile(r"l(\d+) requires l(\d+)")


def parsed(text: str) -> tuple[dict[str, Counter[tuple[int, ...]]], Counter[int]]:
    """The messages by direction as (source, target, tag, bytes), and the ns that each rank computes."""
    head, *ranks = re.split(r"^rank (\d+) \{$", text, flags=re.MULTILINE)
    assert head.strip() == f"num_ranks {len(ranks) // 2}"
    ends: dict[str, Counter[tuple[int, ...]]] = {"send": Counter(), "recv": Counter()}
    computed: Counter[int] = Counter()
    for number, block in zip(map(int, ranks[::2]), ranks[1::2], strict=True):
        *lines, close = block.strip().splitlines()
        assert close == "}"
        known: set[int] = set()
        for line in lines:
            if match := SEND.fullmatch(line):
                label, size, peer, tag = map(int, match.groups())
                ends["send"][number, peer, tag, size] += 1
            elif match := RECEIVE.fullmatch(line):
                label, size, peer, tag = map(int, match.groups())
                ends["recv"][peer, number, tag, size] += 1
            elif match := CALC.fullmatch(line):
                label, ns = map(int, match.groups())
                computed[number] += ns
            else:
                match = REQUIRES.fullmatch(line)
                assert match, line
                assert {int(each) for each in match.groups()} <= known  # no cycle: labels grow
                assert int(match[1]) > int(match[2])
                continue
            assert label not in known
            known.add(label)
    return ends, computed


def test_each_send_has_its_receive_and_all_bytes_are_there() -> None:
    ends, computed = parsed(goal_text(MADE))
    assert ends["send"] == ends["recv"]
    moved = sum(count * key[3] for key, count in ends["send"].items())
    assert moved == sum(each.received for variant in MADE.measured for each in transfers(MADE.variants[variant]))
    assert all(computed[rank] == pytest.approx(2 * 360e6, rel=1e-6) for rank in range(8))
    assert computed[8] == 0


@pytest.mark.parametrize("ranks", [2, 3, 4, 7])
@pytest.mark.parametrize("kind", [kind for kind in OperationKind if kind.collective is not None])
def test_a_collective_moves_the_bytes_of_its_bus_factor(kind: OperationKind, ranks: int) -> None:
    size, ends = 4 * 840, Counter[tuple[int, int]]()
    for place in range(ranks):
        for sends in collective_messages(kind, size, ranks, place):
            for word, peer, octets in sends:
                ends[(place, peer) if word == "send" else (peer, place)] += octets if word == "send" else -octets
                assert peer != place
    assert not any(ends.values())
    sent = sum(
        octets
        for place in range(ranks)
        for sends in collective_messages(kind, size, ranks, place)
        for word, _, octets in sends
        if word == "send"
    )
    factor = {Collective.ALLREDUCE: 2 * (ranks - 1), Collective.BROADCAST: ranks - 1}
    assert kind.collective is not None
    assert sent == factor.get(kind.collective, ranks - 1) * size
