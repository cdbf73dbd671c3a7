"""RoCEv2 headers and MAC control operands as values, decoded without scapy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any, Final

from lab.units import quanta_to_seconds
from lab.wire.header_fields import (
    AethFields,
    AtomicEthFields,
    BthFields,
    DethFields,
    EthernetFields,
    FethFields,
    PfcFields,
    RethFields,
    words,
)
from lab.wire.syndrome import Syndrome
from lab.wire.udp_ports import PAUSE_OPCODE, PFC_OPCODE

PAUSE_ADDRESS: Final = 0x0180C2000001
"""Destination address of Pause and PFC frames (IEEE 802.3 annex 31B, IEEE 802.1Q clause 36)."""
CLASSES: Final = PfcFields.CLASSES
"""Priorities that PFC can pause individually (IEEE 802.1Q clause 36)."""
_TIME: Final = PfcFields.QUANTA.width // CLASSES

_BTH: Final = words(BthFields.OPCODE, BthFields.PAD, BthFields.PKEY, BthFields.DESTQP, BthFields.PSN)
_SOLICITED: Final = BthFields.SOLICITED.deciding
_MIGREQ: Final = BthFields.MIGREQ.deciding
_TVER: Final = BthFields.TVER.deciding
_FECN: Final = BthFields.FECN.deciding
_BECN: Final = BthFields.BECN.deciding
_DESTQP: Final = BthFields.DESTQP.deciding
_ACKREQ: Final = BthFields.ACKREQ.deciding
_PSN: Final = BthFields.PSN.deciding
_DETH: Final = words(DethFields.QKEY, DethFields.SRCQP)
_RETH: Final = words(RethFields.VA, RethFields.RKEY, RethFields.DMALEN)
_ATOMIC_ETH: Final = words(AtomicEthFields.VA, AtomicEthFields.RKEY, AtomicEthFields.SWAPDT, AtomicEthFields.CMPDT)

PSN_MASK: Final = BthFields.PSN.most
"""The largest PSN; the next one is 0."""
PSN_HALF: Final = 1 << 23
"""Half of the PSN space: a PSN is after another if it is less than this ahead of it (IBA vol. 1, 9.7.1)."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A VLAN tag (IEEE 802.1Q clause 9.6). VLAN 0 is no VLAN; such a tag only has a priority."""

    vlan: int
    pcp: int


@dataclass(frozen=True, slots=True)
class Bth:
    """The base transport header (IBA vol. 1 section 9.2), with FECN and BECN of annex A10."""

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
        """Decode the header at ``offset``, which must have 12 bytes."""
        opcode, flags, pkey, destqp, psn = _BTH.unpack_from(data, offset)
        return cls(
            opcode=opcode,
            solicited=flags & _SOLICITED != 0,
            migreq=flags & _MIGREQ != 0,
            pad=BthFields.PAD.of(flags),
            tver=flags & _TVER,
            pkey=pkey,
            fecn=destqp & _FECN != 0,
            becn=destqp & _BECN != 0,
            destqp=destqp & _DESTQP,
            ackreq=psn & _ACKREQ != 0,
            psn=psn & _PSN,
        )


@dataclass(frozen=True, slots=True)
class Deth:
    """The sender of a datagram (section 9.3.2): queue key, which must match the receiver's, and QP."""

    qkey: int
    srcqp: int

    @classmethod
    def unpack(cls, data: bytes, offset: int = 0) -> Deth:
        """Decode the header at ``offset``, which must have 8 bytes."""
        qkey, srcqp = _DETH.unpack_from(data, offset)
        return cls(qkey, DethFields.SRCQP.of(srcqp))


@dataclass(frozen=True, slots=True)
class Reth:
    """The target of a WRITE, READ or FLUSH (section 9.3.3): virtual address, remote key, bytes of the message."""

    va: int
    rkey: int
    dmalen: int

    @classmethod
    def unpack(cls, data: bytes, offset: int = 0) -> Reth:
        """Decode the header at ``offset``, which must have 16 bytes."""
        va, rkey, dmalen = _RETH.unpack_from(data, offset)
        return cls(va=va, rkey=rkey, dmalen=dmalen)


class Selectivity(IntEnum):
    """The extent of a FLUSH (annex A19): the bytes in the RETH, or the whole region of its R_Key."""

    RANGE = 0
    REGION = 1


class Placement(IntFlag):
    """The guarantee of a FLUSH for the data before it (annex A19)."""

    GLOBAL_VISIBILITY = 1
    PERSISTENCE = 2


@dataclass(frozen=True, slots=True)
class Feth:
    """The parameters of a FLUSH (annex A19): a ``Selectivity`` and a ``Placement``, or reserved values of them."""

    sel: int
    plt: int

    @classmethod
    def unpack(cls, data: bytes, offset: int = 0) -> Feth:
        """Decode the header at ``offset``, which must have 4 bytes."""
        return cls(FethFields.SEL.read(data, offset), FethFields.PLT.read(data, offset))


@dataclass(frozen=True, slots=True)
class AtomicEth:
    """An atomic operation on eight bytes (section 9.3.4).

    CmpSwap writes ``swapdt`` if the memory equals ``cmpdt``. FetchAdd adds ``swapdt`` and ignores ``cmpdt``.
    """

    va: int
    rkey: int
    swapdt: int
    cmpdt: int = 0

    @classmethod
    def unpack(cls, data: bytes, offset: int = 0) -> AtomicEth:
        """Decode the header at ``offset``, which must have 28 bytes."""
        va, rkey, swapdt, cmpdt = _ATOMIC_ETH.unpack_from(data, offset)
        return cls(va=va, rkey=rkey, swapdt=swapdt, cmpdt=cmpdt)


@dataclass(frozen=True, slots=True)
class Aeth:
    """A responder's answer (section 9.3.5): syndrome, and the number of completed messages."""

    syndrome: Syndrome
    msn: int

    @classmethod
    def unpack(cls, data: bytes, offset: int = 0) -> Aeth:
        """Decode the header at ``offset``, which must have 4 bytes."""
        return cls(Syndrome.decode(AethFields.SYNDROME.read(data, offset)), AethFields.MSN.read(data, offset))


def is_stray_pause(opcode: Any, destination: Any) -> Any:
    """Return whether receivers ignore a MAC control frame for its destination address, or which of two columns.

    Only Pause and PFC are judged. A Pause frame may also have the station's own address (IEEE 802.3 annex 31B), but
    PFC may not (annex 31D). A destination of 0 is unknown: captures of some link types contain none.
    """
    to_group = EthernetFields.GROUP.of(destination) == 1
    is_flow_control = (opcode == PFC_OPCODE) | ((opcode == PAUSE_OPCODE) & to_group)
    return is_flow_control & (destination != PAUSE_ADDRESS) & (destination != 0)


@dataclass(frozen=True, slots=True)
class PauseFrame:
    """A pause of the whole link for ``quanta``; zero resumes it (IEEE 802.3 annex 31B)."""

    quanta: int

    def seconds(self, rate: int) -> float:
        """Return the duration of the pause on a link of ``rate`` bit/s, in seconds."""
        return quanta_to_seconds(self.quanta, rate)


@dataclass(frozen=True, slots=True)
class PfcFrame:
    """Pauses of single classes, each for its own time (IEEE 802.3 annex 31D, 802.1Q clause 36).

    ``vector`` is the 16-bit priority_enable_vector. ``quanta`` has a value for each of the eight classes; only those
    of enabled classes have a meaning.
    """

    vector: int
    quanta: tuple[int, ...]

    @classmethod
    def of(cls, classes: dict[int, int]) -> PfcFrame:
        """Return the operands that enable exactly ``classes``, a mapping to quanta."""
        vector = sum(1 << priority for priority in classes)
        return cls(vector, tuple(classes.get(priority, 0) for priority in range(CLASSES)))

    @classmethod
    def unpack(cls, data: bytes, offset: int = 0) -> PfcFrame:
        """Decode the operands at ``offset``, which must have 18 bytes."""
        times = PfcFields.QUANTA.octets(data, offset)
        quanta = tuple(int.from_bytes(times[at : at + _TIME]) for at in range(0, len(times), _TIME))
        return cls(PfcFields.VECTOR.read(data, offset), quanta)

    @property
    def classes(self) -> dict[int, int]:
        """The enabled classes and their quanta; zero resumes a class (XON)."""
        return {priority: self.quanta[priority] for priority in range(CLASSES) if self.vector >> priority & 1}

    def seconds(self, rate: int) -> dict[int, float]:
        """Return the pause of each enabled class on a link of ``rate`` bit/s, in seconds."""
        return {priority: quanta_to_seconds(quanta, rate) for priority, quanta in self.classes.items()}
