"""Which packets a capture keeps, and how much of each: the kernel sorts out most, and what it leaves open is here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.wire.filter.assembler import RETURN, Instruction
from lab.wire.filter.expression import Field, asks_for, quick
from lab.wire.filter.kernel_program import NEEDED, decides, kernel_program
from lab.wire.filter.match import matches
from lab.wire.frame import decode
from lab.wire.pcapng import MAX_SNAPLEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.wire.filter.expression import Expression
    from lab.wire.pcapng import Record


class Choice:
    """Of packets that are ``wanted``, None for all, ``snaplen`` bytes; ``links`` names the interfaces by number."""

    def __init__(self, wanted: Expression | None, snaplen: int, links: Sequence[str]) -> None:
        self._wanted, self._snaplen, self._links = wanted, snaplen, links
        self._quick = wanted is None or quick(wanted)
        self._needed = MAX_SNAPLEN if wanted is not None and asks_for(wanted, Field.ICRC) else NEEDED

    def program(self) -> Sequence[Instruction]:
        """What the kernel runs for each packet; for a filter it keeps what ``choose`` must see."""
        if self._wanted is None:
            return (Instruction(RETURN, 0, 0, self._snaplen),)
        return kernel_program(self._wanted, max(self._snaplen, self._needed))

    def choose(self, records: list[Record]) -> list[Record]:
        """Finish what the kernel's filter left open, and cut to the snap length."""
        if self._wanted is None:
            return records
        return [
            record if len(record.data) <= self._snaplen else record._replace(data=record.data[: self._snaplen])
            for record in records
            if (self._quick and decides(record.data, record.length)) or self._matches(self._wanted, record)
        ]

    def _matches(self, wanted: Expression, record: Record) -> bool:
        frame = decode(bytes(record.data[: self._needed]), record.length)
        return matches(wanted, frame, self._links[record.interface])
