"""Follow one packet across all captured links: where it was when, and how long each stretch took."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Final, TypeAlias

import numpy as np

from lab.analysis.decode import opcode_tables as ops
from lab.analysis.decode.columns import decode
from lab.analysis.flows.routing_loops import Macs, circle
from lab.analysis.read.capture_file import CaptureFile
from lab.analysis.read.packet_batch import CHUNK
from lab.analysis.results.number_format import DIRECTIONS, address, vni_or_none
from lab.wire.header_fields import CE, IP_VERSION, EthernetFields, Ipv4Fields
from lab.wire.headers import PSN_HALF, PSN_MASK
from lab.wire.opcodes import opcode_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lab.analysis.decode.columns import Columns, Roce
    from lab.analysis.read.packet_batch import Ints, PacketBatch
    from lab.wire.header_fields import Bits

_WORDS: Final = 4
"""32-bit words of an address."""
MAX_SIGHTINGS: Final = 10_000
"""Sightings of one packet."""
_TOGETHER: Final = 10_000_000
"""ns between two sightings of one transmission at one link, at most. Retransmissions come later."""
_NUMBERED: Final = 1_000_000_000
"""The same limit for sightings with equal Identification."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A packet at a link: ``time`` in ns since 1970, ``number`` in the file from 1, ``hops`` its TTL or hop limit.

    ``inner_hops`` is the TTL or hop limit inside a tunnel, 0 without one.
    ``ident`` is IPv4's Identification (RFC 791 section 3.1), None in IPv6. ``sender`` and ``receiver`` are the MAC
    addresses of the outermost frame.
    """

    time: int
    number: int
    link: str
    direction: str
    hops: int
    inner_hops: int
    ident: int | None
    vni: int | None
    marked: bool
    sender: str
    receiver: str

    @property
    def lifetime(self) -> int:
        """The sum of both TTLs, which every router decreases, whether of the underlay or of the overlay."""
        return self.hops + self.inner_hops


@dataclass(frozen=True, slots=True)
class Copy:
    """One transmission of a packet, in order of time; all but the first of a packet are retransmissions."""

    sightings: list[Sighting]

    @property
    def circles(self) -> str:
        """The first link that the packet returned to in a routing loop; empty without a loop."""
        links = dict.fromkeys(sighting.link for sighting in self.sightings)
        return next((link for link in links if _circle(s for s in self.sightings if s.link == link)), "")

    @property
    def delays(self) -> list[int]:
        """Nanoseconds from each sighting to the next one."""
        times = [sighting.time for sighting in self.sightings]
        return [after - before for before, after in pairwise(times)]


@dataclass(frozen=True, slots=True)
class Track:
    """A packet of one flow: its identity, and its copies in the order of their first sighting."""

    src: str
    dst: str
    qp: int
    psn: int
    opcode: str
    copies: list[Copy] = field(default_factory=list)


def follow(stream: IO[bytes], source: str, qp: int, psn: int, chunk: int = CHUNK) -> list[Track]:
    """Return every packet to ``qp`` with ``psn``, with or without VXLAN; InvalidInput if the file is no capture.

    Senders that number their IPv4 packets, like rxe, give each transmission its own Identification. If all are equal,
    and in IPv6, transmissions are split by link and TTL: a new one begins if a link sees the packet again and the TTL
    is not smaller. A smaller TTL means a loop, or a mirror of several routers. Overlapping transmissions are then
    only separated as far as this rule goes.
    """
    finder = _Finder(CaptureFile(stream, source, chunk), qp, psn)
    return finder.tracks()


def _circle(sightings: Iterable[Sighting]) -> bool:
    return circle((s.lifetime, Macs(_number(s.sender), _number(s.receiver))) for s in sightings).circles


def _number(address: str) -> int:
    return int(address.replace(":", ""), 16)


_Flow: TypeAlias = tuple[str, str, bool]  # source, destination, and whether it answers: answers have their own PSNs


class _Finder:
    def __init__(self, capture: CaptureFile, qp: int, psn: int) -> None:
        self._capture, self._qp, self._psn = capture, qp, psn
        self._found: dict[tuple[str, str, int, int], list[Sighting]] = {}
        self._count = 0
        self._last: dict[_Flow, int] = {}  # unwrapped PSN of the last packet

    def tracks(self) -> list[Track]:
        for batch in self._capture:
            if len(batch.start) and self._count < MAX_SIGHTINGS:
                self._collect(batch)
        return [
            Track(src=src, dst=dst, qp=self._qp, psn=self._psn, opcode=opcode_name(opcode), copies=_copies(sightings))
            for (src, dst, opcode, _), sightings in self._found.items()
        ]

    def _collect(self, batch: PacketBatch) -> None:
        columns, roce = decode(batch)
        names = self._capture.names
        ours = np.flatnonzero(roce.destqp == self._qp)
        laps = self._laps(columns, roce, ours)
        hits = np.flatnonzero(roce.psn[ours] == self._psn)[: MAX_SIGHTINGS - self._count]
        self._count += len(hits)
        for hit, lap in zip(ours[hits].tolist(), laps[hits].tolist(), strict=True):
            row = int(roce.row[hit])
            hosts = address(columns.src[:, row].tolist()), address(columns.dst[:, row].tolist())
            self._found.setdefault((*hosts, int(roce.opcode[hit]), lap), []).append(
                Sighting(
                    time=int(batch.time[row]),
                    number=int(batch.number[row]),
                    link=names[int(batch.interface[row])],
                    direction=DIRECTIONS[int(batch.direction[row])],
                    hops=int(columns.ttl[row]),
                    inner_hops=int(columns.inner_ttl[row]),
                    ident=_ident(batch, int(columns.ip[row])),
                    vni=vni_or_none(int(columns.vni[row])),
                    marked=int(columns.ecn[row]) == CE,
                    sender=_mac(batch, row, EthernetFields.SRC),
                    receiver=_mac(batch, row, EthernetFields.DST),
                )
            )

    def _laps(self, columns: Columns, roce: Roce, ours: Ints) -> Ints:
        """Return how often PSNs have wrapped before each packet: an equal PSN after a wrap is another packet."""
        laps = np.zeros(len(ours), np.int64)
        if not len(ours):
            return laps
        row, answers = roce.row[ours], ops.RESPONSE[roce.opcode[ours]].astype(np.int64)
        words = np.concatenate([columns.src[:, row], columns.dst[:, row], answers[np.newaxis]])
        kinds, which = np.unique(words, axis=1, return_inverse=True)
        for number, kind in enumerate(kinds.T.tolist()):
            at = np.flatnonzero(which.ravel() == number)
            flow = address(kind[:_WORDS]), address(kind[_WORDS : 2 * _WORDS]), bool(kind[-1])
            psn = roce.psn[ours[at]]
            last = self._last.get(flow, int(psn[0]))
            steps = (np.diff(psn, prepend=last & PSN_MASK) + PSN_HALF & PSN_MASK) - PSN_HALF
            unwrapped = last + np.cumsum(steps)
            self._last[flow] = int(unwrapped[-1])
            laps[at] = unwrapped // (PSN_MASK + 1)
        return laps


def _mac(batch: PacketBatch, row: int, bits: Bits) -> str:
    begin = int(batch.start[row])
    return batch.data[begin + bits.at : begin + bits.end].tobytes().hex(":")


def _ident(batch: PacketBatch, ip: int) -> int | None:
    octets = batch.data[ip : ip + Ipv4Fields.IDENT.end].tobytes()
    return Ipv4Fields.IDENT.read(octets) if IP_VERSION.read(octets) == 4 else None


def _copies(sightings: Sequence[Sighting]) -> list[Copy]:
    """Split sightings into copies: by Identification, and by time and TTL; in order of their first sighting."""
    by_ident: dict[int | None, list[Sighting]] = defaultdict(list)
    for sighting in sorted(sightings, key=_moment):
        by_ident[sighting.ident].append(sighting)
    copies = [copy for group in by_ident.values() for copy in _split(group)]
    return sorted(copies, key=lambda copy: _moment(copy.sightings[0]))


def _moment(sighting: Sighting) -> tuple[int, int]:
    return sighting.time, sighting.number


def _split(sightings: Sequence[Sighting]) -> list[Copy]:
    """Split sightings, in order of time, if a link repeats.

    With a smaller TTL shortly after, it is still the same transmission, which passed routers in between.
    """
    copies: list[Copy] = []
    last: dict[str, Sighting] = {}
    for sighting in sightings:
        before = last.get(sighting.link)
        if not copies or (before is not None and not _goes_on(before, sighting)):
            copies.append(Copy([]))
            last = {}
        last[sighting.link] = sighting
        copies[-1].sightings.append(sighting)
    return copies


def _goes_on(before: Sighting, after: Sighting) -> bool:
    """Return whether ``after`` belongs to the same transmission. Numbered packets may take longer."""
    longest = _NUMBERED if after.ident else _TOGETHER
    return after.lifetime < before.lifetime and after.time - before.time < longest
