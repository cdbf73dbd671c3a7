"""Decode the header fields of a whole batch at once, as columns.

The header walk finds the offsets of headers; fields are then gathered and computed for all packets together. RoCEv2
on plain IPv4, which nearly all packets are, takes a short cut: one gather for all headers. Both use the header
layouts of ``lab.wire.layers``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.decode import opcode_tables as ops
from lab.analysis.decode.field_columns import read_column, record
from lab.analysis.decode.header_walk_columns import Strata
from lab.analysis.read.packet_batch import places, rows
from lab.wire import icrc
from lab.wire.header_fields import (
    CE,
    DSCP,
    ECN,
    AethFields,
    Bits,
    BthFields,
    DethFields,
    EthernetFields,
    Ipv4Fields,
    Ipv6Fields,
    MacControlFields,
    PfcFields,
    RethFields,
    UdpFields,
    VlanFields,
    VxlanFields,
)
from lab.wire.layers import BTH_HEADERS, IP_HEADERS, VNI_HEADERS, Header, WalkStop
from lab.wire.opcodes import Extension, extensions
from lab.wire.udp_ports import IPV4_TYPE, ROCEV2_PORT, UDP

if TYPE_CHECKING:
    from lab.analysis.decode.header_walk_columns import Stratum
    from lab.analysis.read.packet_batch import Flags, Ints, Octets, PacketBatch

_IP_AT: Final = EthernetFields.SIZE
_UDP_AT: Final = _IP_AT + Ipv4Fields.SIZE
_BTH_AT: Final = _UDP_AT + UdpFields.SIZE
_BTH_SIZE: Final = BthFields.SIZE
_WORD: Final = 4
_EXTENSION_WORDS: Final = 7
_BTH_TAKEN: Final = _BTH_SIZE + _WORD * _EXTENSION_WORDS
_TYPE_AND_IP: Final = Bits(EthernetFields.ETHERTYPE.at, EthernetFields.ETHERTYPE.width + Ipv4Fields.TOS.end)
"""The EtherType, and the first bytes of IPv4: version, IHL and TOS."""
_HEAD: Final = record(
    _BTH_AT + _BTH_TAKEN,
    {
        "plain": (0, _TYPE_AND_IP),
        "tos": (_IP_AT, Ipv4Fields.TOS),
        "total": (_IP_AT, Ipv4Fields.LENGTH),
        "ident": (_IP_AT, Ipv4Fields.IDENT),
        "fragment": (_IP_AT, Ipv4Fields.FRAGMENT),
        "ttl": (_IP_AT, Ipv4Fields.TTL),
        "protocol": (_IP_AT, Ipv4Fields.PROTOCOL),
        "src": (_IP_AT, Ipv4Fields.SRC),
        "dst": (_IP_AT, Ipv4Fields.DST),
        "dport": (_UDP_AT, UdpFields.DPORT),
        "size": (_UDP_AT, UdpFields.LENGTH),
        "opcode": (_BTH_AT, BthFields.OPCODE),
        "pad": (_BTH_AT, BthFields.PAD),
        "destqp": (_BTH_AT, BthFields.DESTQP),
        "psn": (_BTH_AT, BthFields.PSN),
        "ext": (_BTH_AT, Bits(_BTH_SIZE, _WORD * _EXTENSION_WORDS)),
    },
    bth=(f"V{_BTH_TAKEN}", _BTH_AT),
)
"""The fields in Ethernet, IPv4 without options, UDP, BTH, and the words after the BTH."""
_PLAIN: Final = (IPV4_TYPE << 8 | Ipv4Fields.PLAIN) << 8
_PLAIN_MASK: Final = 0xFFFFFF00
_IPV4: Final = record(
    Ipv4Fields.SIZE,
    {name: (0, Ipv4Fields.FIELDS[name]) for name in ("tos", "ident", "ttl", "src", "dst")},
)
_IPV6: Final = record(Ipv6Fields.SIZE, {name: (0, Ipv6Fields.FIELDS[name]) for name in ("tos", "ttl", "src", "dst")})
_MAPPED: Final = 0xFFFF
_BEHIND: Final = (1, 3)
"""Words that can precede an AETH or RETH: 1 for XRCETH, FETH or RDETH, 3 for RDETH and DETH."""
_DMALEN: Final = RethFields.DMALEN.at // _WORD
"""Index of DMALen in the words of a RETH."""
UNKNOWN: Final = -2
"""``Roce.dmalen`` if the RETH was not captured."""
_SRCQP: Final = DethFields.SRCQP.at // _WORD
"""Index of SrcQP in the words of a DETH, which a datagram has first."""
_CONTROL_SIZE: Final = MacControlFields.SIZE + PfcFields.SIZE
_EXTENSIONS: Final = np.array([sum(extension.size for extension in extensions(code)) for code in range(256)])


def _words_before(wanted: Extension) -> Ints:
    """Return, by opcode, the 4-byte words between the BTH and ``wanted``; -1 if the opcode lacks that header."""
    orders = [extensions(code) for code in range(256)]
    return np.array(
        [sum(e.size for e in order[: order.index(wanted)]) // _WORD if wanted in order else -1 for order in orders]
    )


RETH_AT: Final = _words_before(Extension.RETH)
AETH_AT: Final = _words_before(Extension.AETH)
"""By opcode: 4-byte words between the BTH and the header, -1 if the opcode lacks it."""


FAULTS: Final = {
    WalkStop.CUT: "ends before its headers do",
    WalkStop.ROOM: "has no room for a header in what carries it",
    WalkStop.DEEP: "has too many headers, or tunnels in tunnels",
    WalkStop.IPV4: "has a damaged IPv4 header",
    WalkStop.IPV6: "has a damaged IPv6 header",
    WalkStop.UDP_LENGTH: "has a UDP length that IP has no room for",
    WalkStop.TUNNEL: "has a damaged tunnel header",
    WalkStop.BTH: "has no room for BTH and ICRC in its datagram",
    WalkStop.EXTENSION: "has no room for the headers that its opcode calls for",
    WalkStop.PADDING: "has a PadCnt beyond its payload",
}


class PacketClass(IntEnum):
    """The class of a packet in this analysis; for a tunnelled packet, that of the inner packet."""

    OTHER = 0
    ROCE = 1
    CONTROL = 2


@dataclass(slots=True)
class Columns:
    """One entry per packet. Addresses are four rows of 32-bit words, IPv4 mapped into IPv6; zero without IP.

    * ``vni``: of the innermost tunnel that has one, else -1.
    * ``ecn``: of the outer IP header, or CE if an inner header has CE.
    * ``dscp``, ``ttl``: of the outer IP header. ``pcp``: of the first VLAN tag, -1 without one.
    * ``inner_ttl``: of the innermost IP header in a tunnel, 0 without a tunnel.
    * ``ident``: IPv4 Identification of the innermost IP header.
    * ``ip``, ``bth``, ``bth_end``: offsets into the buffer, in the innermost packet; zero if absent. For MAC control,
      ``ip`` is the offset of its opcode.
    * ``l2``: offset of the innermost Ethernet header.
    * ``other``: the header or protocol at which decoding stopped, for ``other_name``; -1 if nothing remains.
    """

    kind: Ints
    fault: Ints
    vni: Ints
    src: Ints
    dst: Ints
    ecn: Ints
    dscp: Ints
    pcp: Ints
    ttl: Ints
    inner_ttl: Ints
    ident: Ints
    ip: Ints
    bth: Ints
    bth_end: Ints
    l2: Ints
    other: Ints


@dataclass(slots=True)
class Roce:
    """The RoCEv2 packets: ``row`` in the batch, and the fields of BTH, RETH and AETH (IBA vol. 1 chapter 9).

    ``payload`` is in bytes, without padding. ``dmalen``, ``syndrome`` and ``msn`` are -1 without a RETH or AETH. A
    datagram has no MSN: ``msn`` is the SrcQP of its DETH, because each sender of a QP has PSNs of its own. If the
    capture truncated the packet after the BTH, ``dmalen`` is ``UNKNOWN``, and the others are -1.
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


def decode(batch: PacketBatch) -> tuple[Columns, Roce]:
    """Decode every packet of the batch."""
    end = batch.start + batch.captured
    wire_end = batch.start + batch.length
    head = rows(batch.data, batch.start, _HEAD.itemsize).view(_HEAD)
    columns = _short_cut(head, batch.start, end, wire_end)
    rest = np.flatnonzero(columns.bth == 0)
    if len(rest):
        strata = Strata(batch.data, batch.start[rest], end[rest], wire_end[rest])
        _fill(columns, rest, strata, end[rest])
        head["bth"][rest] = rows(batch.data, columns.bth[rest], _BTH_TAKEN)
    return columns, _roce(columns, head, end)


def _short_cut(head: np.ndarray, start: Ints, end: Ints, wire_end: Ints) -> Columns:
    """Return the columns of RoCEv2 on plain IPv4. Entries of all other packets stay empty."""
    total, size = head["total"].astype(np.int64), head["size"].astype(np.int64)
    here = (head["plain"] & _PLAIN_MASK == _PLAIN) & (head["protocol"] == UDP) & (head["dport"] == ROCEV2_PORT)
    here &= (Ipv4Fields.FRAGMENT.of(head["fragment"]) == 0) & (start + (_BTH_AT + _BTH_SIZE) <= end)
    here &= (size >= _BTH_AT + _BTH_SIZE - _UDP_AT) & (size <= total - (_UDP_AT - _IP_AT))
    count, mask = len(start), -here.astype(np.int64)
    src, dst = np.zeros((4, count), np.int64), np.zeros((4, count), np.int64)
    src[2] = dst[2] = mask & _MAPPED
    src[3], dst[3] = head["src"] & mask, head["dst"] & mask
    return Columns(
        kind=np.zeros(count, np.int64),
        fault=np.where(here & (start + _IP_AT + total > wire_end), WalkStop.SHORT, WalkStop.NONE),
        vni=np.full(count, -1),
        src=src,
        dst=dst,
        ecn=head["tos"] & ECN.mask & mask,
        dscp=head["tos"] >> DSCP.shift & mask,
        pcp=np.full(count, -1),
        ttl=head["ttl"] & mask,
        inner_ttl=np.zeros(count, np.int64),
        ident=head["ident"] & mask,
        ip=start + _IP_AT & mask,
        bth=start + _BTH_AT & mask,
        bth_end=start + _UDP_AT + size & mask,
        l2=start,
        other=np.full(count, -1),
    )


def _fill(columns: Columns, rest: Ints, strata: Strata, captured_end: Ints) -> None:
    """Fill in the columns of the packets in ``rest``, from the outermost header to the innermost."""
    seen = np.zeros(len(rest), np.bool_)
    columns.l2 = columns.l2.copy()
    _addresses(columns, rest, strata)
    for stratum in strata.strata:
        row = places(rest[stratum.row], len(columns.bth))
        if stratum.header is Header.ETHERNET:
            columns.l2[row] = stratum.at
        elif stratum.header in IP_HEADERS:
            _network(columns, row, stratum, seen[stratum.row])
            seen[stratum.row] = True
        elif stratum.header in VNI_HEADERS:
            columns.vni[row] = vni(stratum)
        elif stratum.header is Header.VLAN:
            pcp = read_column(VlanFields.PCP, stratum.octets)
            columns.pcp[row] = np.where(columns.pcp[row] < 0, pcp, columns.pcp[row])
        elif stratum.header is Header.MAC_CONTROL:
            columns.ip[row] = stratum.at
            whole = stratum.at + _CONTROL_SIZE <= captured_end[stratum.row]
            columns.kind[rest[stratum.row[whole]]] = PacketClass.CONTROL
        elif stratum.header in BTH_HEADERS:
            columns.bth[row], columns.bth_end[row] = stratum.at, strata.end[stratum.row]
    columns.other[rest] = strata.other
    columns.fault[rest] = np.where(strata.short & (strata.fault == 0), WalkStop.SHORT, strata.fault)


def vni(stratum: Stratum) -> Ints:
    """Return the VNIs of VXLAN or GENEVE headers."""
    return read_column(VxlanFields.VNI, stratum.octets)


def _addresses(columns: Columns, rest: Ints, strata: Strata) -> None:
    """Fill in the addresses of the innermost IP headers, each row once."""
    told = np.zeros(len(rest), np.bool_)
    for stratum in reversed(strata.strata):
        if stratum.header not in IP_HEADERS:
            continue
        fresh = ~told[stratum.row]
        row, octets = (stratum.row, stratum.octets) if fresh.all() else (stratum.row[fresh], stratum.octets[fresh])
        told[row] = True
        head, where = _ip(stratum.header, octets), places(rest[row], len(columns.bth))
        for words, name in ((columns.src, "src"), (columns.dst, "dst")):
            if stratum.header is Header.IPV4:
                words[2][where], words[3][where] = _MAPPED, head[name]
            else:
                for index in range(4):
                    words[index][where] = head[name][:, index]


def _network(columns: Columns, row: Ints | slice, stratum: Stratum, again: Flags) -> None:
    """Fill in the other fields of an IP header. ``again`` marks packets that had an outer IP header."""
    head = _ip(stratum.header, stratum.octets)
    tos = (Ipv4Fields if stratum.header is Header.IPV4 else Ipv6Fields).TOS.of(head["tos"].astype(np.int64))
    ecn = ECN.of(tos)
    columns.ident[row] = head["ident"] if stratum.header is Header.IPV4 else 0
    columns.ip[row] = stratum.at
    if not again.any():
        columns.ecn[row], columns.dscp[row], columns.ttl[row] = ecn, DSCP.of(tos), head["ttl"]
        return
    columns.dscp[row] = np.where(again, columns.dscp[row], DSCP.of(tos))
    columns.ecn[row] = np.where(again & (ecn != CE), columns.ecn[row], ecn)
    columns.inner_ttl[row] = np.where(again, head["ttl"], 0)
    columns.ttl[row] = np.where(again, columns.ttl[row], head["ttl"])


def _ip(header: Header, octets: Octets) -> np.ndarray:
    return np.ascontiguousarray(octets).view(_IPV4 if header is Header.IPV4 else _IPV6).ravel()


def _roce(columns: Columns, head: np.ndarray, end: Ints) -> Roce:
    row = np.flatnonzero(columns.bth > 0)
    if len(row) < len(head):
        head = head[row]
    bth_end, trailer = columns.bth[row] + _BTH_SIZE, columns.bth_end[row] - icrc.SIZE
    after = bth_end + _EXTENSIONS[head["opcode"]]
    payload = trailer - after - BthFields.PAD.of(head["pad"])
    good = payload >= 0
    if not good.all():
        columns.fault[row[~good]] = _roce_fault(bth_end, after, trailer)[~good]
        row, head, payload, bth_end, after = (column[good] for column in (row, head, payload, bth_end, after))
    columns.kind[row] = PacketClass.ROCE
    opcode, psn = head["opcode"].astype(np.int64), head["psn"].astype(np.int64)
    dmalen, aeth = _word(opcode, RETH_AT, head["ext"], _DMALEN), _word(opcode, AETH_AT, head["ext"], 0)
    if (cut := after > end[row]).any():
        words = np.where(cut, (end[row] - bth_end) // _WORD, _EXTENSION_WORDS)
        dmalen[(dmalen >= 0) & (RETH_AT[opcode] + _DMALEN >= words)] = UNKNOWN
        aeth[AETH_AT[opcode] >= words] = -1
    msn = np.where(aeth < 0, -1, AethFields.MSN.of(aeth))
    if (datagram := ops.DATAGRAM[opcode]).any():
        np.copyto(msn, DethFields.SRCQP.of(head["ext"][:, _SRCQP].astype(np.int64)), where=datagram & ~cut)
    return Roce(
        row=row,
        opcode=opcode,
        destqp=BthFields.DESTQP.of(head["destqp"].astype(np.int64)),
        psn=BthFields.PSN.of(psn),
        ackreq=BthFields.ACKREQ.of(psn) != 0,
        payload=payload,
        dmalen=dmalen,
        syndrome=AethFields.SYNDROME.of(aeth),
        msn=msn,
    )


def _word(opcode: Ints, at: Ints, words: np.ndarray, offset: int) -> Ints:
    """Return one word of a header that comes first or after others, by opcode; -1 if the opcode lacks the header."""
    found = np.where(at[opcode] == 0, words[:, offset].astype(np.int64), -1)
    for before in _BEHIND:
        np.copyto(found, words[:, offset + before], where=at[opcode] == before)
    return found


def _roce_fault(bth_end: Ints, after: Ints, trailer: Ints) -> Ints:
    """Return the first check that each invalid packet fails."""
    return np.select([trailer < bth_end, trailer < after], [WalkStop.BTH, WalkStop.EXTENSION], WalkStop.PADDING)
