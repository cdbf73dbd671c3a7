"""A requester and a responder of RC as IBA vol. 1 section 9.7 has them, and a lossy path: what really happened.

It knows nothing of the analysis, so that it can judge it.
"""

from __future__ import annotations

import heapq
import struct
from random import Random
from typing import TYPE_CHECKING, Final

from lab.wire.opcodes import Opcode
from lab.wire.pcapng import Direction, Interface, Record
from tests.unit.analysis import packets
from tests.unit.analysis.captures import pcapng

if TYPE_CHECKING:
    from collections.abc import Callable

LINKS: Final = ("A", "B", "C")
"""At the requester, in the middle, and at the responder."""
ACK, NAK = 0x1F, 0x60
_START: Final = 10**18
_SEND, _HOP, _THINK, _TIMER = 300, 1000, 500, 200_000_000  # ns
_WINDOW: Final = 16
_MASK: Final = 0xFFFFFF


class Model:
    """Things that happen in the order of time, and what three links see of them.

    ``backs`` are the requester's steps back, each with the PSN and what made it do so, and ``lost`` from which link
    to which one packets of a PSN were lost, with ``loss`` on each stretch.
    """

    def __init__(self, seed: int, loss: float) -> None:
        self.backs: list[tuple[int, str]] = []
        self.lost: set[tuple[str, str, int]] = set()
        self._random, self._loss = Random(seed), loss
        self._events: list[tuple[int, int, Callable[..., None], tuple[int, ...]]] = []
        self._seen: list[tuple[int, int, int, bytes]] = []
        self._number = 0

    def capture(self) -> bytes:
        """What all links have seen, as one file."""
        taken = sorted(self._seen, key=lambda seen: seen[0])
        records = [Record(_START + time, link, len(frame), way, frame) for time, link, way, frame in taken]
        return pcapng(records, *(Interface(link, speed=10**10) for link in LINKS))

    def _at(self, time: int, happens: Callable[..., None], *what: int) -> None:
        self._number += 1
        heapq.heappush(self._events, (time, self._number, happens, what))

    def _run(self, going: Callable[[], bool]) -> None:
        while self._events and going():
            time, _, happens, what = heapq.heappop(self._events)
            happens(time, *what)


class Conversation(Model):
    """WRITEs of one to four packets, which get lost, and their answers with ``answers_lost``.

    Afterwards ``delivered`` are messages that the responder took, and ``resent`` the requester's packets that went
    again. The first packet is never lost: who captures cannot know of it.
    """

    def __init__(self, seed: int, *, messages: int, loss: float, answers_lost: float = 0, first: int = 0) -> None:
        super().__init__(seed, loss)
        self.delivered = self.resent = 0
        self._answers_lost, self._first = answers_lost, first
        self._frames: list[bytes] = []
        self._ends: set[int] = set()
        for _ in range(messages):
            self._frames += packets.write(first + len(self._frames), self._random.randrange(1, 5))
            self._ends.add(len(self._frames) - 1)
        self._unacknowledged = self._next = self._furthest = self._expected = self._asked = self._armed = 0
        self._idle = False
        self._at(0, self._send)
        self._run(lambda: self._unacknowledged < len(self._frames))

    @property
    def answers_may_be_lost(self) -> bool:
        """Some may."""
        return self._answers_lost > 0

    def _psn(self, index: int) -> int:
        return self._first + index & _MASK

    # The requester

    def _send(self, time: int) -> None:
        index = self._next
        self._idle = index == len(self._frames) or index - self._unacknowledged >= _WINDOW
        if self._idle:
            return
        self._next += 1
        self.resent += index < self._furthest
        self._furthest = max(self._furthest, self._next)
        self._arm(time)
        self._pass(time, 0, index)
        self._at(time + _SEND, self._send)

    def _arm(self, time: int) -> None:
        self._armed += 1
        self._at(time + _TIMER, self._expire, self._armed)

    def _expire(self, time: int, armed: int) -> None:
        if armed == self._armed:
            self._step_back(time, self._unacknowledged, "timeout")

    def _hear(self, time: int, index: int, syndrome: int, msn: int) -> None:
        self._seen.append((time, 0, Direction.INBOUND, self._answer(index, syndrome, msn)))
        if syndrome == NAK and index >= self._unacknowledged:
            self._unacknowledged = index
            self._step_back(time, index, "PSN Sequence Error")
        elif syndrome == ACK and index >= self._unacknowledged:
            self._unacknowledged = index + 1
            self._next = max(self._next, self._unacknowledged)
            self._arm(time)
            self._go_on(time)

    def _step_back(self, time: int, index: int, why: str) -> None:
        if index < self._next:
            self.backs.append((self._psn(index), why))
            self._next = index
        self._arm(time)
        self._go_on(time)

    def _go_on(self, time: int) -> None:
        if self._idle:
            self._idle = False
            self._at(time + _SEND, self._send)

    # The path, and the responder

    def _pass(self, time: int, link: int, index: int) -> None:
        way = Direction.INBOUND if link else Direction.OUTBOUND
        self._seen.append((time, link, way, self._frames[index]))
        if link == len(LINKS) - 1:
            self._take(time, index)
        elif index and self._random.random() < self._loss:
            self.lost.add((LINKS[link], LINKS[link + 1], self._psn(index)))
        else:
            self._at(time + _HOP, self._pass, link + 1, index)

    def _take(self, time: int, index: int) -> None:
        """An ACK for each message, and for what came again; one NAK for what is missing, until that has come."""
        if index == self._expected:
            self._expected += 1
            if index in self._ends:
                self.delivered += 1
                self._say(time, index, ACK)
        elif index < self._expected:
            self._say(time, self._expected - 1, ACK)
        elif self._asked <= self._expected:
            self._asked = self._expected + 1
            self._say(time, self._expected, NAK)

    def _say(self, time: int, index: int, syndrome: int) -> None:
        answer = self._answer(index, syndrome, self.delivered)
        self._seen.append((time + _THINK, 2, Direction.OUTBOUND, answer))
        if self._random.random() >= self._answers_lost:
            self._seen.append((time + _THINK + _HOP, 1, Direction.OUTBOUND, answer))
            self._at(time + _THINK + 2 * _HOP, self._hear, index, syndrome, self.delivered)

    def _answer(self, index: int, syndrome: int, msn: int) -> bytes:
        aeth = struct.pack("!I", syndrome << 24 | msn)
        return packets.rocev2(packets.BACK, Opcode.RC_ACKNOWLEDGE, packets.QP1, self._psn(index), aeth)
