"""The fields of the headers: the only place that states where they are.

``lab.wire.layers`` states how headers follow each other. The decoders of one frame and of whole batches, kernel
filters, the PSN stamper and path sweeps all read the positions here. scapy's layers (``lab.wire.rocev2``,
``lab.wire.ethernet``) and the C programs (``lab/dataplane/bpf``) have their own; tests compare them with these.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from struct import Struct
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection

    import numpy as np
    from numpy.typing import NDArray

_Word = TypeVar("_Word", "int", "NDArray[np.int64]")

_CODES: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}
MAC_BYTES: Final = 6
"""Bytes of a MAC address."""
_GROUP_DIGITS: Final = frozenset("13579bdf")


def is_group_mac(mac: str) -> bool:
    """Return whether ``01:00:5e:00:00:05`` is a group's address: the lowest bit of its first octet is set.

    IEEE 802 section 8.2.2. Broadcast is a group; "" is none.
    """
    return mac[1:2].lower() in _GROUP_DIGITS


class Bits(NamedTuple):
    """A number in a header: offset and width in bytes, shift and mask.

    Without a mask, it is all bits of its bytes.
    """

    at: int
    width: int
    shift: int = 0
    mask: int = -1

    @property
    def end(self) -> int:
        """The offset after its bytes."""
        return self.at + self.width

    @property
    def deciding(self) -> int:
        """Its bits in the word of its bytes, as ones."""
        return (self.mask << self.shift) & ((1 << 8 * self.width) - 1)

    @property
    def most(self) -> int:
        """The largest value."""
        return self.deciding >> self.shift

    def read(self, data: bytes | bytearray | memoryview, start: int = 0) -> int:
        """Return the value in the header at ``start``, whose bytes must be present."""
        at, width, shift, mask = self
        at += start
        word = data[at] if width == 1 else int.from_bytes(data[at : at + width])
        return word >> shift & mask

    def of(self, word: _Word) -> _Word:
        """Return the value in the word of its bytes, or the values in a column of such words."""
        _, _, shift, mask = self
        word = word >> shift if shift else word
        return word if mask == -1 else word & mask

    def gather(self, data: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the value in each header of a column; the headers begin at ``at`` in ``data``."""
        word = data[at + self.at].astype("int64")
        for place in range(self.at + 1, self.end):
            word = word << 8 | data[at + place]
        return self.of(word)

    def octets(self, data: bytes, start: int = 0) -> bytes:
        """Return its bytes in the header at ``start``."""
        return data[start + self.at : start + self.at + self.width]


class HeaderFields:
    """The base of all headers: a class attribute for each field, ``SIZE`` for the bytes without options.

    Fields may overlap: some are parts of others.
    """

    SIZE: ClassVar[int]
    FIELDS: ClassVar[dict[str, Bits]] = {}
    """The fields in the order of their declaration, by their names in lower case."""

    def __init_subclass__(cls) -> None:
        """Collect the fields of a header. ValueError if one exceeds the header."""
        found = {name.lower(): bits for name, bits in vars(cls).items() if isinstance(bits, Bits)}
        cls.FIELDS = {**cls.FIELDS, **found}
        beyond = [name for name, bits in cls.FIELDS.items() if bits.end > cls.SIZE]
        if beyond:
            raise ValueError(f"{cls.__name__} has {cls.SIZE} bytes, not enough for {beyond}")

    @classmethod
    def pack(cls, **values: int) -> bytes:
        """Return the header with these values; all other bits are zero. ValueError if a value has too many bits."""
        placed = []
        for name, value in values.items():
            bits = cls.FIELDS[name]
            if not 0 <= value <= bits.most:
                raise ValueError(f"{name} {value:#x} exceeds {bits.most:#x}")
            placed.append(value << 8 * (cls.SIZE - bits.end) + bits.shift)
        return reduce(or_, placed, 0).to_bytes(cls.SIZE)


def words(*fields: Bits, octets: Collection[Bits] = ()) -> Struct:
    """Return a struct that reads the words of several fields of a header at once, which is fast.

    A word is all bytes of a field; ``Bits.of`` returns the value in it. Fields in ``octets`` are read as bytes.
    ValueError if they overlap, or are not in the order of their offsets.
    """
    layout, at = "!", 0
    for bits in fields:
        if bits.at < at:
            raise ValueError(f"{bits} begins before {at}")
        layout += f"{bits.at - at}x{bits.width}s" if bits in octets else f"{bits.at - at}x{_CODES[bits.width]}"
        at = bits.end
    return Struct(layout)


# Ethernet and MAC control


class EthernetFields(HeaderFields):
    """Ethernet (IEEE 802.3 clause 3) without tags."""

    SIZE = 14
    DST: Final = Bits(0, MAC_BYTES)
    GROUP: Final = Bits(0, MAC_BYTES, 40, 1)
    """The first bit of ``DST`` on the wire: an address of several stations."""
    SRC: Final = Bits(6, MAC_BYTES)
    ETHERTYPE: Final = Bits(12, 2)


class VlanFields(HeaderFields):
    """A VLAN tag after the first EtherType (IEEE 802.1Q clause 9.6)."""

    SIZE = 4
    PCP: Final = Bits(0, 2, 13)
    VLAN: Final = Bits(0, 2, 0, 0xFFF)
    ETHERTYPE: Final = Bits(2, 2)


class MacControlFields(HeaderFields):
    """The opcode of MAC control (IEEE 802.3 clause 31.4)."""

    SIZE = 2
    OPCODE: Final = Bits(0, 2)


class PauseFields(HeaderFields):
    """The operand of Pause (IEEE 802.3 annex 31B), after the opcode."""

    SIZE = 2
    QUANTA: Final = Bits(0, 2)


class PfcFields(HeaderFields):
    """The operands of PFC (IEEE 802.3 annex 31D), after the opcode: class vector, and a time for each class."""

    SIZE = 18
    VECTOR: Final = Bits(0, 2)
    QUANTA: Final = Bits(2, 16)
    """Eight times of two bytes each."""
    CLASSES: Final = 8
    """Priorities that PFC can pause individually (IEEE 802.1Q clause 36)."""


# MPLS, IP and tunnels


class MplsFields(HeaderFields):
    """A label of a stack (RFC 3032 section 2.1)."""

    SIZE = 4
    LABEL: Final = Bits(0, 4, 12)
    BOTTOM: Final = Bits(2, 1, 0, 1)


IP_VERSION: Final = Bits(0, 1, 4)
"""The version in the first byte of IPv4 and IPv6."""


class Ipv4Fields(HeaderFields):
    """IPv4 (RFC 791 section 3.1) without options."""

    SIZE = 20
    VERSION_IHL: Final = Bits(0, 1)
    IHL: Final = Bits(0, 1, 0, 0xF)
    """The header's length in words of ``WORD`` bytes."""
    TOS: Final = Bits(1, 1)
    LENGTH: Final = Bits(2, 2)
    IDENT: Final = Bits(4, 2)
    DONT_FRAGMENT: Final = Bits(6, 2, 14, 1)
    MORE_FRAGMENTS: Final = Bits(6, 2, 13, 1)
    FRAGMENT_OFFSET: Final = Bits(6, 2, 0, 0x1FFF)
    FRAGMENT: Final = Bits(6, 2, 0, 0x3FFF)
    """The two before it: zero in packets that are not fragmented."""
    TTL: Final = Bits(8, 1)
    PROTOCOL: Final = Bits(9, 1)
    CHECKSUM: Final = Bits(10, 2)
    SRC: Final = Bits(12, 4)
    DST: Final = Bits(16, 4)
    WORD: Final = 4
    PLAIN: Final = 0x45
    """``VERSION_IHL`` without options."""


class Ipv6Fields(HeaderFields):
    """IPv6 (RFC 8200 section 3), and the GRH of RoCEv1, whose fields are at the same offsets (IBA vol. 1, 8.3)."""

    SIZE = 40
    VERSION: Final = IP_VERSION
    TOS: Final = Bits(0, 2, 4, 0xFF)
    """The traffic class."""
    FLOW_LABEL: Final = Bits(0, 4, 0, 0xFFFFF)
    LENGTH: Final = Bits(4, 2)
    """Bytes after this header."""
    NEXT_HEADER: Final = Bits(6, 1)
    TTL: Final = Bits(7, 1)
    """The hop limit."""
    SRC: Final = Bits(8, 16)
    DST: Final = Bits(24, 16)


DSCP: Final = Bits(0, 1, 2)
"""In the byte of TOS or traffic class (RFC 2474 section 3)."""
ECN: Final = Bits(0, 1, 0, 3)
"""In the same byte (RFC 3168 section 5)."""
CE: Final = 3
"""ECN: congestion experienced."""


class Ipv6RoutingFields(HeaderFields):
    """IPv6's routing header (RFC 8200 section 4.4)."""

    SIZE = 8
    NEXT_HEADER: Final = Bits(0, 1)
    LENGTH: Final = Bits(1, 1)
    """Words of eight bytes after the first one."""
    TYPE: Final = Bits(2, 1)


class Ipv6FragmentFields(HeaderFields):
    """IPv6's fragment header (RFC 8200 section 4.5)."""

    SIZE = 8
    NEXT_HEADER: Final = Bits(0, 1)
    FRAGMENT_OFFSET: Final = Bits(2, 2, 3)
    MORE_FRAGMENTS: Final = Bits(2, 2, 0, 1)


class UdpFields(HeaderFields):
    """UDP (RFC 768). The ports of TCP are at the same offsets."""

    SIZE = 8
    SPORT: Final = Bits(0, 2)
    DPORT: Final = Bits(2, 2)
    LENGTH: Final = Bits(4, 2)
    CHECKSUM: Final = Bits(6, 2)


class IcmpFields(HeaderFields):
    """ICMP errors (RFC 792, RFC 1191), and those of ICMPv6 (RFC 4443)."""

    SIZE = 8
    TYPE: Final = Bits(0, 1)
    CODE: Final = Bits(1, 1)
    MTU: Final = Bits(6, 2)
    MTU_6: Final = Bits(4, 4)
    """The MTU in ICMPv6."""


class GreFields(HeaderFields):
    """GRE (RFC 2784 and 2890) without checksum, key and sequence number, which exist if their bits are set."""

    SIZE = 4
    CHECKSUM_PRESENT: Final = Bits(0, 1, 7, 1)
    KEY_PRESENT: Final = Bits(0, 1, 5, 1)
    SEQUENCE_PRESENT: Final = Bits(0, 1, 4, 1)
    PROTOCOL: Final = Bits(2, 2)


class VxlanFields(HeaderFields):
    """VXLAN (RFC 7348 section 5)."""

    SIZE = 8
    FLAGS: Final = Bits(0, 1)
    VNI_VALID: Final = Bits(0, 1, 3, 1)
    """The I flag: without it, the VNI is not valid. The other seven flags are reserved."""
    VNI: Final = Bits(4, 4, 8)


class GeneveFields(HeaderFields):
    """GENEVE (RFC 8926 section 3.4) without options."""

    SIZE = 8
    VERSION: Final = Bits(0, 1, 6)
    OPTIONS: Final = Bits(0, 1, 0, 0x3F)
    """Words of four bytes."""
    PROTOCOL: Final = Bits(2, 2)
    VNI: Final = VxlanFields.VNI


# The transport headers of InfiniBand (IBA vol. 1 chapter 9, annexes A10, A14, A17 and A19)


class BthFields(HeaderFields):
    """The base transport header (section 9.2), with FECN and BECN of annex A10."""

    SIZE = 12
    OPCODE: Final = Bits(0, 1)
    SOLICITED: Final = Bits(1, 1, 7, 1)
    MIGREQ: Final = Bits(1, 1, 6, 1)
    PAD: Final = Bits(1, 1, 4, 3)
    TVER: Final = Bits(1, 1, 0, 0xF)
    PKEY: Final = Bits(2, 2)
    FECN: Final = Bits(4, 4, 31, 1)
    BECN: Final = Bits(4, 4, 30, 1)
    DESTQP: Final = Bits(4, 4, 0, 0xFFFFFF)
    ACKREQ: Final = Bits(8, 4, 31, 1)
    PSN: Final = Bits(8, 4, 0, 0xFFFFFF)


class OpcodeFields(HeaderFields):
    """The octet of BTH.OpCode (section 9.2.1)."""

    SIZE = 1
    TRANSPORT: Final = Bits(0, 1, 5)
    OPERATION: Final = Bits(0, 1, 0, 0x1F)


class DethFields(HeaderFields):
    """The datagram extended transport header (section 9.3.2)."""

    SIZE = 8
    QKEY: Final = Bits(0, 4)
    SRCQP: Final = Bits(4, 4, 0, 0xFFFFFF)


class RethFields(HeaderFields):
    """The RDMA extended transport header (section 9.3.3)."""

    SIZE = 16
    VA: Final = Bits(0, 8)
    RKEY: Final = Bits(8, 4)
    DMALEN: Final = Bits(12, 4)


class FethFields(HeaderFields):
    """The flush extended transport header (annex A19)."""

    SIZE = 4
    SEL: Final = Bits(0, 4, 4, 3)
    PLT: Final = Bits(0, 4, 0, 0xF)


class AethFields(HeaderFields):
    """The acknowledge extended transport header (section 9.3.5)."""

    SIZE = 4
    SYNDROME: Final = Bits(0, 4, 24)
    MSN: Final = Bits(0, 4, 0, 0xFFFFFF)


class SyndromeFields(HeaderFields):
    """The octet of the syndrome (section 9.7.5.2). Its top bit is reserved."""

    SIZE = 1
    KIND: Final = Bits(0, 1, 5, 3)
    CODE: Final = Bits(0, 1, 0, 0x1F)


class AtomicEthFields(HeaderFields):
    """The atomic extended transport header (section 9.3.4)."""

    SIZE = 28
    VA: Final = Bits(0, 8)
    RKEY: Final = Bits(8, 4)
    SWAPDT: Final = Bits(12, 8)
    CMPDT: Final = Bits(20, 8)


class AtomicAckEthFields(HeaderFields):
    """The atomic acknowledge extended transport header (section 9.3)."""

    SIZE = 8
    ORIGREMDT: Final = Bits(0, 8)


class ImmDtFields(HeaderFields):
    """Immediate data (section 9.3.6)."""

    SIZE = 4
    IMMDT: Final = Bits(0, 4)


class IethFields(HeaderFields):
    """The invalidate extended transport header (section 9.3)."""

    SIZE = 4
    RKEY: Final = Bits(0, 4)


class XrcEthFields(HeaderFields):
    """The XRC extended transport header (annex A14)."""

    SIZE = 4
    XRCSRQ: Final = Bits(0, 4, 0, 0xFFFFFF)


class RdethFields(HeaderFields):
    """The reliable datagram extended transport header (section 9.3.1)."""

    SIZE = 4
    EECONTEXT: Final = Bits(0, 4, 0, 0xFFFFFF)


class CnpFields(HeaderFields):
    """The reserved octets of a congestion notification packet (annex A17.9.3)."""

    SIZE = 16
