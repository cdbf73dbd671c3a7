"""ICMP errors about RoCEv2 and its tunnels: the sender, the kind, and the packets concerned (RFC 792, RFC 4443)."""

from __future__ import annotations

from collections import defaultdict
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lab.analysis.results.analysis_facts import IcmpError
from lab.wire.header_fields import IP_VERSION, IcmpFields, Ipv4Fields, Ipv6Fields, UdpFields
from lab.wire.layers import Header
from lab.wire.udp_ports import GENEVE_PORT, ROCEV2_PORT, UDP, VXLAN_PORTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.analysis.decode.columns import Columns
    from lab.analysis.read.packet_batch import PacketBatch

_IN_IPV4: Final = Header.IPV4 << 32 | 1
_IN_IPV6: Final = Header.IPV6 << 32 | 58
_KINDS: Final = 256
"""Distinct reports that are kept."""
_MOST: Final = 100_000
"""ICMP errors that are parsed, one by one."""
_PORTS: Final = {ROCEV2_PORT: "RoCEv2", GENEVE_PORT: "GENEVE", **dict.fromkeys(VXLAN_PORTS, "VXLAN")}
TOO_BIG: Final = "fragmentation needed"
_V4: Final = {
    (3, 0): "network unreachable",
    (3, 1): "host unreachable",
    (3, 3): "port unreachable",
    (3, 4): TOO_BIG,
    (3, 6): "network unreachable",
    (3, 7): "host unreachable",
    (3, 9): "prohibited",
    (3, 10): "prohibited",
    (3, 13): "prohibited",
    (11, 0): "time exceeded",
}
_V6: Final = {
    (1, 0): "network unreachable",
    (1, 1): "prohibited",
    (1, 3): "host unreachable",
    (1, 4): "port unreachable",
    (1, 5): "prohibited",
    (1, 6): "network unreachable",
    (2, 0): TOO_BIG,
    (3, 0): "time exceeded",
}
"""By type and code."""


class Report(NamedTuple):
    """An ICMP error about packets from ``src`` to ``dst``. ``mtu`` is in bytes of IP, 0 if none is reported."""

    interface: int
    sender: str
    kind: str
    what: str
    src: str
    dst: str
    mtu: int


class IcmpErrors:
    """Counts ICMP errors, by report."""

    def __init__(self) -> None:
        self.reports: dict[Report, int] = defaultdict(int)
        self._looked_at = 0

    def add(self, batch: PacketBatch, columns: Columns) -> None:
        """Read the ICMP errors in a batch."""
        for version, other in ((4, _IN_IPV4), (6, _IN_IPV6)):
            row = np.flatnonzero(columns.other == other)
            ip = columns.ip[row]
            size = Ipv6Fields.SIZE if version == 6 else Ipv4Fields.IHL.gather(batch.data, ip) * Ipv4Fields.WORD
            known = _V4 if version == 4 else _V6
            error = np.isin(batch.data[ip + size], [kind for kind, _ in known])
            for at in row[error][: max(0, _MOST - self._looked_at)].tolist():
                self._looked_at += 1
                self._take(batch, int(columns.ip[at]), at, version)

    def _take(self, batch: PacketBatch, ip: int, row: int, version: int) -> None:
        octets = batch.data[ip : int(batch.start[row] + batch.captured[row])].tobytes()
        message = octets[_ip_size(octets) :]
        kind = (_V4 if version == 4 else _V6).get(_kind(message)) if len(message) > IcmpFields.SIZE else None
        about = None if kind is None else _about(message[IcmpFields.SIZE :])
        if kind is None or about is None:
            return
        sender = (Ipv4Fields if version == 4 else Ipv6Fields).SRC.octets(octets)
        mtu = 0
        if kind == TOO_BIG:
            mtu = (IcmpFields.MTU if version == 4 else IcmpFields.MTU_6).read(message)
        report = Report(int(batch.interface[row]), str(ip_address(sender)), kind, *about, mtu)
        if report in self.reports or len(self.reports) < _KINDS:
            self.reports[report] += 1


def _kind(message: bytes) -> tuple[int, int]:
    return IcmpFields.TYPE.read(message), IcmpFields.CODE.read(message)


def _about(octets: bytes) -> tuple[str, str, str] | None:
    """Return protocol, source and destination of the packet quoted in an error; None if it is irrelevant."""
    version, size = IP_VERSION.read(octets), _ip_size(octets)
    if version not in {4, 6} or size < Ipv4Fields.SIZE or len(octets) < size + UdpFields.DPORT.end:
        return None
    if (Ipv6Fields.NEXT_HEADER if version == 6 else Ipv4Fields.PROTOCOL).read(octets) != UDP:
        return None
    what = _PORTS.get(UdpFields.DPORT.read(octets, size))
    if what is None:
        return None
    fields = Ipv6Fields if version == 6 else Ipv4Fields
    src, dst = fields.SRC.octets(octets), fields.DST.octets(octets)
    return what, str(ip_address(src)), str(ip_address(dst))


def _ip_size(octets: bytes) -> int:
    """Return the bytes of an IP header, without IPv6's extension headers."""
    version_6 = IP_VERSION.read(octets) == 6
    return Ipv6Fields.SIZE if version_6 else Ipv4Fields.IHL.read(octets) * Ipv4Fields.WORD


def icmp_errors(found: IcmpErrors, links: Sequence[str]) -> tuple[IcmpError, ...]:
    """Return all reports as facts; ``links`` are interface names by number."""
    return tuple(
        IcmpError(
            link=links[report.interface],
            sender=report.sender,
            kind=report.kind,
            what=report.what,
            src=report.src,
            dst=report.dst,
            mtu=report.mtu or None,
            packets=count,
        )
        for report, count in sorted(found.reports.items())
    )
