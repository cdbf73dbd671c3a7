"""What an analysis keeps of a flow, in bytes as the allocator counts them: no clock and no load can change it."""

from __future__ import annotations

import gc
import io
import sys
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from lab.analysis.analyser import Analyser
from lab.analysis.flows.flow_sums import MAX_FLOWS
from lab.analysis.flows.routing_loops import Loops, Macs
from lab.analysis.results.lazy_sequence import LazySequence
from lab.kernel.process.process import run
from tests.bench.analyze import WEIGHED
from tests.bench.traffic import flood
from tests.patience import PATIENCE
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng, records
from tests.unit.analysis.stories import NAK, requests, told

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOST = 128
"""Bytes for a flow beside its columns, which are pages of their own: 4 MB for 32,768 of them."""


def _kept(make: Callable[[int], bytes], flows: int) -> int:
    """Bytes that an analyser holds when it has read a capture of so many flows."""
    stream = io.BytesIO(make(flows))
    tracemalloc.start()
    analyser = Analyser()
    analyser.run(stream, "flood")
    assert len(analyser.flows) == flows
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return kept


def _answered(flows: int) -> bytes:
    """Every flow has one request that was acknowledged."""
    half = range(flows // 2)
    story = [packets.send(qp, 4, qp=qp + 1) for qp in half] + [packets.ack(qp, qp=qp + 2**20) for qp in half]
    return pcapng(records(story))


@pytest.mark.parametrize("make", [pytest.param(flood, marks=pytest.mark.long), _answered])
def test_what_a_flow_takes_is_bounded_however_many_there_are(make: Callable[[int], bytes]) -> None:
    few, many = _kept(make, 4096), _kept(make, 8192)
    assert (many - few) / 4096 < MOST


@pytest.mark.long
def test_as_many_flows_as_are_told_apart_fit_into_48_mb(tmp_path: Path) -> None:
    """The whole command, all of whose flows lost packets, by the kernel's account of what was its own at most."""
    file = tmp_path / "flood.pcapng"
    file.write_bytes(flood(MAX_FLOWS))
    done = run([sys.executable, "-c", WEIGHED, "analyze", file, "--json"], check=False, timeout=PATIENCE)
    assert done.stdout.count('"qp": ') >= MAX_FLOWS
    assert int(done.stderr) * 1024 < 48_000_000


def test_a_growing_list_of_flows_would_be_seen() -> None:
    """The measure itself: a flow that is kept as an object with its name is more than is allowed."""
    tracemalloc.start()
    kept = [{"name": f"flow {number}", "counts": [number] * 200} for number in range(100)]
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken / len(kept) > MOST


def test_a_packet_that_passed_once_takes_little() -> None:
    """Of the newest packets nearly all passed once; only those that came again may have sets of their TTLs."""
    few, many = _tracked(256), _tracked(2048)
    assert (many - few) / 1792 < 512


def _tracked(packets_kept: int) -> int:
    """Bytes of so many packets that passed once."""
    tracemalloc.start()
    loops = Loops()
    for number in range(packets_kept):
        loops._pass((number, 5, 4, 1000, 1024, 1001), 10**18 + number, 64, 64, Macs(2**41 + number, 2**42 + number))
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return kept


def test_stories_beyond_the_bound_are_broken_off_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten flows with a gap each, room for four: the gaps are all counted, and of six nobody knows the end."""
    monkeypatch.setattr("lab.analysis.transport.psn_order.MAX_SEQUENCES", 4)
    monkeypatch.setattr("lab.analysis.results.capture_verdict.MAX_SEQUENCES", 4)
    facts = told([packets.send(psn, 4, qp=qp) for qp in range(100, 110) for psn in (1, 9)])
    assert [(flow.gaps, flow.missing) for flow in facts.flows] == [(1, 7)] * 10
    assert facts.broken_off == 6
    assert any("6 flows with losses beyond the limit of 4" in finding.what for finding in facts.findings)


def test_a_story_that_is_over_makes_room_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses that were mended one after the other: nothing is unknown, whatever the room."""
    monkeypatch.setattr("lab.analysis.transport.psn_order.MAX_SEQUENCES", 1)
    nak = packets.ack(2, NAK)
    story = [
        nak if psn is None else packets.send(psn, 4, qp=qp) for qp in range(100, 110) for psn in (1, 3, None, 2, 3, 4)
    ]
    facts = told(story)
    assert facts.broken_off == 0
    assert [(requests(facts, qp).resent, requests(facts, qp).missing) for qp in range(100, 110)] == [(2, 1)] * 10


def test_latencies_beyond_the_bound_are_counted_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.analysis.transport.response_times.MAX_TIMES", 2)
    story = [
        frame
        for host in range(1, 6)
        for frame in (
            packets.send(7, path=packets.Path(f"10.0.1.{host}", "10.0.0.2")),
            packets.ack(7, path=packets.Path("10.0.0.2", f"10.0.1.{host}")),
        )
    ]
    facts = told(story)
    assert sorted(flow.round_trip.count for flow in facts.flows) == [0] * 8 + [1, 1]
    assert facts.untimed == 3
    assert any("3 latencies beyond the limit of" in finding.what for finding in facts.findings)


def test_facts_that_are_made_when_asked_for_are_a_sequence() -> None:
    squares = LazySequence(lambda number: number * number, 4)
    assert list(squares) == [0, 1, 4, 9]
    assert (squares[-1], squares[1:3], len(squares)) == (9, (1, 4), 4)
    assert squares == [0, 1, 4, 9]
    assert squares != [0, 1, 4]
    with pytest.raises(IndexError):
        squares[4]
