"""The packets that a capture keeps, and their snap length: the kernel filters most, and this module the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lab.wire.filter.assembler import RETURN, Instruction
from lab.wire.filter.expression import FilterField, asks_for, quick
from lab.wire.filter.kernel_program import NEEDED, decided, kernel_program
from lab.wire.filter.match import matches
from lab.wire.frame import decode
from lab.wire.header_fields import VlanFields
from lab.wire.pcapng import MAX_SNAPLEN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from lab.wire.filter.expression import Expression
    from lab.wire.frame_batch import FrameBatch
    from lab.wire.pcapng import Record

_TAG: Final = VlanFields.SIZE


class CaptureChoice:
    """Keeps ``snaplen`` bytes of the packets that match ``wanted`` (None for all) on the interfaces ``links``."""

    def __init__(self, wanted: Expression | None, snaplen: int, links: Sequence[str]) -> None:
        self._wanted, self._snaplen, self._links = wanted, snaplen, links
        self._quick = wanted is None or quick(wanted)
        self._needed = MAX_SNAPLEN if wanted is not None and asks_for(wanted, FilterField.ICRC) else NEEDED

    def program(self) -> Sequence[Instruction]:
        """Return the kernel's filter program. With a filter it keeps enough bytes for ``choose``."""
        if self._wanted is None:
            return (Instruction(RETURN, 0, 0, self._snaplen),)
        return kernel_program(self._wanted, max(self._snaplen, self._needed))

    def choose(self, batch: FrameBatch, memories: Mapping[int, memoryview]) -> FrameBatch:
        """Return the matching packets, cut to the snap length: decide what the kernel's filter left open."""
        if self._wanted is None:
            return batch
        import numpy as np  # noqa: PLC0415 - slow to import, and not needed for --help

        chosen = self._decided(batch, memories)
        for row, record in zip(np.flatnonzero(~chosen).tolist(), batch.take(~chosen).records(memories), strict=True):
            chosen[row] = self._matches(self._wanted, record)
        found = batch if chosen.all() else batch.take(chosen)
        room = self._snaplen - (found.tag != 0) * _TAG
        return replace(found, captured=np.minimum(found.captured, room))

    def _decided(self, batch: FrameBatch, memories: Mapping[int, memoryview]) -> NDArray[np.bool_]:
        """Return which packets the kernel's program has already matched completely."""
        import numpy as np  # noqa: PLC0415 - see above

        found = np.zeros(len(batch), bool)
        if self._quick:
            for interface in np.unique(batch.interface).tolist():
                rows = np.flatnonzero((batch.interface == interface) & (batch.tag == 0))
                some = batch.take(rows)
                found[rows] = decided(memories[interface], some.start, some.captured, some.length)
        return found

    def _matches(self, wanted: Expression, record: Record) -> bool:
        frame = decode(bytes(record.data[: self._needed]), record.length)
        return matches(wanted, frame, self._links[record.interface])
