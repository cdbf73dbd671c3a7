"""Decode the end of a frame: the RoCE headers after the BTH, and the operands of MAC control."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lab.wire import icrc, mad
from lab.wire.header_fields import (
    AtomicAckEthFields,
    IethFields,
    ImmDtFields,
    MacControlFields,
    PauseFields,
    PfcFields,
    XrcEthFields,
)
from lab.wire.headers import Aeth, AtomicEth, Bth, Deth, Feth, PauseFrame, PfcFrame, Reth
from lab.wire.layers import RULES
from lab.wire.opcodes import Extension, extensions
from lab.wire.udp_ports import PAUSE_OPCODE, PFC_OPCODE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.wire.frame import DecodedFrame
    from lab.wire.walk import HeaderWalk


class Stop(Exception):
    """Decoding cannot continue; the text says why."""


class Octets(NamedTuple):
    """The captured bytes of a packet of ``length`` bytes on the wire."""

    data: bytes
    length: int

    def need(self, end: int, what: str) -> None:
        """Raise Stop if ``what``, which ends at byte ``end``, was not captured."""
        if end > len(self.data):
            raise Stop(self.cut(end, what))

    def cut(self, end: int, what: str) -> str:
        """Return the text for missing bytes."""
        cause = "cut by the snap length" if self.length > len(self.data) else "truncated"
        return f"{cause}: {what} would end at byte {end}, captured are {len(self.data)}"


def mac_control(frame: DecodedFrame, octets: Octets, start: int) -> None:
    """Decode Pause (IEEE 802.3 annex 31B) and PFC (annex 31D); other opcodes are given as a number."""
    data, operands = octets.data, start + MacControlFields.SIZE
    opcode = MacControlFields.OPCODE.read(data, start)
    if opcode == PAUSE_OPCODE:
        octets.need(operands + PauseFields.SIZE, "pause_time")
        frame.pause = PauseFrame(PauseFields.QUANTA.read(data, operands))
        frame.protocol = "Pause"
    elif opcode == PFC_OPCODE:
        octets.need(operands + PfcFields.SIZE, "the time vector")
        frame.pfc = PfcFrame.unpack(data, operands)
        frame.protocol = "PFC"
    else:
        frame.protocol = f"MAC control opcode {opcode:#06x}"


def roce(frame: DecodedFrame, octets: Octets, found: HeaderWalk) -> None:
    """Decode the BTH, which is the walk's last header, and what follows it."""
    data = octets.data
    offset, after, end = found.layers[-1].at, found.layers[-1].after, found.end
    trailer = end - icrc.SIZE
    if trailer < after:
        carrier = RULES[found.layers[-2].header].name
        raise Stop(f"{carrier} has {end - offset} bytes, BTH and ICRC need {after - offset + icrc.SIZE}")
    frame.bth = Bth.unpack(data, offset)
    offset = _behind(after, trailer, extensions(frame.bth.opcode))
    if trailer - offset < frame.bth.pad:
        raise Stop(f"PadCnt {frame.bth.pad} exceeds the payload of {trailer - offset} bytes")
    frame.payload = trailer - offset - frame.bth.pad
    _extensions(frame, octets, after, extensions(frame.bth.opcode))
    if frame.deth is not None and frame.bth.destqp <= mad.GENERAL_QP:
        frame.mad = mad.parse(data[offset : min(trailer, offset + mad.SIZE)])


def _read(frame: DecodedFrame, data: bytes, offset: int, extension: Extension) -> None:
    """Decode one extension header. The reserved octets of a CNP, and RDETH, have no fields here."""
    match extension:
        case Extension.DETH:
            frame.deth = Deth.unpack(data, offset)
        case Extension.FETH:
            frame.feth = Feth.unpack(data, offset)
        case Extension.RETH:
            frame.reth = Reth.unpack(data, offset)
        case Extension.ATOMIC_ETH:
            frame.atomiceth = AtomicEth.unpack(data, offset)
        case Extension.AETH:
            frame.aeth = Aeth.unpack(data, offset)
        case Extension.ATOMIC_ACK_ETH:
            frame.origremdt = AtomicAckEthFields.ORIGREMDT.read(data, offset)
        case Extension.IMMDT:
            frame.immdt = ImmDtFields.IMMDT.read(data, offset)
        case Extension.IETH:
            frame.ieth = IethFields.RKEY.read(data, offset)
        case Extension.XRCETH:
            frame.xrcsrq = XrcEthFields.XRCSRQ.read(data, offset)
        case _:
            pass


def _behind(offset: int, trailer: int, headers: Sequence[Extension]) -> int:
    """Return the offset after these extension headers; raise Stop if there is no room for them."""
    for extension in headers:
        offset += extension.size
        if offset > trailer:
            raise Stop(f"no room for {extension.label} between BTH and ICRC")
    return offset


def _extensions(frame: DecodedFrame, octets: Octets, offset: int, headers: Sequence[Extension]) -> None:
    """Decode the extension headers of the opcode, as far as they were captured."""
    for extension in headers:
        octets.need(offset + extension.size, extension.label)
        _read(frame, octets.data, offset, extension)
        offset += extension.size
