"""Amounts over time: every one in its interval, however many there are; and as a picture."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.analysis.results.fact_builder import analyse
from lab.analysis.results.timeline import INTERVALS, MAX_ROWS, Timeline, TimelineSeries
from lab.analysis.views.plot import MOST_FLOWS, can_plot, plot
from lab.wire.pcapng import Direction, Interface, Record
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng

if TYPE_CHECKING:
    from lab.analysis.results.analysis_facts import AnalysisFacts

START = 10**18
MS = 10**6


def timeline() -> Timeline:
    made = Timeline()
    made.start = START
    return made


times = st.integers(-1000, 10**11)


@given(
    st.lists(st.tuples(st.integers(0, 3), times, st.integers(0, 9000)), min_size=1, max_size=50), st.integers(1, 50)
)
def test_every_amount_is_in_its_interval(events: list[tuple[int, int, int]], split: int) -> None:
    """The definition is a sum over intervals of the final length, however the events come in batches."""
    told = timeline()
    for part in (events[:split], events[split:]):
        rows, moments, amounts = np.array(part, np.int64).reshape(-1, 3).T
        told.add(TimelineSeries.PAYLOAD, rows, START + moments, amounts)
    for row in range(4):
        sums = [0] * INTERVALS
        for owner, time, amount in events:
            sums[max(0, time) // told.interval] += amount if owner == row else 0
        assert told.row(TimelineSeries.PAYLOAD, row).tolist() == sums
    last = max(time for _, time, _ in events)
    assert told.interval == timeline().interval or last >= told.interval // 2 * INTERVALS, "no longer than it must be"


@given(st.lists(st.tuples(times, st.integers(0, 10**10)), min_size=1, max_size=20))
def test_a_span_covers_its_intervals(spans: list[tuple[int, int]]) -> None:
    told = timeline()
    for begin, lasts in spans:
        told.span(TimelineSeries.PAUSED, 2, START + begin, START + begin + lasts)
    sums = [0] * INTERVALS
    for begin, lasts in spans:
        for index in range(INTERVALS):
            first, last = max(begin, 0, index * told.interval), min(begin + lasts, (index + 1) * told.interval)
            sums[index] += max(0, last - first)
    assert told.row(TimelineSeries.PAUSED, 2).tolist() == sums


def test_clocks_that_are_too_far_apart_end_where_64_bits_do() -> None:
    told = timeline()
    told.start = -(2**58)
    told.span(TimelineSeries.PAUSED, 0, 2**63 - 9, 2**63 - 1)
    assert told.row(TimelineSeries.PAUSED, 0).sum() == 0
    told.span(TimelineSeries.PAUSED, 0, 0, 2**63 - 1)
    assert told.row(TimelineSeries.PAUSED, 0).sum() == 2**62 - 2**58


def test_rows_beyond_the_limit_are_left_out() -> None:
    told = timeline()
    one = np.array([1], np.int64)
    told.add(TimelineSeries.MARKED, np.array([MAX_ROWS]), START + one, one)
    told.span(TimelineSeries.PAUSED, MAX_ROWS, START, START + 5)
    assert not told.row(TimelineSeries.MARKED, MAX_ROWS).any()
    assert not told.row(TimelineSeries.PAUSED, MAX_ROWS).any()


def at(ms: float, frame: bytes) -> Record:
    return Record(START + int(ms * MS), 0, len(frame), Direction.INBOUND, frame)


def analysed(*taken: Record, name: str = "leaf1:swp1") -> AnalysisFacts:
    return analyse(io.BytesIO(pcapng(taken, Interface(name, speed=10**9))), "story")


STORY = [
    at(0, packets.send(1)),
    at(2, packets.send(2, path=packets.MARKED)),
    at(3, packets.congestion()),
    at(4, packets.send(3)),
    at(4, packets.ack(2, 0x60)),
    at(5, packets.send(2)),
    at(5, packets.send(3)),
    at(6, packets.pause({3: 9000})),
    at(8.5, packets.pause({3: 0})),
    at(20, packets.ack(3)),
]


def test_what_happened_when() -> None:
    """100 octets are 800 bits; intervals are of 0.1 ms for a capture of 20 ms."""
    told = analysed(*STORY).over_time
    assert told.interval == pytest.approx(1e-4)
    (flow,) = told.flows
    assert len(flow.goodput) == 201
    assert {index: rate for index, rate in enumerate(flow.goodput) if rate} == pytest.approx(
        {0: 8e6, 20: 8e6, 40: 8e6}
    ), "duplicates are no goodput"
    for counts, when in ((flow.marked, {20: 1}), (flow.cnps, {30: 1}), (flow.naks, {40: 1}), (flow.resent, {50: 2})):
        assert {index: count for index, count in enumerate(counts) if count} == when
    (port,) = told.pauses
    assert (port.link, port.direction, port.cls) == ("leaf1:swp1", "in", 3)
    assert sum(port.paused) == pytest.approx(25)
    assert set(port.paused) == {0, 1}


def test_quiet_flows_have_no_series() -> None:
    (flow,) = analysed(at(0, packets.send(1)), at(1, packets.ack(1))).over_time.flows
    assert (flow.marked, flow.resent, flow.naks, flow.cnps) == ((), (), (), ())


def drawn(facts: AnalysisFacts) -> str:
    output = io.BytesIO()
    plot(facts, output, "svg")
    return "\n".join(ET.fromstring(output.getvalue()).itertext())  # noqa: S314 - we have just written it


def test_a_plot_tells_the_story() -> None:
    said = drawn(analysed(*STORY))
    for words in (
        "QP 0x22 at leaf1:swp1",
        "marked CE",
        "sent again",
        "NAKs back",
        "CNPs back",
        "leaf1:swp1 in class 3",
    ):
        assert words in said
    quiet = drawn(analysed(*STORY[:1], *STORY[-1:]))
    assert "CE" not in quiet
    assert "class" not in quiet


def test_plots_are_the_same_each_time() -> None:
    assert drawn(analysed(*STORY)) == drawn(analysed(*STORY))


def test_names_of_links_are_text_and_nothing_else() -> None:
    """Neither markup, nor TeX, nor letters that no font has."""
    name = "<b>$\\frac{1}$ \u4e2d&amp;"
    assert name in drawn(analysed(*STORY, name=name))


def test_the_most_busy_flows_are_drawn() -> None:
    many = [at(qp, packets.send(1, 100 + qp, qp=0x100 + qp)) for qp in range(MOST_FLOWS + 4)]
    said = drawn(analysed(*many))
    assert f"{MOST_FLOWS} of {MOST_FLOWS + 4} flows" in said
    assert "QP 0x103 " not in said
    assert "QP 0x104 " in said


def test_nothing_to_plot() -> None:
    assert not can_plot(analysed(at(0, packets.ack(1))))
    assert can_plot(analysed(*STORY[7:9]))
    assert not can_plot(analysed(STORY[8]))
