"""Compute how long ports were paused, from XOFF and XON (IEEE 802.1Q clause 36, IEEE 802.3 annex 31B)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from lab.analysis.decode.field_columns import record
from lab.analysis.read.packet_batch import rows
from lab.units import PAUSE_QUANTUM_BITS
from lab.wire.header_fields import EthernetFields, MacControlFields, PfcFields
from lab.wire.headers import is_stray_pause
from lab.wire.udp_ports import PAUSE_OPCODE, PFC_OPCODE

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from lab.analysis.read.packet_batch import Ints, PacketBatch

ALL_CLASSES: Final = -1
"""The class of an IEEE 802.3 Pause frame, which stops the whole link."""
FASTEST: Final = 800 * 10**9
"""bit/s of the fastest Ethernet links (IEEE 802.3df): a quantum lasts at least 0.64 ns."""
_MAX_PORTS: Final = 4096
_MAX_ODD: Final = 256
_OTHER_OPCODES: Final = (*range(2, 7), 0xFFFE)
"""MAC control opcodes of passive optical networks, and of vendors (IEEE 802.3 table 31A-1)."""
Port: TypeAlias = tuple[int, int, int, int]
FRAME: Final = record(
    MacControlFields.SIZE + PfcFields.SIZE,
    {"opcode": (0, MacControlFields.OPCODE), "first": (MacControlFields.SIZE, PfcFields.VECTOR)},
    quanta=((">u2", PfcFields.CLASSES), MacControlFields.SIZE + PfcFields.QUANTA.at),
)
"""A MAC control frame: opcode, PFC class vector and times. A Pause frame has its time in place of the vector."""


class Oddity(Enum):
    """How a MAC control frame deviates from the standards."""

    OPCODE = "opcode"
    NO_CLASS = "no class"
    RESERVED_CLASS = "reserved class"
    ADDRESS = "address"


@dataclass(slots=True)
class Paused:
    """One port and class: XOFF and XON frames, pairs of them, and the time (ns) that it was paused, as far as known.

    A pause ends with an XON, or when its quanta expire; ``expired`` counts the latter. Without the link rate, quanta
    have no duration. Then a pause lasts until its XON, which may be long after its quanta expired, and ``bound`` uses
    the duration of quanta at ``FASTEST``. ``since`` is the time of the first XOFF. ``open`` (ns) is the length of a
    pause whose end is unknown at the end of the capture. ``spells`` are begin and end of pauses; the caller empties
    the list.
    """

    xoff: int = 0
    xon: int = 0
    pairs: int = 0
    expired: int = 0
    total: int = 0
    longest: int = 0
    open: int = 0
    since: int | None = None
    bound: Paused | None = field(default=None, repr=False)
    began: int | None = field(default=None, repr=False)
    until: int | None = field(default=None, repr=False)
    spells: list[tuple[int, int]] = field(default_factory=list, repr=False)

    def off(self, time: int, duration: int | None) -> None:
        """Add an XOFF of ``duration`` ns, None if the rate is unknown."""
        self.xoff += 1
        self.since = time if self.since is None else self.since
        self.expire(time)
        if self.began is None:
            self.began = time
        self.until = None if duration is None else time + duration

    def on(self, time: int) -> None:
        """Add an XON."""
        self.xon += 1
        self.expire(time)
        if self.began is not None:
            self.pairs += 1
            self._end(time)

    def expire(self, time: int) -> None:
        """End a pause whose quanta have expired by ``time``."""
        if self.began is not None and self.until is not None and self.until <= time:
            self.expired += 1
            self._end(self.until)

    def finish(self, time: int) -> None:
        """End the capture at ``time``. A pause that still lasts is counted up to there."""
        self.expire(time)
        if self.bound is not None:
            self.bound.finish(time)
        if self.began is not None and self.until is not None:
            self._end(time)
        elif self.began is not None:
            self.open = max(0, time - self.began)

    @property
    def least(self) -> tuple[int, int]:
        """Minimum paused time (ns) at any link rate: the total, and the longest uninterrupted pause."""
        shortest = self if self.bound is None else self.bound
        return shortest.total, shortest.longest

    @property
    def most(self) -> tuple[int, int]:
        """Maximum paused time (ns), total and longest, if pauses lasted until an XON or the capture's end."""
        return self.total + self.open, max(self.longest, self.open)

    @property
    def known(self) -> tuple[int | None, int | None]:
        """The paused time (ns), total and longest, each None if the link rate decides it."""
        total, longest = zip(self.least, self.most, strict=True)
        return (total[0] if total[0] == total[1] else None), (longest[0] if longest[0] == longest[1] else None)

    def _end(self, time: int) -> None:
        began = time if self.began is None else min(self.began, time)
        self.total += time - began
        self.longest = max(self.longest, time - began)
        self.spells.append((began, time))
        self.began = self.until = None


class Pauses:
    """All ports, by interface, direction, the sender's MAC address, and class or ``ALL_CLASSES``.

    The address identifies the pausing port if a capture has no directions.
    """

    def __init__(self, rate: Callable[[int], int | None]) -> None:
        self.ports: dict[Port, Paused] = {}
        self.odd: dict[tuple[int, int, Oddity, int], int] = {}
        """Frames that pause nothing, or that receivers may ignore: by interface, sender, oddity and offending value.
        """
        self.frames = 0
        self._rate = rate

    def add(self, batch: PacketBatch, row: Ints, body: Ints, l2: Ints) -> None:
        """Add the MAC control frames at ``row``, with Ethernet headers at ``l2`` and opcodes at ``body``.

        Those that receivers ignore for their address are only noted as odd: they pause nothing.
        """
        frames = rows(batch.data, body, FRAME.itemsize).view(FRAME)
        sender = EthernetFields.SRC.gather(batch.data, l2)
        opcode = frames["opcode"].astype(np.int64)
        receiver = EthernetFields.DST.gather(batch.data, l2)
        stray = is_stray_pause(opcode, receiver)
        self._note_odd(batch.interface[row], sender, receiver, stray, frames)
        self.frames += int(np.count_nonzero(np.isin(opcode, (PFC_OPCODE, PAUSE_OPCODE))))
        columns = (
            batch.interface[row],
            batch.direction[row],
            sender,
            batch.time[row],
            opcode,
            frames["first"],
            frames["quanta"],
        )
        for *place, code, first, quanta in zip(*(column[~stray].tolist() for column in columns), strict=True):
            interface, direction, address, time = place
            if code == PFC_OPCODE:
                for cls in range(PfcFields.CLASSES):
                    if first >> cls & 1:
                        self._frame((interface, direction, address, cls), time, quanta[cls])
            elif code == PAUSE_OPCODE:
                self._frame((interface, direction, address, ALL_CLASSES), time, first)

    def _note_odd(
        self, interface: Ints, sender: Ints, address: Ints, stray: npt.NDArray[np.bool_], frames: np.ndarray
    ) -> None:
        """Count frames that deviate from the standards."""
        opcode, first = frames["opcode"].astype(np.int64), frames["first"].astype(np.int64)
        pfc, known = opcode == PFC_OPCODE, np.isin(opcode, (PFC_OPCODE, PAUSE_OPCODE))
        found = (
            (Oddity.OPCODE, ~known & ~np.isin(opcode, _OTHER_OPCODES), opcode),
            (Oddity.NO_CLASS, pfc & (first & 0xFF == 0), first),
            (Oddity.RESERVED_CLASS, pfc & (first > 0xFF), first),
            (Oddity.ADDRESS, stray, address),
        )
        for why, marked, number in found:
            for key in zip(interface[marked].tolist(), sender[marked].tolist(), number[marked].tolist(), strict=True):
                place = (*key[:2], why, key[2])
                if place in self.odd or len(self.odd) < _MAX_ODD:
                    self.odd[place] = self.odd.get(place, 0) + 1

    def finish(self, time: int) -> None:
        """End the capture at ``time``, ns since 1970."""
        for port in self.ports.values():
            port.finish(time)

    def _frame(self, key: Port, time: int, quanta: int) -> None:
        if key not in self.ports and len(self.ports) >= _MAX_PORTS:
            return
        port = self.ports.setdefault(key, Paused())
        rate = self._rate(key[0])
        if rate is None and port.bound is None:
            port.bound = Paused()
        if not quanta:
            port.on(time)
        else:
            port.off(time, None if rate is None else _duration(quanta, rate))
        if port.bound is not None:
            port.bound.off(time, _duration(quanta, FASTEST)) if quanta else port.bound.on(time)


def _duration(quanta: int, rate: int) -> int:
    """Return the duration (ns) of a pause on a link of ``rate`` bit/s."""
    return quanta * PAUSE_QUANTUM_BITS * 10**9 // rate
