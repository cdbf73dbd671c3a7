"""Captures whose packets are not in time order: the file reorders them, and not the path."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from lab.analysis.results.analysis_exit_code import verdict
from lab.errors import ExitCode
from tests.unit.analysis import packets
from tests.unit.analysis.stories import MS, NAK, requests, swapped, timed, told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.analysis.results.analysis_facts import AnalysisFacts

_Event = tuple[int, int, bytes]
_SWAPPED = [0, 1, *(psn ^ 1 for psn in range(2, 320))]
_NAME = "10.0.0.1 to 10.0.0.2 QP 0x22 at leaf1:swp1"


def _sends(psns: Sequence[int], *, qp: int = packets.QP2, gap: int = 1000) -> list[_Event]:
    """SENDs at equal intervals on the first link."""
    return [(place * gap, 0, packets.send(psn, qp=qp)) for place, psn in enumerate(psns)]


def _queues(events: list[_Event], size: int = 8) -> list[_Event]:
    """The events as a capture card with two queues writes them: after the first block, every second one is early."""
    first, *blocks = [events[at : at + size] for at in range(0, len(events), size)]
    pairs = [blocks[at : at + 2] for at in range(0, len(blocks), 2)]
    return [*first, *(event for pair in pairs for block in reversed(pair) for event in block)]


def _levels(facts: AnalysisFacts) -> list[tuple[str, str]]:
    """The level of each finding and its text."""
    return [("unjudged" if f.unjudged else "note" if f.note else "wrong", f.what) for f in facts.findings]


def test_packets_out_of_time_order_are_not_reordered_by_the_path() -> None:
    facts = timed(*_queues(_sends(range(320))))
    flow = requests(facts)
    assert (flow.missing, flow.late, flow.displaced, flow.resent) == (152, 152, 152, 0)
    assert _levels(facts) == [("note", f"{_NAME}: 152 packets not in time order in the file, up to 15 us off")]
    assert facts.findings[0].meaning == "the path did not reorder them: `reordercap IN OUT` sorts the file"
    assert verdict(facts) is ExitCode.PASS
    assert not timed(*_sends(range(320))).findings


def test_a_shuffled_file_accuses_no_path() -> None:
    events = _sends(range(400, 900)) + [(n * 4000 + 500, 0, packets.ack(400 + 4 * n)) for n in range(125)]
    random.Random(3).shuffle(events)
    assert {level for level, _ in _levels(timed(*events))} <= {"note", "unjudged"}
    assert not [f for f in timed(*events).findings if "not in time order in the file" not in f.what]


def test_the_first_packets_may_be_late_in_the_file() -> None:
    """They fill no gap, as the flow begins with later PSNs."""
    facts = timed(*sorted(_sends(range(64)), key=lambda event: (event[0] < 8000, event[0])))
    assert _levels(facts) == [("note", f"{_NAME}: 8 packets not in time order in the file, up to 63 us off")]


def test_acknowledged_packets_out_of_time_order_were_not_sprayed() -> None:
    acked = [(400_000 + n, 0, packets.ack(n)) for n in range(8)]
    ((level, what),) = _levels(timed(*_queues(_sends(range(320))), *acked))
    assert (level, what) == ("note", f"{_NAME}: 152 packets not in time order in the file, up to 15 us off")


def test_reordered_packets_with_rising_times_are_named() -> None:
    facts = told(swapped())
    assert requests(facts).displaced == 0
    assert any("1 packet out-of-order" in finding.what for finding in facts.findings)
    facts = timed(*_sends(_SWAPPED))
    assert _levels(facts) == [("wrong", f"{_NAME}: 159 packets out-of-order")]


def test_few_packets_out_of_time_order_hide_no_reordering() -> None:
    events = _sends([*range(8), *_SWAPPED[8:]])
    events[3:5] = events[4:2:-1]
    assert requests(timed(*events)).displaced == 1
    assert _levels(timed(*events)) == [
        ("note", f"{_NAME}: 1 packet not in time order in the file, up to 1 us off"),
        ("wrong", f"{_NAME}: 156 packets out-of-order"),
    ]


def test_one_flow_out_of_time_order_hides_no_reordering_of_another() -> None:
    other = [(time, 1, frame) for time, _, frame in _sends(_SWAPPED, qp=0x33)]
    facts = timed(*_queues(_sends(range(320))), *other)
    assert [(level, what.partition(" QP ")[2][:4]) for level, what in _levels(facts)] == [
        ("note", "0x22"), ("wrong", "0x33")
    ]  # fmt: skip


def test_clocks_that_jitter_hide_no_go_back_n() -> None:
    """The file is in order, but every third time is 1 us early. A NAK, and all is sent again 100 us later."""
    frames = [*range(100), *range(101, 120), *range(100, 200)]
    events = [
        (at * 500 - 1000 * (at % 3 == 0) + 100_000 * (at > 118), 0, packets.send(p)) for at, p in enumerate(frames)
    ]
    events.insert(119, (100_000, 0, packets.ack(100, NAK)))
    facts = timed(*events)
    assert any(level == "wrong" and "1 go-back-N episode, 20 packets" in what for level, what in _levels(facts))


def test_losses_among_packets_out_of_time_order_are_not_judged() -> None:
    facts = timed(*_queues(_sends([psn for psn in range(320) if psn not in {77, 78}])))
    ((level, what),) = _levels(facts)
    assert level == "unjudged"
    assert what.startswith(f"{_NAME}: 152 packets not in time order in the file")
    assert (
        facts.findings[0].meaning == "so that losses and reordering are unknown: `reordercap IN OUT` sorts the file"
    )
    assert verdict(facts) is ExitCode.UNKNOWN


def test_naks_are_named_in_a_file_out_of_time_order() -> None:
    """In the same direction as the requests: both ends of the connection send."""
    nak = (400_000, 0, packets.ack(77, NAK, qp=packets.QP2, path=packets.THERE))
    facts = timed(*_queues(_sends(range(320))), nak)
    assert any(level == "wrong" and "1 answer said PSN Sequence Error" in what for level, what in _levels(facts))


def test_the_two_directions_may_differ_in_time() -> None:
    """Their queues have buffers of their own: the order within each direction counts."""
    events = [event for n in range(64) for event in (
        (n * 1000, 0, packets.send(n)), (n * 1000 - 700, 0, packets.ack(n)),
    )]  # fmt: skip
    facts = timed(*events)
    assert facts.backwards == 7e-7
    assert not facts.findings


def test_read_responses_out_of_time_order_are_not_missing() -> None:
    frames = packets.responses(0, 64)
    events = _queues([(MS + n * 1000, 0, frame) for n, frame in enumerate(frames)], 4)
    facts = timed((0, 0, packets.read(0, 64 * 1024)), *events)
    (flow,) = [flow for flow in facts.flows if flow.responses]
    assert flow.displaced == 28
    assert "wrong" not in {level for level, _ in _levels(facts)}
    assert any("28 packets not in time order in the file" in what for _, what in _levels(facts))
