"""Summarise a frame in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.units import format_time, quanta_to_seconds
from lab.wire.opcodes import opcode_name

if TYPE_CHECKING:
    from lab.wire.frame import DecodedFrame
    from lab.wire.headers import Bth
    from lab.wire.mad import Mad

ECN_NAMES: Final = ("Not-ECT", "ECT(1)", "ECT(0)", "CE")
"""The ECN field (RFC 3168 section 5), by value."""
_SERVICES: Final = {179: "BGP", 3784: "BFD", 3785: "BFD echo", 5201: "iperf3"}


def describe(frame: DecodedFrame, rate: int | None = None) -> str:
    """Return a line ``10.0.0.1 > 10.0.0.2 RC Acknowledge QP 0x000011 PSN 7 MSN 3 ACK 62 bytes ...`` in ASCII.

    ``rate``, in bit/s of the link, converts the quanta of pause frames to times. Inner frames follow after a bar.
    """
    parts = [f"{frame.src} > {frame.dst}", _what(frame)]
    if frame.bth is not None:
        parts += _rocev2(frame, frame.bth)
    parts += _pauses(frame, rate)
    if frame.vni is not None:
        parts.append(f"VNI {frame.vni}")
    parts.append(f"{frame.length} bytes")
    parts += _tags(frame)
    if frame.dscp is not None and frame.ecn is not None:
        parts.append(f"DSCP {frame.dscp} {ECN_NAMES[frame.ecn]}")
    if frame.icrc is not None:
        parts.append(f"ICRC {frame.icrc.value}")
    parts += [f"[{remark}]" for remark in _remarks(frame)]
    if frame.inner is not None:
        parts.append(f"| {describe(frame.inner, rate)}")
    return "  ".join(parts)


def _tags(frame: DecodedFrame) -> list[str]:
    found = []
    if frame.vlan is not None:
        stacked = "" if frame.svlan is None else f" in {frame.svlan}"
        found.append(f"VLAN {frame.vlan}{stacked} PCP {frame.pcp}")
    return [*found, "MPLS " + "/".join(map(str, frame.mpls))] if frame.mpls else found


def _remarks(frame: DecodedFrame) -> list[str]:
    fragment = "first fragment" if frame.fragment else ""
    short = "cut before its length was written" if frame.short else ""
    return [remark for remark in (fragment, short, frame.fault) if remark]


def _what(frame: DecodedFrame) -> str:
    if frame.bth is not None:
        return opcode_name(frame.bth.opcode)
    if frame.sport is None or frame.dport is None:
        return frame.protocol
    service = _SERVICES.get(frame.dport) or _SERVICES.get(frame.sport)
    name = f"{frame.protocol}/{service}" if service else frame.protocol
    return f"{name} {frame.sport} > {frame.dport}"


def _rocev2(frame: DecodedFrame, bth: Bth) -> list[str]:
    parts = [f"QP {bth.destqp:#08x}", f"PSN {bth.psn}"]
    parts += [name for name, there in (("AckReq", bth.ackreq), ("FECN", bth.fecn), ("BECN", bth.becn)) if there]
    parts += [] if frame.xrcsrq is None else [f"SRQ {frame.xrcsrq:#08x}"]
    if frame.deth is not None:
        parts.append(f"from QP {frame.deth.srcqp:#08x} Q_Key {frame.deth.qkey:#x}")
    parts += [] if frame.mad is None else _management(frame.mad)
    if frame.feth is not None:
        parts.append(f"SEL {frame.feth.sel} PLT {frame.feth.plt:#x}")
    if frame.reth is not None:
        parts.append(f"VA {frame.reth.va:#x} R_Key {frame.reth.rkey:#x} DMALen {frame.reth.dmalen}")
    if (atomic := frame.atomiceth) is not None:
        parts.append(f"VA {atomic.va:#x} R_Key {atomic.rkey:#x} SwapDt {atomic.swapdt:#x} CmpDt {atomic.cmpdt:#x}")
    if frame.aeth is not None:
        parts.append(f"MSN {frame.aeth.msn} {frame.aeth.syndrome}")
    words = (("OrigRemDt", frame.origremdt), ("ImmDt", frame.immdt), ("invalidates R_Key", frame.ieth))
    parts += [f"{name} {word:#x}" for name, word in words if word is not None]
    if frame.payload:
        parts.append(f"payload {frame.payload}")
    return parts


def _management(mad: Mad) -> list[str]:
    parts = [mad.name]
    parts += [
        f"{whose} {number:#x}" for whose, number in (("ID", mad.local), ("to ID", mad.remote)) if number is not None
    ]
    if mad.qpn is not None:
        parts.append(f"own QP {mad.qpn:#08x} first PSN {mad.psn}")
    return parts


def _pauses(frame: DecodedFrame, rate: int | None) -> list[str]:
    if frame.pause is not None:
        return [_paused("", frame.pause.quanta, rate)]
    if frame.pfc is not None:
        return [_paused(f"class {priority} ", quanta, rate) for priority, quanta in frame.pfc.classes.items()]
    return []


def _paused(whose: str, quanta: int, rate: int | None) -> str:
    if quanta == 0:
        return f"{whose}XON"
    span = "" if rate is None else f" = {format_time(quanta_to_seconds(quanta, rate))}"
    return f"{whose}XOFF {quanta} quanta{span}"
