"""What is at the end of a walk: RoCE's headers behind the BTH, and the operands of MAC control."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from lab.wire import icrc, mad
from lab.wire.headers import Aeth, AtomicEth, Bth, Deth, Feth, Pause, Pfc, Reth
from lab.wire.layers import RULES
from lab.wire.opcodes import Extension, extensions
from lab.wire.ports import PAUSE_OPCODE, PFC_OPCODE

if TYPE_CHECKING:
    from lab.wire.frame import Frame
    from lab.wire.walk import Walk

_WORD: Final = Struct("!I")
_LONG: Final = Struct("!Q")
_SHORT: Final = Struct("!H")
_LOW_24: Final = 0xFFFFFF
_PFC_OPERANDS: Final = 18  # the vector and eight times


class Stop(Exception):
    """Decoding cannot go on; the text says why."""


def need(frame: Frame, data: bytes, end: int, what: str) -> None:
    """Stop where what ends at byte ``end`` was not captured."""
    if end > len(data):
        raise Stop(cut(what, end, len(data), snapped=frame.length > len(data)))


def cut(what: str, end: int, captured: int, *, snapped: bool) -> str:
    """What is to be said then; ``snapped``: there was more on the wire."""
    cause = "cut by the snap length" if snapped else "truncated"
    return f"{cause}: {what} would end at byte {end}, captured are {captured}"


def mac_control(frame: Frame, data: bytes, start: int) -> None:
    """PAUSE (IEEE 802.3 annex 31B) and PFC (annex 31D); other opcodes are named by their number."""
    operands = start + _SHORT.size
    need(frame, data, operands, "the MAC control opcode")
    (opcode,) = _SHORT.unpack_from(data, start)
    if opcode == PAUSE_OPCODE:
        need(frame, data, operands + _SHORT.size, "pause_time")
        frame.pause = Pause(*_SHORT.unpack_from(data, operands))
        frame.protocol = "Pause"
    elif opcode == PFC_OPCODE:
        need(frame, data, operands + _PFC_OPERANDS, "the time vector")
        frame.pfc = Pfc.unpack(data, operands)
        frame.protocol = "PFC"
    else:
        frame.protocol = f"MAC control opcode {opcode:#06x}"


def roce(frame: Frame, data: bytes, found: Walk) -> None:
    """The BTH, which is the walk's last header, and what follows it."""
    offset, after, end = found.layers[-1].at, found.layers[-1].after, found.end
    trailer = end - icrc.SIZE
    if trailer < after:
        carrier = RULES[found.layers[-2].header].name
        raise Stop(f"{carrier} has {end - offset} bytes, BTH and ICRC need {after - offset + icrc.SIZE}")
    frame.bth = Bth.unpack(data, offset)
    offset = _extensions(frame, data, after, trailer)
    if trailer - offset < frame.bth.pad:
        raise Stop(f"PadCnt {frame.bth.pad} exceeds the payload of {trailer - offset} bytes")
    frame.payload = trailer - offset - frame.bth.pad
    if frame.deth is not None and frame.bth.destqp <= mad.GENERAL_QP:
        frame.mad = mad.parse(data[offset : min(trailer, offset + mad.SIZE)])


def _read(frame: Frame, data: bytes, offset: int, extension: Extension) -> None:
    """Fill in what one extension header says; the reserved octets of a CNP say nothing, RD is only named."""
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
            (frame.origremdt,) = _LONG.unpack_from(data, offset)
        case _:
            _read_word(frame, _WORD.unpack_from(data, offset)[0], extension)


def _read_word(frame: Frame, word: int, extension: Extension) -> None:
    match extension:
        case Extension.IMMDT:
            frame.immdt = word
        case Extension.IETH:
            frame.ieth = word
        case Extension.XRCETH:
            frame.xrcsrq = word & _LOW_24
        case _:
            pass


def _extensions(frame: Frame, data: bytes, offset: int, trailer: int) -> int:
    """Read what the opcode says follows the BTH; the offset after it."""
    for extension in extensions(frame.bth.opcode) if frame.bth else ():
        after = offset + extension.size
        if after > trailer:
            raise Stop(f"no room for {extension.label} between BTH and ICRC")
        need(frame, data, after, extension.label)
        _read(frame, data, offset, extension)
        offset = after
    return offset
