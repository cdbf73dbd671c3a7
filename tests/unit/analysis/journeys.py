"""Packets on their way over several links, as all of these would have captured them."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab.analysis.results.fact_builder import analyse
from lab.wire.pcapng import Direction, Interface, Record
from tests.unit.analysis.captures import pcapng

if TYPE_CHECKING:
    from lab.analysis.results.analysis_facts import AnalysisFacts

LINKS = ("h1:eth1", "leaf1:swp1", "spine1:swp2", "leaf2:swp3")
"""From the requester to the responder."""
STEP = 1000
"""ns from a link to the next one."""
START = 10**18


@dataclass
class Journeys:
    """What happened on ``links``; times in ns since the start."""

    links: tuple[str, ...] = LINKS
    taken: list[tuple[int, int, int, bytes]] = field(default_factory=list)

    def there(self, time: int, frame: bytes, *, lost: int | None = None) -> None:
        """A packet of the requester, which only the first ``lost`` links see."""
        for index in range(len(self.links))[:lost]:
            self._take(time + index * STEP, index, frame, Direction.OUTBOUND)

    def back(self, time: int, frame: bytes, *, lost: int | None = None) -> None:
        """A packet of the responder, from the last link to the first."""
        for hop, index in enumerate(list(reversed(range(len(self.links))))[:lost]):
            self._take(time + hop * STEP, index, frame, Direction.INBOUND)

    def _take(self, time: int, index: int, frame: bytes, direction: int) -> None:
        self.taken.append((time, index, direction, frame))

    def capture(self) -> bytes:
        """All of it as a pcapng file."""
        records = [Record(START + t, link, len(frame), way, frame) for t, link, way, frame in sorted(self.taken)]
        return pcapng(records, *(Interface(link, speed=10**9) for link in self.links))

    def told(self) -> AnalysisFacts:
        """What an analysis says."""
        return analyse(io.BytesIO(self.capture()), "story")
