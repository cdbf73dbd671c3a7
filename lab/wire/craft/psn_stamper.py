"""Produce copies of a RoCEv2 frame that differ only in PSN, without scapy, at high packet rates."""

from __future__ import annotations

from struct import Struct
from typing import Final

from lab.wire import icrc
from lab.wire.frame import decode
from lab.wire.header_fields import BthFields, UdpFields
from lab.wire.layers import Header
from lab.wire.walk import walk

_STAMPED: Final = {
    Header.ETHERNET, Header.VLAN, Header.IPV4, Header.IPV6, Header.UDP, Header.VXLAN, Header.BTH,
}  # fmt: skip
_WORD: Final = Struct("!I")
_SHORT: Final = Struct("!H")
_PSN: Final = BthFields.PSN.deciding
_ONES: Final = 0xFFFF
"""Modulus of the Internet checksum. 2**16 is 1 modulo it, so a 32-bit word counts as the sum of its halves."""


class Template:
    """Writes PSNs into a frame and updates its ICRC. A wrong ICRC stays wrong by the same bits.

    The frame may have VXLAN tunnels and VLAN tags, but no IPv6 extension headers. A UDP checksum is updated; a
    missing one stays absent. ValueError if it is not a complete RoCEv2 frame.
    """

    def __init__(self, frame: bytes) -> None:
        ip, transport = _innermost(frame)
        self._frame = bytearray(frame)
        self._checksum_at = transport + UdpFields.CHECKSUM.at
        self._word_at = transport + UdpFields.SIZE + BthFields.PSN.at
        self._trailer = len(frame) - icrc.SIZE
        self._flags = _WORD.unpack_from(frame, self._word_at)[0] & ~_PSN
        self._head, self._rest_at = icrc.begin(frame[ip : self._trailer], transport - ip)
        self._rest_at += ip
        self._spoilt = 0
        self._spoilt = self._seal() ^ _WORD.unpack_from(frame, self._trailer)[0]
        self._others = self._sum_of_others()

    def stamp(self, psn: int) -> bytes:
        """Return the frame with this PSN; only the low 24 bits are used."""
        frame = self._frame
        word = self._flags | psn & _PSN
        _WORD.pack_into(frame, self._word_at, word)
        seal = self._seal()
        _WORD.pack_into(frame, self._trailer, seal)
        if self._others is not None:
            _SHORT.pack_into(frame, self._checksum_at, _ONES - (self._others + word + seal) % _ONES)
        return bytes(frame)

    def _seal(self) -> int:
        rest = memoryview(self._frame)[self._rest_at : self._trailer]
        return int.from_bytes(icrc.finish(self._head, rest)) ^ self._spoilt

    def _sum_of_others(self) -> int | None:
        """Return the part of a correct UDP checksum that excludes PSN and ICRC; None without a checksum.

        Outer checksums need no update: a datagram with a correct checksum contributes a constant to them.
        """
        (checksum,) = _SHORT.unpack_from(self._frame, self._checksum_at)
        words = (_WORD.unpack_from(self._frame, offset)[0] for offset in (self._word_at, self._trailer))
        return (-checksum - sum(words)) % _ONES if checksum else None


def _innermost(data: bytes) -> tuple[int, int]:
    """Return the offsets of the innermost IP and UDP headers; ValueError if it is not a complete RoCEv2 frame."""
    frame = decode(data)
    if frame.damage or frame.cut:
        raise ValueError(frame.damage or "the IP packet ends beyond the frame")
    layers = walk(data, len(data)).layers
    if layers[-1].header is not Header.BTH or not {layer.header for layer in layers} <= _STAMPED:
        raise ValueError(f"{frame.protocol} is no template")
    datagrams = [layer.at for layer in layers if layer.header is Header.UDP]
    checksums = [UdpFields.CHECKSUM.read(data, at) != 0 for at in datagrams]
    if any(checksums[:-1]) and not checksums[-1]:
        raise ValueError("the tunnel has a UDP checksum and what it carries has none")
    return layers[-3].at, layers[-2].at
