"""ICMP errors about RoCEv2 and its tunnels: the sender, the kind, and the packets concerned (RFC 792, RFC 4443)."""

from __future__ import annotations

from collections import defaultdict
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lab.analysis.results.analysis_facts import IcmpError
from lab.wire.layers import Header
from lab.wire.udp_ports import GENEVE_PORT, ROCEV2_PORT, UDP, VXLAN_PORTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.analysis.decode.columns import Columns
    from lab.analysis.read.packet_batch import PacketBatch

_IN_IPV4: Final = Header.IPV4 << 32 | 1
_IN_IPV6: Final = Header.IPV6 << 32 | 58
_HEAD: Final = 8
_LEAST_IP: Final = 20
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
            size = 40 if version == 6 else (batch.data[ip].astype(np.int64) & 15) * 4
            known = _V4 if version == 4 else _V6
            error = np.isin(batch.data[ip + size], [kind for kind, _ in known])
            for at in row[error][: max(0, _MOST - self._looked_at)].tolist():
                self._looked_at += 1
                self._take(batch, int(columns.ip[at]), at, version)

    def _take(self, batch: PacketBatch, ip: int, row: int, version: int) -> None:
        octets = batch.data[ip : int(batch.start[row] + batch.captured[row])].tobytes()
        size = 40 if version == 6 else (octets[0] & 15) * 4
        message = octets[size:]
        kind = (_V4 if version == 4 else _V6).get((message[0], message[1])) if len(message) > _HEAD else None
        about = None if kind is None else _about(message[_HEAD:])
        if kind is None or about is None:
            return
        sender = octets[12:16] if version == 4 else octets[8:24]
        mtu = 0
        if kind == TOO_BIG:
            mtu = int.from_bytes(message[6:8] if version == 4 else message[4:8])
        report = Report(int(batch.interface[row]), str(ip_address(sender)), kind, *about, mtu)
        if report in self.reports or len(self.reports) < _KINDS:
            self.reports[report] += 1


def _about(octets: bytes) -> tuple[str, str, str] | None:
    """Return protocol, source and destination of the packet quoted in an error; None if it is irrelevant."""
    version = octets[0] >> 4
    size = 40 if version == 6 else (octets[0] & 15) * 4
    if version not in {4, 6} or size < _LEAST_IP or len(octets) < size + 4 or octets[6 if version == 6 else 9] != UDP:
        return None
    what = _PORTS.get(int.from_bytes(octets[size + 2 : size + 4]))
    if what is None:
        return None
    src, dst = (octets[8:24], octets[24:40]) if version == 6 else (octets[12:16], octets[16:20])
    return what, str(ip_address(src)), str(ip_address(dst))


def icmp_errors(found: IcmpErrors, links: Sequence[str]) -> tuple[IcmpError, ...]:
    """Return all reports as facts; ``links`` are interface names by number."""
    return tuple(
        IcmpError(links[report.interface], *report[1:6], report.mtu or None, count)
        for report, count in sorted(found.reports.items())
    )
