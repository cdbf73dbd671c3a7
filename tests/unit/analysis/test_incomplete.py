"""Captures that lack packets which arrived: ACKs prove it, or nobody sends them again; sampled and lossy files."""

from __future__ import annotations

import re
from random import Random

import pytest

from lab.analysis.results.analysis_exit_code import verdict
from lab.errors import ExitCode
from tests.unit.analysis import packets
from tests.unit.analysis.stories import NAK, requests, told

LAST = 0xFFFFFF


@pytest.mark.parametrize("first", [9, LAST - 2, 0x7FFFFE])
@pytest.mark.parametrize("ahead", [0, 1, 500])
def test_an_ack_beyond_the_newest_packet_is_cumulative(first: int, ahead: int) -> None:
    """Data 9, ACK 9, data 10, data 12, ACK 12 or more: 11 arrived, whether or not 13 was captured."""
    data = [packets.send(first + n & LAST) for n in (0, 1, 3)]
    story = [data[0], packets.ack(first), *data[1:], packets.ack(first + 3 + ahead & LAST)]
    flow = requests(told(story))
    assert (flow.missing, flow.unseen, flow.messages, flow.payload) == (1, 1, {"SEND": 3}, 300)
    (finding,) = told(story).findings
    assert "1 PSN ACKed unseen" in finding.what


def test_an_ack_before_the_gap_proves_nothing() -> None:
    story = [packets.send(9), packets.ack(9), packets.send(10), packets.send(12), packets.ack(10)]
    flow = requests(told(story))
    assert (flow.missing, flow.unseen) == (1, 0)


def test_an_ack_inside_a_gap_proves_what_is_before_it() -> None:
    """10 to 14 were not captured, and the responder has up to 12."""
    story = [packets.send(9), packets.ack(9), packets.send(15), packets.ack(12), packets.send(16)]
    flow = requests(told(story))
    assert (flow.missing, flow.unseen) == (5, 3)


def clean(count: int) -> list[bytes]:
    """WRITEs of four packets, each acknowledged."""
    frames: list[bytes] = []
    for psn in range(0, count, 4):
        frames += [*packets.write(psn, 4), packets.ack(psn + 3)]
    return frames


@pytest.mark.parametrize("rate", [10, 100, 512])
def test_a_sample_of_a_clean_flow_has_no_losses(rate: int) -> None:
    facts = told(clean(60_000)[::rate])
    assert verdict(facts) is ExitCode.UNKNOWN
    (finding,) = facts.findings
    assert finding.unjudged
    assert "is a sample" in finding.what


@pytest.mark.parametrize("rate", [10, 100])
def test_a_sample_of_one_direction_has_none_either(rate: int) -> None:
    facts = told([packets.send(psn) for psn in range(0, 60_000, rate)])
    assert verdict(facts) is ExitCode.UNKNOWN
    assert f"about 1 packet of {rate} is in the file" in facts.findings[0].what


def test_a_capture_that_could_not_keep_up_lost_what_nobody_sends_again() -> None:
    """A burst of five is missing in every hundred of one direction."""
    facts = told([packets.send(psn) for psn in range(3000) if psn % 100 not in range(50, 55)])
    (finding,) = facts.findings
    assert finding.unjudged
    assert "150 PSNs missing in 30 gaps, none retransmitted" in finding.what


def reads(count: int, span: int) -> list[bytes]:
    """READs of ``span`` packets each, all answered."""
    return [frame for psn in range(0, count * span, span)
            for frame in (packets.read(psn, span * 1024), *packets.responses(psn, span))]  # fmt: skip


@pytest.mark.parametrize("span", [4, 16, 64])
@pytest.mark.parametrize("rate", [10, 100])
def test_a_sample_of_reads_is_as_large_as_it_is(span: int, rate: int) -> None:
    """A READ request that is missing is one packet, and not as many as its response has."""
    drawn = Random(span)
    facts = told([frame for frame in reads(100_000 // span, span) if drawn.random() < 1 / rate])
    assert verdict(facts) is ExitCode.UNKNOWN
    (finding,) = facts.findings
    found = re.search(r"about 1 packet of (\d+) is in the file", finding.what)
    assert "it is a sample" in finding.what
    assert found is None or int(found[1]) == pytest.approx(rate, rel=0.2)
    asked = sum(flow.packets for flow in facts.flows if flow.qp == packets.QP2)
    assert found or asked < 20, "so few requests say nothing"


def test_a_capture_that_lacks_responses_which_nobody_asks_for_again_lost_them_itself() -> None:
    frames = [frame for at, frame in enumerate(reads(100, 16)) if at % 150 != 50]
    (finding,) = told(frames).findings
    assert finding.unjudged
    assert "missing in 11 places, none requested again" in finding.what


def test_responses_that_are_asked_for_again_were_lost_by_the_network() -> None:
    """The control: every tenth READ lacks a response, and is asked for again from there on."""
    frames: list[bytes] = []
    for psn in range(0, 1600, 16):
        answers = packets.responses(psn, 16)
        frames.append(packets.read(psn, 16 * 1024))
        if psn % 160:
            frames += answers
        else:
            rest = [packets.read(psn + 5, 11 * 1024), *packets.responses(psn + 5, 11)]
            frames += [*answers[:5], *answers[6:], *rest]
    facts = told(frames)
    assert verdict(facts) is ExitCode.FAIL
    assert any("READ responses are missing in 10 places" in finding.what for finding in facts.findings)


def test_losses_that_are_sent_again_are_the_networks() -> None:
    """The control: twenty packets are lost before here, asked for, and sent again with all behind them."""
    frames: list[bytes] = []
    for psn in range(0, 2000, 100):
        burst = [packets.send(psn + n) for n in range(100)]
        frames += [*burst[:50], *burst[51:60], packets.ack(psn + 50, NAK), *burst[50:], packets.ack(psn + 99)]
    facts = told(frames)
    assert verdict(facts) is ExitCode.FAIL
    assert any("20 PSNs missing in 20 gaps: they were lost" in f"{f.what}: {f.meaning}" for f in facts.findings)


def test_one_gap_at_the_end_may_be_a_loss() -> None:
    (finding,) = told([packets.send(psn) for psn in (1, 2, 4)]).findings
    assert "1 PSN missing in 1 gap" in finding.what
    assert not finding.unjudged
