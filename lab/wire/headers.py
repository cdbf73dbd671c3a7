"""RoCEv2's headers and MAC control's operands as values, read from their octets without scapy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from struct import Struct
from typing import Final

from lab.units import quanta_to_seconds
from lab.wire.syndrome import Syndrome

CLASSES: Final = 8
"""Priorities that PFC can pause, each by itself (IEEE 802.1Q clause 36)."""

_BTH: Final = Struct("!BBHII")
_DETH: Final = Struct("!II")
_RETH: Final = Struct("!QII")
_ATOMIC_ETH: Final = Struct("!QIQQ")
_PFC: Final = Struct("!H8H")
_WORD: Final = Struct("!I")
_LOW_24: Final = 0xFFFFFF
PSN_HALF: Final = 1 << 23
"""Half of the ring of PSNs: a PSN less than that ahead of another one is after it (IBA vol. 1, 9.7.1)."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A VLAN tag (IEEE 802.1Q clause 9.6); VLAN 0 means none, so that only the priority counts."""

    vlan: int
    pcp: int


@dataclass(frozen=True, slots=True)
class Bth:
    """The base transport header (IBA vol. 1 section 9.2); FECN and BECN as annex A10 has them."""

    opcode: int
    solicited: bool
    migreq: bool
    pad: int
    tver: int
    pkey: int
    fecn: bool
    becn: bool
    destqp: int
    ackreq: bool
    psn: int

    @classmethod
    def unpack(cls, data: bytes, offset: int = 0) -> Bth:
        """The header at ``offset``, where 12 bytes must be."""
        opcode, flags, pkey, destqp, psn = _BTH.unpack_from(data, offset)
        return cls(
            opcode=opcode,
            solicited=flags & 0x80 != 0,
            migreq=flags & 0x40 != 0,
            pad=flags >> 4 & 3,
            tver=flags & 0x0F,
            pkey=pkey,
            fecn=destqp & 0x80000000 != 0,
            becn=destqp & 0x40000000 != 0,
            destqp=destqp & _LOW_24,
            ackreq=psn & 0x80000000 != 0,
            psn=psn & _LOW_24,
        )


@dataclass(frozen=True, slots=True)
class Deth:
    """Who sends a datagram (section 9.3.2): the queue key that must match the receiver's, and the sender's QP."""

    qkey: int
    srcqp: int

    @classmethod
    def unpack(cls, data: bytes, offset: int = 0) -> Deth:
        """The header at ``offset``, where 8 bytes must be."""
        qkey, srcqp = _DETH.unpack_from(data, offset)
        return cls(qkey, srcqp & _LOW_24)


@dataclass(frozen=True, slots=True)
class Reth:
    """Where a WRITE, READ or FLUSH goes (section 9.3.3): virtual address, remote key, bytes of the whole message."""

    va: int
    rkey: int
    dmalen: int

    @classmethod
    def unpack(cls, data: bytes, offset: int = 0) -> Reth:
        """The header at ``offset``, where 16 bytes must be."""
        return cls(*_RETH.unpack_from(data, offset))


class Selectivity(IntEnum):
    """How much a FLUSH is about (annex A19): the bytes that the RETH names, or the whole region of its R_Key."""

    RANGE = 0
    REGION = 1


class Placement(IntFlag):
    """What a FLUSH promises of the data that came before it (annex A19)."""

    GLOBAL_VISIBILITY = 1
    PERSISTENCE = 2


@dataclass(frozen=True, slots=True)
class Feth:
    """What a FLUSH does (annex A19): a ``Selectivity`` and a ``Placement``, or one of their reserved values."""

    sel: int
    plt: int

    @classmethod
    def unpack(cls, data: bytes, offset: int = 0) -> Feth:
        """The header at ``offset``, where 4 bytes must be."""
        (word,) = _WORD.unpack_from(data, offset)
        return cls(word >> 4 & 3, word & 0xF)


@dataclass(frozen=True, slots=True)
class AtomicEth:
    """An atomic operation on eight bytes (section 9.3.4).

    CmpSwap writes ``swapdt`` if ``cmpdt`` is there; FetchAdd adds ``swapdt`` and ignores ``cmpdt``.
    """

    va: int
    rkey: int
    swapdt: int
    cmpdt: int = 0

    @classmethod
    def unpack(cls, data: bytes, offset: int = 0) -> AtomicEth:
        """The header at ``offset``, where 28 bytes must be."""
        return cls(*_ATOMIC_ETH.unpack_from(data, offset))


@dataclass(frozen=True, slots=True)
class Aeth:
    """A responder's answer (section 9.3.5): syndrome, and the count of messages it has completed."""

    syndrome: Syndrome
    msn: int

    @classmethod
    def unpack(cls, data: bytes, offset: int = 0) -> Aeth:
        """The header at ``offset``, where 4 bytes must be."""
        (word,) = _WORD.unpack_from(data, offset)
        return cls(Syndrome.decode(word >> 24), word & _LOW_24)


@dataclass(frozen=True, slots=True)
class PauseFrame:
    """A whole link told to stop for ``quanta``, or with zero to go on (IEEE 802.3 annex 31B)."""

    quanta: int

    def seconds(self, rate: int) -> float:
        """How long that is on a link of ``rate`` bit/s."""
        return quanta_to_seconds(self.quanta, rate)


@dataclass(frozen=True, slots=True)
class PfcFrame:
    """Classes told to stop, each for its own time (IEEE 802.3 annex 31D, 802.1Q clause 36).

    ``vector`` is the 16-bit priority_enable_vector; ``quanta`` has a value for each of the eight classes, of which
    only those that the vector enables mean anything.
    """

    vector: int
    quanta: tuple[int, ...]

    @classmethod
    def of(cls, classes: dict[int, int]) -> PfcFrame:
        """The operands that enable just ``classes``, which maps each to its quanta."""
        vector = sum(1 << priority for priority in classes)
        return cls(vector, tuple(classes.get(priority, 0) for priority in range(CLASSES)))

    @classmethod
    def unpack(cls, data: bytes, offset: int = 0) -> PfcFrame:
        """The operands at ``offset``, where 18 bytes must be."""
        vector, *quanta = _PFC.unpack_from(data, offset)
        return cls(vector, tuple(quanta))

    @property
    def classes(self) -> dict[int, int]:
        """The enabled classes and their quanta; zero lets a class go on (XON)."""
        return {priority: self.quanta[priority] for priority in range(CLASSES) if self.vector >> priority & 1}

    def seconds(self, rate: int) -> dict[int, float]:
        """How long each enabled class pauses on a link of ``rate`` bit/s."""
        return {priority: quanta_to_seconds(quanta, rate) for priority, quanta in self.classes.items()}
