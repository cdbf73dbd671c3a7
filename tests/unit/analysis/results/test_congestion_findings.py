"""CNPs in a capture that says what the NICs do: missing, lost, too close together, or ignored by the sender."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lab.analysis.results.fact_builder import analyse
from lab.model.qos.congestion.cc_registers import CnpModeration
from lab.units import WIRE_OVERHEAD
from lab.wire.nic_note import NicNote
from lab.wire.pcapng import Direction, Interface, Record
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng
from tests.unit.analysis.stories import MS, START

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lab.analysis.results.analysis_facts import AnalysisFacts, CaptureFinding, FlowFacts

RATE = 10**8
APART = 20 * MS
SENDER = NicNote("h1:eth1", "10.0.0.1", np=True, rp=True, apart=APART / 1e9)
RECEIVER = replace(SENDER, port="h4:eth1", address="10.0.0.2")
SIZE = 1024
FRAME = len(packets.send(1, SIZE))
LINE = (FRAME + WIRE_OVERHEAD) * 8 * 10**9 // RATE
"""The time of a packet at the line rate, in ns."""
HERE, THERE = 0, 1
"""The links of sender and receiver."""

Events = list[tuple[int, int, bytes]]


def analysed(events: Iterable[tuple[int, int, bytes]], *notes: NicNote | None) -> AnalysisFacts:
    """Frames by time and link; each link has a NIC's note or none."""
    taken = [Record(START + at, link, len(frame), Direction.INBOUND, frame) for at, link, frame in sorted(events)]
    links = [Interface(f"leaf1:swp{number}", speed=RATE, nic=note) for number, note in enumerate(notes, 1)]
    return analyse(io.BytesIO(pcapng(taken, *links)), "made")


def marked(last: int, link: int = HERE) -> Events:
    """Marked packets 10 ms apart until a time, each acknowledged."""
    times = range(0, last + 1, 10 * MS)
    sent = [(at, link, packets.send(psn, path=packets.MARKED)) for psn, at in enumerate(times, 1)]
    return sent + [(at + MS // 100, link, packets.ack(psn)) for psn, at in enumerate(times, 1)]


def cnps(*times: int, link: int = HERE) -> Events:
    return [(at, link, packets.congestion()) for at in times]


def found(facts: AnalysisFacts, text: str) -> list[CaptureFinding]:
    return [finding for finding in facts.findings if text in finding.what]


class TestMissing:
    def test_a_nic_that_answers_marks_makes_it_a_fault(self) -> None:
        (finding,) = found(analysed(marked(100 * MS), RECEIVER), "no CNP answered")
        assert not finding.note
        assert "np_cnp_sent" in finding.meaning

    def test_a_nic_without_congestion_control_explains_it(self) -> None:
        (finding,) = found(analysed(marked(100 * MS), NicNote("h4:eth1", "10.0.0.2")), "no CNP answered")
        assert finding.note
        assert "off (nic.cc)" in finding.meaning

    def test_what_the_nic_of_another_host_does_says_nothing(self) -> None:
        (finding,) = found(analysed(marked(100 * MS), SENDER), "no CNP answered")
        assert finding.note

    def test_a_capture_that_ends_with_the_first_mark_lacks_no_cnp(self) -> None:
        assert not found(analysed(marked(10 * MS), RECEIVER), "no CNP answered")

    def test_with_cnps_nothing_is_missing(self) -> None:
        assert not found(analysed(marked(100 * MS) + cnps(MS, 40 * MS), RECEIVER), "no CNP answered")


class TestLost:
    def both(self, *arrived: int) -> list[CaptureFinding]:
        """Two CNPs leave the receiver's NIC."""
        sent = cnps(MS, 40 * MS, link=THERE) + cnps(*arrived, link=HERE)
        return found(analysed(marked(100 * MS) + marked(100 * MS, THERE) + sent, SENDER, RECEIVER), "lost between")

    def test_cnps_that_do_not_arrive_are_counted(self) -> None:
        (finding,) = self.both()
        assert finding.what == "10.0.0.2 to 10.0.0.1 QP 0x11: 2 of 2 CNPs lost between the two NICs"
        (finding,) = self.both(2 * MS)
        assert "1 of 2 CNPs lost" in finding.what

    def test_those_that_arrive_are_not_lost(self) -> None:
        assert not self.both(2 * MS, 41 * MS)


class TestSpacing:
    def close(self, second: int, note: NicNote = RECEIVER, *more: tuple[int, int, bytes]) -> list[CaptureFinding]:
        return found(analysed(marked(100 * MS) + cnps(MS, MS + second) + list(more), note), "apart")

    def test_less_than_the_minimum_is_a_fault_at_the_nics_own_link(self) -> None:
        (finding,) = self.close(APART // 2)
        assert finding.what == "h4:eth1: CNPs to 10.0.0.1 QP 0x11 10 ms apart"
        assert "20 ms, per qp" in finding.meaning

    @pytest.mark.parametrize("second", [APART, APART - LINE])
    def test_a_packet_in_front_of_the_first_cnp_is_allowed(self, second: int) -> None:
        assert not self.close(second)

    def test_behind_another_link_queues_may_have_moved_cnps_together(self) -> None:
        assert not self.close(APART // 2, SENDER)

    def test_the_minimum_is_that_of_its_scope(self) -> None:
        bth = packets.congestion()
        other = packets.BACK.wrap(bth[42:46] + bytes([0x40, 0, 0, 0x77]) + bth[50:-4])
        soon = (MS + APART // 2, HERE, other)
        assert not self.close(APART, RECEIVER, soon)
        for scope, whom in ((CnpModeration.DESTINATION, "10.0.0.1"), (CnpModeration.PORT, "all destinations")):
            (finding,) = self.close(APART, replace(RECEIVER, scope=scope), soon)
            assert finding.what == f"h4:eth1: CNPs to {whom} 10 ms apart"


def paced(pattern: Sequence[tuple[int, int]], count: int = 12) -> AnalysisFacts:
    """Data packets of h1, by number and gap in line packets; ``count`` CNPs, after the first part."""
    events, at, psn = Events(), 0, 1
    for number, (size, gap) in enumerate(pattern):
        begin = at
        for _ in range(size):
            events.append((at, HERE, packets.send(psn, SIZE, path=packets.MARKED, ackreq=psn % 16 == 0)))
            if psn % 16 == 0:
                events.append((at + 1, HERE, packets.ack(psn)))
            at, psn = at + gap * LINE, psn + 1
        if number:
            events += cnps(*(begin + (at - begin) * step // count for step in range(count)))
    return analysed(events, SENDER)


def sending(facts: AnalysisFacts) -> FlowFacts:
    (flow,) = [flow for flow in facts.flows if flow.src == "10.0.0.1"]
    return flow


class TestReaction:
    def test_the_rates_come_from_packet_gaps(self) -> None:
        flow = sending(paced([(200, 1), (300, 4)]))
        assert flow.rate_before_cnps == pytest.approx(RATE, rel=0.03)
        assert flow.rate_after_cnps == pytest.approx(RATE / 4, rel=0.03)

    def test_pauses_between_bursts_are_no_lower_rate(self) -> None:
        """An application that waits sends each burst as fast as its limit permits."""
        flow = sending(paced([(200, 1), (100, 1)]))
        assert flow.rate_after_cnps == pytest.approx(RATE, rel=0.03)

    def test_a_sender_that_slows_down_is_no_finding(self) -> None:
        assert not found(paced([(200, 1), (300, 2)]), "not slowed down")

    def test_one_that_does_not_is(self) -> None:
        (finding,) = found(paced([(200, 1), (300, 1)]), "not slowed down")
        assert not finding.note
        assert "10.0.0.1 to 10.0.0.2 QP 0x22 at leaf1:swp1" in finding.what
        assert "rp_cnp_ignored" in finding.meaning

    def test_one_that_was_limited_before_the_capture_is_not_judged(self) -> None:
        """Around its fair share, a QP is as fast after its CNPs as before the first one."""
        assert not found(paced([(200, 3), (300, 3)]), "not slowed down")

    def test_few_cnps_say_nothing(self) -> None:
        assert not found(paced([(200, 1), (300, 1)], count=9), "not slowed down")

    def test_a_nic_without_reaction_point_is_explained(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(globals(), "SENDER", replace(SENDER, rp=False))
        (finding,) = found(paced([(200, 1), (300, 1)]), "not slowed down")
        assert finding.note
