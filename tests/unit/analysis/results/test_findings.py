"""What looks wrong, said once for all that show it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from lab.analysis.results.fact_builder import analyse
from lab.wire.pcapng import Direction, Interface, Record, Statistics, Writer
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng, records

if TYPE_CHECKING:
    from lab.analysis.results.analysis_facts import AnalysisFacts

MS, START = 1_000_000, 10**18


def paused(spells: list[int]) -> AnalysisFacts:
    """A link for each: paused for so many of 100 ms, by XOFF and XON. Quanta last 335 ms at 100 Mb/s."""
    taken = []
    for link, spell in enumerate(spells):
        taken += [(0, link, {3: 0xFFFF}), (spell * MS, link, {3: 0})]
    taken.append((100 * MS, 0, {4: 0}))
    frames = [
        Record(START + time, link, 60, Direction.INBOUND, packets.pause(quanta))
        for time, link, quanta in sorted(taken, key=lambda event: event[:2])
    ]
    return analyse(
        io.BytesIO(pcapng(frames, *(Interface(f"leaf{n}:swp1", speed=10**8) for n in range(len(spells))))), "story"
    )


def test_flows_are_counted_and_the_first_ten_named() -> None:
    story = [packets.send(psn, qp=qp) for psn in (1, 2, 3, 2, 3, 4) for qp in range(100, 400)]
    (finding,) = analyse(io.BytesIO(pcapng(records(story))), "story").findings
    assert finding.count == 300
    assert finding.examples == tuple(f"10.0.0.1 to 10.0.0.2 QP {qp:#x} at leaf1:swp1" for qp in range(100, 110))


def test_paused_links_are_one_finding_the_longest_pause_first() -> None:
    facts = paused([5, *range(20, 60), 9])
    (finding,) = facts.findings
    assert finding.what == ("40 links, the first leaf40:swp1: priority 3 paused for up to 59 ms, 59% of the capture")
    assert finding.count == 40
    assert finding.examples[:2] == ("leaf40:swp1", "leaf39:swp1")
    assert len(facts.pauses) == 43, "all are in the data: 42 links, and the other class"


def test_one_paused_link_is_named_by_itself() -> None:
    (finding,) = paused([1, 90]).findings
    assert finding.what == "leaf1:swp1: priority 3 paused for 90 ms, 90% of the capture"


def test_no_pause_of_a_tenth_is_none() -> None:
    assert not paused([10, 10]).findings


def test_links_that_lost_packets_are_one_finding() -> None:
    output = io.BytesIO()
    writer = Writer(output)
    for number in range(30):
        writer.add_interface(Interface(f"leaf{number}:swp1"))
    for number in range(30):
        writer.write_statistics(number, Statistics(received=5, dropped=2))
    facts = analyse(io.BytesIO(output.getvalue()), "story")
    (finding,) = facts.findings
    assert finding.what == "30 links, the first leaf0:swp1: 60 packets lost while capturing"
    assert (finding.count, len(finding.examples), len(facts.dropped)) == (30, 10, 30)


def test_groups_of_uneven_links_are_one_finding() -> None:
    """Two pairs of hosts, each with all of its eight flows on one of two links, with other TTLs."""
    taken = []
    for group, (src, hops) in enumerate((("10.0.0.1", 64), ("10.0.1.1", 60))):
        path = packets.Path(src=src, dst=f"10.0.{group}.9", hops=hops)
        for qp in range(8):
            taken += [(group * 2, packets.send(1, 1000, path=path, qp=100 + qp))]
        taken.append((group * 2 + 1, packets.send(1, 1, path=path, qp=200)))
    frames = [Record(START + n, link, len(f), Direction.INBOUND, f) for n, (link, f) in enumerate(taken)]
    facts = analyse(io.BytesIO(pcapng(frames, *(Interface(f"leaf1:swp{n}") for n in range(4)))), "story")
    (finding,) = facts.findings
    assert finding.what.startswith("2 groups of parallel links, the worst is ")
    assert finding.count == len(finding.examples) == 2
