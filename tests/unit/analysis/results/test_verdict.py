"""What is said to look wrong, what is only noted, and how often one cause is told."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from lab.analysis.results.fact_builder import analyse
from lab.wire.opcodes import Opcode
from lab.wire.pcapng import Direction, Interface, Record, Writer
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng, records
from tests.unit.analysis.stories import MS, START, requests, timed, told

if TYPE_CHECKING:
    from lab.analysis.results.analysis_facts import AnalysisFacts


def marked_without_cnps(application: str) -> AnalysisFacts:
    """Two links see the same marked packets, and no CNP goes back."""
    output = io.BytesIO()
    writer = Writer(output, application)
    for link in ("h1:eth1", "leaf1:swp1"):
        writer.add_interface(Interface(link))
    frames = [packets.send(1, path=packets.MARKED), packets.ack(1)]
    writer.write(Record(START + at, at % 2, len(f), Direction.INBOUND, f) for at, f in enumerate(sorted(frames * 2)))
    return analyse(io.BytesIO(output.getvalue()), "story")


def test_what_the_emulation_explains_is_a_note_and_said_once() -> None:
    (here,), (elsewhere,) = marked_without_cnps("rocelab").findings, marked_without_cnps("dumpcap").findings
    assert here.note
    assert not elsewhere.note
    assert "at h1:eth1 and 1 more link: 1 packet marked CE, no CNP answered" in here.what == elsewhere.what


def test_one_cause_of_many_flows_is_one_finding() -> None:
    story = [packets.send(psn, qp=qp) for psn in (1, 2, 3, 2, 3, 4) for qp in range(100, 400)]
    (finding,) = told(story).findings
    assert finding.what.startswith(
        "300 flows, the first 10.0.0.1 to 10.0.0.2 QP 0x64 at leaf1:swp1: 300 go-back-N episodes"
    )


def test_datagrams_that_come_marked_need_no_cnp() -> None:
    deth = bytes(4) + packets.QP1.to_bytes(4)
    marked = [packets.rocev2(packets.MARKED, Opcode.UD_SEND_ONLY, 9, psn, deth, size=64) for psn in range(3)]
    facts = told([*marked, packets.rocev2(packets.BACK, Opcode.UD_SEND_ONLY, 8, 1, deth, size=64)])
    assert not facts.findings


def test_a_truncating_mirror_is_a_note_and_its_packets_are_analysed() -> None:
    facts = told([frame[:80] for frame in (*packets.write(1, 4), packets.ack(4))])
    flow = requests(facts)
    assert (flow.messages, flow.payload, facts.short) == ({"WRITE": 1}, 4096, 4)
    (finding,) = facts.findings
    assert finding.note
    assert "4 packets shorter than the IP length" in finding.what


def test_files_put_one_behind_the_other_are_not_in_the_order_of_time() -> None:
    """As cat or mergecap -a leaves the captures of two hosts: 4 ms go back to their beginning."""
    taken = records([packets.send(psn) for psn in range(1, 6)], gap=MS)
    one, other = (pcapng(taken, Interface(name)) for name in ("h1:eth1", "h2:eth1"))
    facts = analyse(io.BytesIO(one + other), "story")
    assert facts.backwards == 0.004
    (finding,) = facts.findings
    assert finding.note
    assert "some are 4 ms earlier than preceding ones" in finding.what
    merged = sorted([*taken, *(record._replace(interface=1) for record in taken)])
    facts = analyse(io.BytesIO(pcapng(merged, Interface("h1:eth1"), Interface("h2:eth1"))), "story")
    assert (facts.backwards, facts.findings) == (0, ())


def test_what_one_machine_puts_out_of_order_is_not_told() -> None:
    """Buffers of two queues: 100 us."""
    facts = timed((0, 0, packets.send(1)), (200_000, 0, packets.send(2)), (100_000, 1, packets.send(9, qp=5)))
    assert facts.backwards == 1e-4
    assert not any("order of time" in finding.what for finding in facts.findings)


def test_files_in_the_wrong_order_are_no_retransmission() -> None:
    """The second half of a conversation comes before the first."""
    frames = [frame for psn in range(100, 160) for frame in (packets.send(psn), packets.ack(psn))]
    taken = [Record(10**18 + n * 100_000, 0, len(each), Direction.INBOUND, each) for n, each in enumerate(frames)]
    facts = analyse(io.BytesIO(pcapng(taken[60:] + taken[:60])), "story")
    assert [(finding.note, finding.what.rpartition(": ")[2]) for finding in facts.findings] == [
        (True, "30 packets not in time order in the file, up to 11.9 ms off")
    ]
    again = [*taken, *(each._replace(timestamp=each.timestamp + 10**9) for each in taken[60:] if len(each.data) > 70)]
    assert analyse(io.BytesIO(pcapng(again)), "story").go_back_n
