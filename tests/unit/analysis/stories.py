"""Captures that tell a story, analysed: frames in a row, or each with its time and link."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from lab.analysis.results.fact_builder import analyse
from lab.wire.pcapng import Direction, Interface, Record
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng, records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.analysis.results.analysis_facts import AnalysisFacts, FlowFacts

NAK = 0x60
MS = 1_000_000
START = 10**18


def told(frames: Sequence[bytes], chunk: int = 2**20) -> AnalysisFacts:
    return analyse(io.BytesIO(pcapng(records(frames))), "story", chunk=chunk)


def timed(*events: tuple[int, int, bytes], links: int = 2) -> AnalysisFacts:
    """Frames by their time in ns and their link."""
    taken = [Record(START + time, link, len(frame), Direction.INBOUND, frame) for time, link, frame in events]
    interfaces = [Interface(f"leaf1:swp{number}", speed=10**11) for number in range(1, links + 1)]
    return analyse(io.BytesIO(pcapng(taken, *interfaces)), "story")


def requests(facts: AnalysisFacts, qp: int = packets.QP2) -> FlowFacts:
    (flow,) = [flow for flow in facts.flows if flow.qp == qp and flow.messages]
    return flow


def swapped() -> list[bytes]:
    """1000 SENDs, two of them swapped, every 16th one acknowledged."""
    frames = []
    for psn in [*range(1, 100), 101, 100, *range(102, 1001)]:
        frames.append(packets.send(psn, ackreq=psn % 16 == 0))
        if psn % 16 == 0:
            frames.append(packets.ack(psn))
    return frames
