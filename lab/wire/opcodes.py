"""BTH opcodes, their names, and their extension headers (IBA vol. 1 sections 9.2 and 9.3, annex A19)."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final

from lab.wire.header_fields import (
    AethFields,
    AtomicAckEthFields,
    AtomicEthFields,
    CnpFields,
    DethFields,
    FethFields,
    IethFields,
    ImmDtFields,
    OpcodeFields,
    RdethFields,
    RethFields,
    XrcEthFields,
)

RC: Final = 0
UC: Final = 1
RD: Final = 2
UD: Final = 3
XRC: Final = 5
TRANSPORT_NAMES: Final = {RC: "RC", UC: "UC", RD: "RD", UD: "UD", XRC: "XRC"}
"""The transport services by their number, the upper three bits of the opcode."""
_RD: Final = RD << OpcodeFields.TRANSPORT.shift
_XRC: Final = XRC << OpcodeFields.TRANSPORT.shift
_RD_RESYNC: Final = 0x55


class Opcode(IntEnum):
    """The eight bits of BTH.OpCode: three of transport service, five of operation.

    These are the opcodes that RoCE devices send. Those of XRC and RD repeat those of RC; their names and layouts
    follow.
    """

    RC_SEND_FIRST = 0x00
    RC_SEND_MIDDLE = 0x01
    RC_SEND_LAST = 0x02
    RC_SEND_LAST_WITH_IMMEDIATE = 0x03
    RC_SEND_ONLY = 0x04
    RC_SEND_ONLY_WITH_IMMEDIATE = 0x05
    RC_RDMA_WRITE_FIRST = 0x06
    RC_RDMA_WRITE_MIDDLE = 0x07
    RC_RDMA_WRITE_LAST = 0x08
    RC_RDMA_WRITE_LAST_WITH_IMMEDIATE = 0x09
    RC_RDMA_WRITE_ONLY = 0x0A
    RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE = 0x0B
    RC_RDMA_READ_REQUEST = 0x0C
    RC_RDMA_READ_RESPONSE_FIRST = 0x0D
    RC_RDMA_READ_RESPONSE_MIDDLE = 0x0E
    RC_RDMA_READ_RESPONSE_LAST = 0x0F
    RC_RDMA_READ_RESPONSE_ONLY = 0x10
    RC_ACKNOWLEDGE = 0x11
    RC_ATOMIC_ACKNOWLEDGE = 0x12
    RC_CMPSWAP = 0x13
    RC_FETCHADD = 0x14
    RC_SEND_LAST_WITH_INVALIDATE = 0x16
    RC_SEND_ONLY_WITH_INVALIDATE = 0x17
    RC_FLUSH = 0x1C
    """Makes written data visible to all, or persistent; from annex A19, like ATOMIC WRITE."""
    RC_ATOMIC_WRITE = 0x1D
    """Writes eight bytes atomically."""

    UC_SEND_FIRST = 0x20
    UC_SEND_MIDDLE = 0x21
    UC_SEND_LAST = 0x22
    UC_SEND_LAST_WITH_IMMEDIATE = 0x23
    UC_SEND_ONLY = 0x24
    UC_SEND_ONLY_WITH_IMMEDIATE = 0x25
    UC_RDMA_WRITE_FIRST = 0x26
    UC_RDMA_WRITE_MIDDLE = 0x27
    UC_RDMA_WRITE_LAST = 0x28
    UC_RDMA_WRITE_LAST_WITH_IMMEDIATE = 0x29
    UC_RDMA_WRITE_ONLY = 0x2A
    UC_RDMA_WRITE_ONLY_WITH_IMMEDIATE = 0x2B

    UD_SEND_ONLY = 0x64
    UD_SEND_ONLY_WITH_IMMEDIATE = 0x65

    CNP = 0x81
    """Congestion notification packet of RoCEv2 (annex A17.9.3)."""


class Extension(Enum):
    """Headers that may follow the BTH: name and bytes on the wire (IBA vol. 1 section 9.3, annexes A17.9.3, A19)."""

    FETH = ("FETH", FethFields.SIZE)
    RETH = ("RETH", RethFields.SIZE)
    AETH = ("AETH", AethFields.SIZE)
    IMMDT = ("ImmDt", ImmDtFields.SIZE)
    DETH = ("DETH", DethFields.SIZE)
    ATOMIC_ETH = ("AtomicETH", AtomicEthFields.SIZE)
    ATOMIC_ACK_ETH = ("AtomicAckETH", AtomicAckEthFields.SIZE)
    IETH = ("IETH", IethFields.SIZE)
    CNP_RESERVED = ("reserved", CnpFields.SIZE)
    XRCETH = ("XRCETH", XrcEthFields.SIZE)
    RDETH = ("RDETH", RdethFields.SIZE)

    @property
    def label(self) -> str:
        """The specification's abbreviation."""
        return self.value[0]

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return self.value[1]


_RETH = (Extension.RETH,)
_AETH = (Extension.AETH,)
_IMMDT = (Extension.IMMDT,)
_EXTENSIONS: Final = {
    Opcode.RC_SEND_LAST_WITH_IMMEDIATE: _IMMDT,
    Opcode.RC_SEND_ONLY_WITH_IMMEDIATE: _IMMDT,
    Opcode.RC_RDMA_WRITE_FIRST: _RETH,
    Opcode.RC_RDMA_WRITE_LAST_WITH_IMMEDIATE: _IMMDT,
    Opcode.RC_RDMA_WRITE_ONLY: _RETH,
    Opcode.RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE: _RETH + _IMMDT,
    Opcode.RC_RDMA_READ_REQUEST: _RETH,
    Opcode.RC_RDMA_READ_RESPONSE_FIRST: _AETH,
    Opcode.RC_RDMA_READ_RESPONSE_LAST: _AETH,
    Opcode.RC_RDMA_READ_RESPONSE_ONLY: _AETH,
    Opcode.RC_ACKNOWLEDGE: _AETH,
    Opcode.RC_ATOMIC_ACKNOWLEDGE: (Extension.AETH, Extension.ATOMIC_ACK_ETH),
    Opcode.RC_CMPSWAP: (Extension.ATOMIC_ETH,),
    Opcode.RC_FETCHADD: (Extension.ATOMIC_ETH,),
    Opcode.RC_SEND_LAST_WITH_INVALIDATE: (Extension.IETH,),
    Opcode.RC_SEND_ONLY_WITH_INVALIDATE: (Extension.IETH,),
    Opcode.RC_FLUSH: (Extension.FETH, Extension.RETH),
    Opcode.RC_ATOMIC_WRITE: _RETH,
    Opcode.UC_SEND_LAST_WITH_IMMEDIATE: _IMMDT,
    Opcode.UC_SEND_ONLY_WITH_IMMEDIATE: _IMMDT,
    Opcode.UC_RDMA_WRITE_FIRST: _RETH,
    Opcode.UC_RDMA_WRITE_LAST_WITH_IMMEDIATE: _IMMDT,
    Opcode.UC_RDMA_WRITE_ONLY: _RETH,
    Opcode.UC_RDMA_WRITE_ONLY_WITH_IMMEDIATE: _RETH + _IMMDT,
    Opcode.UD_SEND_ONLY: (Extension.DETH,),
    Opcode.UD_SEND_ONLY_WITH_IMMEDIATE: (Extension.DETH, Extension.IMMDT),
    Opcode.CNP: (Extension.CNP_RESERVED,),
}
_SPELLED: Final = {
    "FIRST": "First",
    "MIDDLE": "Middle",
    "LAST": "Last",
    "ONLY": "Only",
    "WITH": "with",
    "IMMEDIATE": "Immediate",
    "INVALIDATE": "Invalidate",
    "REQUEST": "Request",
    "RESPONSE": "response",
    "ACKNOWLEDGE": "Acknowledge",
    "CMPSWAP": "CmpSwap",
    "FETCHADD": "FetchAdd",
}


def _spelled(opcode: Opcode) -> str:
    return " ".join(_SPELLED.get(word, word) for word in opcode.name.split("_"))


def _operations() -> dict[int, Opcode]:
    """Return all opcodes. XRC has those of RC (annex A14), and RD has those without Invalidate (table 38)."""
    shared = [opcode for opcode in Opcode if opcode <= Opcode.RC_SEND_ONLY_WITH_INVALIDATE]
    rd = {_RD | opcode: opcode for opcode in shared if opcode <= Opcode.RC_FETCHADD}
    return {int(opcode): opcode for opcode in Opcode} | {_XRC | opcode: opcode for opcode in shared} | rd


OPERATIONS: Final = _operations()
"""By value of BTH.OpCode: its operation; for XRC and RD, that of the same opcode of RC."""


def is_answer(opcode: Opcode) -> bool:
    """Return whether the opcode goes from responder to requester."""
    return "RESPONSE" in opcode.name or "ACKNOWLEDGE" in opcode.name


def _layout(value: int, opcode: Opcode) -> tuple[Extension, ...]:
    """Return the extension headers. XRC requests begin with XRCETH, RD packets with RDETH."""
    rest = _EXTENSIONS.get(opcode, ())
    if OpcodeFields.TRANSPORT.of(value) == XRC:
        return rest if is_answer(opcode) else (Extension.XRCETH, *rest)
    if OpcodeFields.TRANSPORT.of(value) == RD:
        return (Extension.RDETH, *rest) if is_answer(opcode) else (Extension.RDETH, Extension.DETH, *rest)
    return rest


def _name(value: int, opcode: Opcode) -> str:
    name = _spelled(opcode)
    return name if value == opcode else name.replace("RC", TRANSPORT_NAMES[OpcodeFields.TRANSPORT.of(value)], 1)


OPCODE_NAMES: Final = {value: _name(value, opcode) for value, opcode in OPERATIONS.items()} | {
    _RD_RESYNC: "RD RESYNC"
}
"""Names as the specification spells them, transport first: ``RC RDMA WRITE First``."""
_LAYOUTS: Final = {value: _layout(value, opcode) for value, opcode in OPERATIONS.items()} | {
    _RD_RESYNC: (Extension.RDETH, Extension.DETH)
}


def opcode_name(value: int) -> str:
    """Return the name of an opcode; if it is not assigned, its transport and number."""
    name = OPCODE_NAMES.get(value)
    transport = TRANSPORT_NAMES.get(OpcodeFields.TRANSPORT.of(value), "reserved")
    return name or f"{transport} opcode {value:#04x}"


def extensions(value: int) -> tuple[Extension, ...]:
    """Return the headers between BTH and payload, in wire order; none for an unknown opcode."""
    return _LAYOUTS.get(value, ())
