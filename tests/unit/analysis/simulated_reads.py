"""READs of a requester over a path that loses their responses, as IBA vol. 1 section 9.7 has them: what happened.

It knows nothing of the analysis, so that it can judge it.
"""

from __future__ import annotations

from typing import Final

from lab.wire.opcodes import Opcode
from lab.wire.pcapng import Direction
from tests.unit.analysis import packets
from tests.unit.analysis.simulated import LINKS, Model

MTU: Final = 1024
_ASK, _SAY, _HOP, _THINK, _TIMER = 200, 300, 1000, 500, 300_000_000  # ns
_OUTSTANDING: Final = 4
_FIRST, _MIDDLE, _LAST, _ONLY = (
    Opcode.RC_RDMA_READ_RESPONSE_FIRST,
    Opcode.RC_RDMA_READ_RESPONSE_MIDDLE,
    Opcode.RC_RDMA_READ_RESPONSE_LAST,
    Opcode.RC_RDMA_READ_RESPONSE_ONLY,
)


class Reads(Model):
    """READs of two to seven packets each, whose responses get lost; ``taken`` are bytes that the requester took."""

    def __init__(self, seed: int, *, reads: int, loss: float, first: int = 0) -> None:
        super().__init__(seed, loss)
        self.taken = 0
        self._reads: list[tuple[int, int]] = []  # PSN, and packets of the response
        self._end = first
        for _ in range(reads):
            self._reads.append((self._end, self._random.randrange(2, 8)))
            self._end += self._reads[-1][1]
        self._expected, self._asked_again = first, -1
        self._posted = self._armed = self._may_ask = self._may_say = 0
        self._at(0, self._post)
        self._run(lambda: self._expected < self._end)

    # The requester

    def _waiting(self) -> list[tuple[int, int]]:
        return [(psn, size) for psn, size in self._reads[: self._posted] if psn + size > self._expected]

    def _post(self, time: int) -> None:
        while self._posted < len(self._reads) and len(self._waiting()) < _OUTSTANDING:
            self._posted += 1
            self._ask(time, *self._reads[self._posted - 1])

    def _ask(self, time: int, psn: int, size: int) -> None:
        time = max(time, self._may_ask)
        self._may_ask = time + _ASK
        for link, way in enumerate((Direction.OUTBOUND, Direction.INBOUND, Direction.INBOUND)):
            self._seen.append((time + link * _HOP, link, way, packets.read(psn, size * MTU)))
        self._arm(time)
        self._at(time + 2 * _HOP, self._serve, psn, size)

    def _arm(self, time: int) -> None:
        self._armed += 1
        self._at(time + _TIMER, self._expire, self._armed)

    def _expire(self, time: int, armed: int) -> None:
        if armed == self._armed:
            self._step_back(time, "timeout")

    def _hear(self, time: int, psn: int) -> None:
        """What is not in order is discarded, and shows that something is missing: an implied NAK."""
        if psn == self._expected:
            self._expected, self._asked_again = psn + 1, -1
            self.taken += MTU
            self._arm(time)
            self._post(time)
        elif psn > self._expected and self._asked_again != self._expected:
            self._asked_again = self._expected
            self._step_back(time, "implied NAK")

    def _step_back(self, time: int, why: str) -> None:
        self.backs.append((self._expected, why))
        self._arm(time)
        for psn, size in self._waiting():
            begin = max(psn, self._expected)
            self._ask(time + _THINK, begin, psn + size - begin)

    # The responder, and the path

    def _serve(self, time: int, psn: int, size: int) -> None:
        time = max(time, self._may_say)
        for number in range(size):
            time += _SAY
            ends = number == size - 1
            opcode = (_LAST if ends else _MIDDLE) if number else (_ONLY if ends else _FIRST)
            self._respond(time, psn + number, opcode)
        self._may_say = time

    def _respond(self, time: int, psn: int, opcode: Opcode) -> None:
        aeth = b"" if opcode is _MIDDLE else bytes.fromhex("1f000001")
        frame = packets.rocev2(packets.BACK, opcode, packets.QP1, psn, aeth, size=MTU)
        self._seen.append((time, 2, Direction.OUTBOUND, frame))
        for link, before in ((1, 2), (0, 1)):
            if self._random.random() < self._loss:
                self.lost.add((LINKS[before], LINKS[link], psn))
                return
            time += _HOP
            self._seen.append((time, link, Direction.OUTBOUND if link else Direction.INBOUND, frame))
        self._at(time, self._hear, psn)
