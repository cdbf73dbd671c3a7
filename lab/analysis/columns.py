"""Headers of a whole batch at once: a gather per layer, then arithmetic on columns.

Understood are Ethernet with VLAN tags, MAC control, IPv4 and IPv6 without extension headers, UDP, RoCEv2, and VXLAN
with all of these inside once more. Offsets come from the packets, so every one is checked before it is followed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.wire.opcodes import ROCEV2_PORT, Extension, extensions

if TYPE_CHECKING:
    from lab.analysis.batch import Batch, Flags, Ints, Octets

VXLAN_PORT: Final = 4789
"""UDP destination port of VXLAN (RFC 7348 section 5)."""
_ETHERNET: Final = np.dtype([("dst", "V6"), ("src", "V6"), ("type", ">u2")])
_TAG: Final = np.dtype([("tci", ">u2"), ("type", ">u2")])
_IPV4: Final = np.dtype(
    {
        "names": ["first", "tos", "total", "fragment", "ttl", "protocol", "src", "dst"],
        "formats": ["u1", "u1", ">u2", ">u2", "u1", "u1", ">u4", ">u4"],
        "offsets": [0, 1, 2, 6, 8, 9, 12, 16],
        "itemsize": 40,
    }
)
_IPV6: Final = np.dtype(
    {
        "names": ["first", "size", "protocol", "ttl", "src", "dst"],
        "formats": [">u4", ">u2", "u1", "u1", (">u4", 4), (">u4", 4)],
        "offsets": [0, 4, 6, 7, 8, 24],
        "itemsize": 40,
    }
)
_UDP: Final = np.dtype(  # and the words behind it, where the BTH and what follows it is
    {
        "names": ["sport", "dport", "size", "flags", "vni", "opcode", "bits", "destqp", "psn", "ext"],
        "formats": [">u2", ">u2", ">u2", "u1", ">u4", "u1", "u1", ">u4", ">u4", (">u4", 7)],
        "offsets": [0, 2, 4, 8, 12, 8, 9, 12, 16, 20],
        "itemsize": 48,
    }
)
_BEHIND: Final = (1, 3)
"""Words that AETH or RETH can be behind: of XRCETH, FETH or RDETH, and of RDETH and DETH."""
_DMALEN: Final = 3
"""The word of a RETH that is DMALen."""
CE: Final = 3
"""ECN: congestion experienced (RFC 3168 section 5)."""
_CUSTOMER_TAG: Final = 0x8100
_SERVICE_TAG: Final = 0x88A8
_MOST_TAGS: Final = 8
_MAC_CONTROL: Final = 0x8808
_UDP_NUMBER: Final = 17
_FRAGMENT: Final = 0x3FFF
_VNI_FLAG: Final = 0x08
_BTH_SIZE: Final = 12
_ICRC_SIZE: Final = 4
_EXTENSIONS: Final = np.array([sum(extension.size for extension in extensions(code)) for code in range(256)])


def _words_before(wanted: Extension) -> Ints:
    """By opcode: 4-byte words between the BTH and this header, -1 where the opcode has none."""
    orders = [extensions(code) for code in range(256)]
    return np.array(
        [sum(e.size for e in order[: order.index(wanted)]) // 4 if wanted in order else -1 for order in orders]
    )


RETH_AT: Final = _words_before(Extension.RETH)
AETH_AT: Final = _words_before(Extension.AETH)
"""By opcode: words between the BTH and the header, -1 where there is none."""


class Fault(IntEnum):
    """Why decoding a packet stopped; ``FAULTS`` has the words.

    At ``SHORT`` it did not: a mirror cut the packet before its length was written, and what is there is decoded.
    """

    NONE = 0
    CUT = 1
    TAGS = 2
    IPV4 = 3
    IPV6 = 4
    SHORT = 5
    UDP_LENGTH = 6
    BTH = 7
    EXTENSION = 8
    PADDING = 9


FAULTS: Final = {
    Fault.CUT: "ends before its headers do",
    Fault.TAGS: f"has more than {_MOST_TAGS} VLAN tags",
    Fault.IPV4: "has a damaged IPv4 header",
    Fault.IPV6: "has a damaged IPv6 header",
    Fault.UDP_LENGTH: "has a UDP length that IP has no room for",
    Fault.BTH: "has no room for BTH and ICRC in its UDP datagram",
    Fault.EXTENSION: "has no room for the headers that its opcode calls for",
    Fault.PADDING: "has a PadCnt beyond its payload",
}


class Kind(IntEnum):
    """What a packet is, as far as this analysis cares; inside VXLAN, what is inside."""

    OTHER = 0
    ROCE = 1
    CONTROL = 2


@dataclass(slots=True)
class Columns:
    """One entry per packet. Addresses are four rows of words (IPv4 mapped into IPv6), zero where there is no IP.

    ``vni`` is -1 outside VXLAN; ``ecn`` is the outer header's unless only the inner one says CE; ``ttl`` is the outer
    one. ``ip``, ``udp`` and ``udp_end`` index the buffer and are those of the inner packet.
    """

    kind: Ints
    fault: Ints
    vni: Ints
    src: Ints
    dst: Ints
    ecn: Ints
    ttl: Ints
    ip: Ints
    udp: Ints
    udp_end: Ints
    l2: Ints


@dataclass(slots=True)
class Roce:
    """The RoCEv2 packets: ``row`` in the batch, and the fields of BTH, RETH and AETH (IBA vol. 1 chapter 9).

    ``payload`` is bytes without padding; ``dmalen``, ``syndrome`` and ``msn`` are -1 where there is no RETH or AETH.
    """

    row: Ints
    opcode: Ints
    destqp: Ints
    psn: Ints
    ackreq: Flags
    payload: Ints
    dmalen: Ints
    syndrome: Ints
    msn: Ints


def rows(data: Octets, at: Ints, size: int) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """``size`` bytes from each place, in one copy."""
    return np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))[at]


def decode(batch: Batch) -> tuple[Columns, Roce]:
    """Decode every packet of the batch."""
    end = batch.start + batch.captured
    wire_end = batch.start + batch.length
    columns, udp = layers(batch.data, batch.start, end, wire_end)
    tunnel = np.flatnonzero((udp["dport"] == VXLAN_PORT) & (columns.udp > 0) & (udp["flags"] & _VNI_FLAG != 0))
    inner_end = np.minimum(end, columns.udp_end)[tunnel]
    fits = columns.udp[tunnel] + 16 <= inner_end
    tunnel, inner_end = tunnel[fits], inner_end[fits]
    if len(tunnel):
        inner, inner_udp = layers(batch.data, columns.udp[tunnel] + 16, inner_end, columns.udp_end[tunnel])
        inner.vni = (udp["vni"][tunnel] >> 8).astype(np.int64)
        inner.ttl = columns.ttl[tunnel]
        inner.ecn = np.where(inner.ecn == CE, CE, columns.ecn[tunnel])
        for name in Columns.__slots__:
            getattr(columns, name)[..., tunnel] = getattr(inner, name)
        udp[tunnel] = inner_udp
    return columns, _roce(columns, udp, end)


def layers(data: Octets, start: Ints, end: Ints, wire_end: Ints) -> tuple[Columns, np.ndarray]:
    """Columns of the outermost headers of frames, and their UDP headers with what is behind them."""
    count = len(start)
    fault = np.where(start + 14 <= end, Fault.NONE, Fault.CUT)
    ether = rows(data, np.where(fault == 0, start, 0), 14).view(_ETHERNET)["type"].astype(np.int64)
    l3 = _skip_tags(data, ether, start + 14, end, fault)
    zeros = np.zeros(count, np.int64)
    columns = Columns(
        kind=np.where((ether == _MAC_CONTROL) & (fault == 0) & (l3 + 20 <= end), Kind.CONTROL, Kind.OTHER),
        fault=fault,
        vni=np.full(count, -1),
        src=np.zeros((4, count), np.int64),
        dst=np.zeros((4, count), np.int64),
        ecn=zeros.copy(),
        ttl=zeros.copy(),
        ip=l3,
        udp=zeros.copy(),
        udp_end=zeros.copy(),
        l2=start.copy(),
    )
    ip_end = zeros.copy()
    _ipv4(data, (ether == 0x0800) & (fault == 0), (end, wire_end), columns, ip_end)
    _ipv6(data, np.flatnonzero((ether == 0x86DD) & (fault == 0)), end, columns, ip_end)
    return columns, _udp(data, columns, end, wire_end, ip_end)


def _skip_tags(data: Octets, ether: Ints, l3: Ints, end: Ints, fault: Ints) -> Ints:
    """Step over VLAN tags (IEEE 802.1Q); ``ether`` becomes the type behind them."""
    for _ in range(_MOST_TAGS):
        tagged = np.flatnonzero(_tagged(ether) & (fault == 0))
        if not len(tagged):
            return l3
        whole = l3[tagged] + 4 <= end[tagged]
        fault[tagged[~whole]] = Fault.CUT
        tagged = tagged[whole]
        ether[tagged] = rows(data, l3[tagged], 4).view(_TAG)["type"]
        l3[tagged] += 4
    fault[_tagged(ether) & (fault == 0)] = Fault.TAGS
    return l3


def _tagged(ether: Ints) -> Flags:
    tagged: Flags = (ether == _CUSTOMER_TAG) | (ether == _SERVICE_TAG)
    return tagged


def _ipv4(data: Octets, here: Flags, ends: tuple[Ints, Ints], columns: Columns, ip_end: Ints) -> None:
    """On whole columns, what is no IPv4 included: choosing rows takes longer, and mostly all of them are IPv4."""
    l3, (end, wire_end) = columns.ip, ends
    whole = here & (l3 + 20 <= end)
    columns.fault[here & ~whole] = Fault.CUT
    head = rows(data, np.where(whole, l3, 0), 40).view(_IPV4)
    size, total = (head["first"] & 15).astype(np.int64) * 4, head["total"].astype(np.int64)
    total = np.where(total == 0, wire_end - l3, total)  # more than 16 bits hold, as BIG TCP leaves it
    good = whole & (head["first"] >> 4 == 4) & (size >= 20) & (total >= size)
    columns.fault[whole & ~good] = Fault.IPV4
    columns.src[2] = columns.dst[2] = np.where(whole, 0xFFFF, 0)
    for column, field in ((columns.src[3], "src"), (columns.dst[3], "dst"), (columns.ttl, "ttl")):
        np.copyto(column, head[field], where=whole)
    np.copyto(columns.ecn, head["tos"] & 3, where=whole)
    udp = good & (head["protocol"] == _UDP_NUMBER) & (head["fragment"] & _FRAGMENT == 0)
    columns.udp[:] = np.where(udp, l3 + size, 0)
    ip_end[:] = np.where(good, l3 + total, 0)


def _ipv6(data: Octets, at: Ints, end: Ints, columns: Columns, ip_end: Ints) -> None:
    if not len(at):
        return
    l3 = columns.ip[at]
    whole = _present(columns, at, l3 + 40 <= end[at])
    at, l3 = at[whole], l3[whole]
    head = rows(data, l3, 40).view(_IPV6)
    good = head["first"] >> 28 == 6
    columns.fault[at[~good]] = Fault.IPV6
    columns.src[:, at], columns.dst[:, at] = head["src"].T, head["dst"].T
    columns.ecn[at], columns.ttl[at] = head["first"] >> 20 & 3, head["ttl"]
    columns.udp[at] = np.where(good & (head["protocol"] == _UDP_NUMBER), l3 + 40, 0)
    ip_end[at] = np.where(good, l3 + 40 + head["size"], 0)


def _present(columns: Columns, at: Ints, whole: Flags) -> Flags:
    columns.fault[at[~whole]] = Fault.CUT
    return whole


def _udp(data: Octets, columns: Columns, end: Ints, wire_end: Ints, ip_end: Ints) -> np.ndarray:
    beyond = ip_end > wire_end
    columns.fault[beyond] = Fault.SHORT
    cut = (columns.udp > 0) & (columns.udp + 8 > end)
    columns.fault[cut] = Fault.CUT
    columns.udp[cut] = 0
    head = rows(data, columns.udp, 48).view(_UDP)
    size = head["size"].astype(np.int64)
    wrong = (columns.udp > 0) & ((size < 8) | (size > ip_end - columns.udp))
    columns.fault[wrong] = Fault.UDP_LENGTH
    columns.udp[wrong] = 0
    columns.udp_end[:] = np.where(columns.udp > 0, columns.udp + size, 0)
    return head


def _roce(columns: Columns, udp: np.ndarray, end: Ints) -> Roce:
    row = np.flatnonzero((udp["dport"] == ROCEV2_PORT) & (columns.udp > 0))
    if len(row) < len(udp):
        udp = udp[row]
    bth, trailer = columns.udp[row] + 8, columns.udp_end[row] - _ICRC_SIZE
    after = bth + _BTH_SIZE + _EXTENSIONS[udp["opcode"]]
    payload = trailer - after - (udp["bits"] >> 4 & 3)
    good = (payload >= 0) & (after <= end[row])
    if not good.all():
        wrong = _roce_fault(bth + _BTH_SIZE, after, trailer, end[row], good)
        columns.fault[row[~good]] = wrong[~good]
        row, udp, payload = row[good], udp[good], payload[good]
    columns.kind[row] = Kind.ROCE
    opcode, psn = udp["opcode"].astype(np.int64), udp["psn"].astype(np.int64)
    aeth = _word(opcode, AETH_AT, udp["ext"], 0)
    return Roce(
        row=row,
        opcode=opcode,
        destqp=udp["destqp"].astype(np.int64) & 0xFFFFFF,
        psn=psn & 0xFFFFFF,
        ackreq=psn >> 31 != 0,
        payload=payload,
        dmalen=_word(opcode, RETH_AT, udp["ext"], _DMALEN),
        syndrome=aeth >> 24,
        msn=np.where(aeth < 0, -1, aeth & 0xFFFFFF),
    )


def _word(opcode: Ints, at: Ints, words: np.ndarray, offset: int) -> Ints:
    """One word of a header that opcodes have first, or behind others; -1 where there is none."""
    found = np.where(at[opcode] == 0, words[:, offset].astype(np.int64), -1)
    for before in _BEHIND:
        np.copyto(found, words[:, offset + before], where=at[opcode] == before)
    return found


def _roce_fault(bth_end: Ints, after: Ints, trailer: Ints, end: Ints, good: Flags) -> Ints:
    """Why packets are not good, the first reason first."""
    return np.select(
        [good, trailer < bth_end, bth_end > end, trailer < after, after > end],
        [Fault.NONE, Fault.BTH, Fault.CUT, Fault.EXTENSION, Fault.CUT],
        Fault.PADDING,
    )
