"""One packet across all links that were captured: where it was when, and how long each stretch took."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Final

import numpy as np

from lab.analysis.batch import CHUNK
from lab.analysis.capture import Capture
from lab.analysis.columns import CE, decode
from lab.analysis.names import DIRECTIONS, address, vni_or_none
from lab.wire.opcodes import opcode_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.analysis.batch import Batch

MAX_SIGHTINGS: Final = 10_000
"""Of one packet; a PSN comes back after 2**24 packets."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A packet at a link: ``time`` in ns since 1970, ``number`` in the file from 1, ``hops`` its TTL or hop limit.

    ``ident`` is IPv4's Identification (RFC 791 section 3.1), None in IPv6.
    """

    time: int
    number: int
    link: str
    direction: str
    hops: int
    ident: int | None
    vni: int | None
    marked: bool


@dataclass(frozen=True, slots=True)
class Copy:
    """One transmission of a packet, in order of time; all but the first of a packet are retransmissions."""

    sightings: list[Sighting]

    @property
    def delays(self) -> list[int]:
        """Nanoseconds from each sighting to the next one."""
        times = [sighting.time for sighting in self.sightings]
        return [after - before for before, after in pairwise(times)]


@dataclass(frozen=True, slots=True)
class Track:
    """A packet of one flow: what it is, and its copies in the order in which they were first seen."""

    src: str
    dst: str
    qp: int
    psn: int
    opcode: str
    copies: list[Copy] = field(default_factory=list)


def follow(stream: IO[bytes], source: str, qp: int, psn: int, chunk: int = CHUNK) -> list[Track]:
    """Every packet to ``qp`` with ``psn``, in or out of VXLAN; InvalidInput when the file is no capture.

    Senders that count their IPv4 packets, as rxe does, give each transmission an Identification of its own. Where all
    have the same, and in IPv6, a copy ends where a link that has seen it sees the packet again; then copies that are
    under way at the same time, the second one behind the first, are told apart only as far as that goes.
    """
    capture = Capture(stream, source, chunk)
    found: dict[tuple[str, str, int], list[Sighting]] = {}
    count = 0
    for batch in capture:
        if len(batch.start) and count < MAX_SIGHTINGS:
            count += _collect(capture, batch, (qp, psn), found, MAX_SIGHTINGS - count)
    return [
        Track(src, dst, qp, psn, opcode_name(opcode), _copies(sightings))
        for (src, dst, opcode), sightings in found.items()
    ]


def _collect(
    capture: Capture,
    batch: Batch,
    wanted: tuple[int, int],
    found: dict[tuple[str, str, int], list[Sighting]],
    most: int,
) -> int:
    """Add no more than ``most`` sightings to those of each flow; how many."""
    columns, roce = decode(batch)
    hits = np.flatnonzero((roce.destqp == wanted[0]) & (roce.psn == wanted[1]))[:most]
    for hit in hits.tolist():
        row = int(roce.row[hit])
        flow = address(columns.src[:, row].tolist()), address(columns.dst[:, row].tolist()), int(roce.opcode[hit])
        found.setdefault(flow, []).append(
            Sighting(
                time=int(batch.time[row]),
                number=int(batch.number[row]),
                link=capture.interfaces[int(batch.interface[row])].name,
                direction=DIRECTIONS[int(batch.direction[row])],
                hops=int(columns.ttl[row]),
                ident=_ident(batch, int(columns.ip[row])),
                vni=vni_or_none(int(columns.vni[row])),
                marked=int(columns.ecn[row]) == CE,
            )
        )
    return len(hits)


def _ident(batch: Batch, ip: int) -> int | None:
    octets = batch.data[ip : ip + 6].tobytes()
    return int.from_bytes(octets[4:]) if octets[0] >> 4 == 4 else None


def _copies(sightings: Sequence[Sighting]) -> list[Copy]:
    """One for each Identification, and more where one comes again; in the order in which they were first seen."""
    by_ident: dict[int | None, list[Sighting]] = defaultdict(list)
    for sighting in sorted(sightings, key=_moment):
        by_ident[sighting.ident].append(sighting)
    copies = [copy for group in by_ident.values() for copy in _split(group)]
    return sorted(copies, key=lambda copy: _moment(copy.sightings[0]))


def _moment(sighting: Sighting) -> tuple[int, int]:
    return sighting.time, sighting.number


def _split(sightings: Sequence[Sighting]) -> list[Copy]:
    """Sightings in order of time, split where a link comes again."""
    copies: list[Copy] = []
    links: set[str] = set()
    for sighting in sightings:
        if not copies or sighting.link in links:
            copies.append(Copy([]))
            links = set()
        links.add(sighting.link)
        copies[-1].sightings.append(sighting)
    return copies
