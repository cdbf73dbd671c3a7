"""Check ICRCs, and locate wrong ones: a flow has right ICRCs before the switch or cable that corrupts its packets.

Checking every packet costs time in proportion to the bytes of the file, so by default a sample is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.flows.flow_sums import MAX_FLOWS
from lab.analysis.flows.sparse_arrays import several, zeros
from lab.analysis.results.icrc_facts import IcrcErrors, Icrcs
from lab.analysis.results.number_format import address
from lab.analysis.transport.icrc_hops import CheckedPackets, IcrcHops
from lab.wire import icrc
from lab.wire.header_fields import IP_VERSION, Ipv4Fields, Ipv6Fields, UdpFields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.analysis.decode.columns import Columns, Roce
    from lab.analysis.flows.flow_sums import Flows
    from lab.analysis.read.packet_batch import Flags, Ints, PacketBatch

FIRST: Final = 16
"""Packets at the beginning of each flow that a sample contains."""
MAX_ERRORS: Final = 1000
"""Flows with wrong ICRCs that are returned, to bound memory."""
EACH: Final = 64
"""A sample also contains one packet of so many, by their numbers in the file."""


class IcrcChecks:
    """ICRCs by flow: ``checked``, and ``wrong`` ones of these. ``every``: check all packets, not a sample."""

    def __init__(self, *, every: bool) -> None:
        self.every = every
        self._unknown = 0
        # By flow; the last is of flows that are not told apart.
        self.checked, self.wrong = several(2, MAX_FLOWS + 1, np.uint32)
        self._begun = zeros(MAX_FLOWS + 1, np.uint8)  # packets that could be checked, at most ``FIRST``
        self.hops = IcrcHops()

    @property
    def totals(self) -> Icrcs:
        """The sums of all flows."""
        wrong = int(self.wrong.sum())
        return Icrcs(int(self.checked.sum()) - wrong, wrong, self._unknown, every=self.every)

    def check(self, batch: PacketBatch, columns: Columns, roce: Roce, flow: Ints) -> Ints:
        """Check RoCE packets and return the numbers of those with a wrong ICRC. ``flow`` is of each packet."""
        row = roce.row
        ip, bth, end = columns.ip[row], columns.bth[row], columns.bth_end[row]
        first = batch.data[ip].astype(np.int64)
        header = np.where(IP_VERSION.of(first) == 6, Ipv6Fields.SIZE, Ipv4Fields.IHL.of(first) * Ipv4Fields.WORD)
        # not covered by this computation: truncated packets, RoCEv1, and extension headers
        whole = (end <= batch.start[row] + batch.captured[row]) & (ip + header + UdpFields.SIZE == bth)
        self._unknown += int((~whole).sum())
        at = np.flatnonzero(whole)
        if not self.every:
            at = at[self._sample(flow[at], batch.number[row[at]])]

        def is_right(place: int) -> bool:
            packet = batch.data[ip[place] : end[place]].tobytes()
            return (
                bool(whole[place]) and icrc.compute(packet[: -icrc.SIZE], int(header[place])) == packet[-icrc.SIZE :]
            )

        wrong = at[~np.fromiter(map(is_right, at.tolist()), np.bool_, len(at))]
        np.add.at(self.checked, flow[at], 1)
        np.add.at(self.wrong, flow[wrong], 1)
        if len(wrong):
            self.hops.add(batch, columns, roce, CheckedPackets(flow, wrong, is_right))
        return batch.number[row[wrong]]

    def _sample(self, flow: Ints, number: Ints) -> Flags:
        """Return a mask of the packets to check: the first of each flow, and some of the others."""
        chosen: Flags = number % EACH == 0
        at = np.flatnonzero(self._begun[flow] < FIRST)
        if len(at):
            order = at[np.argsort(flow[at], kind="stable")]
            numbers, starts, counts = np.unique(flow[order], return_index=True, return_counts=True)
            rank = np.arange(len(order)) - np.repeat(starts, counts)
            chosen[order[self._begun[flow[order]] + rank < FIRST]] = True
            self._begun[numbers] = np.minimum(self._begun[numbers] + counts, FIRST)
        return chosen


def icrc_errors(checks: IcrcChecks, flows: Flows, links: Sequence[str]) -> tuple[IcrcErrors, ...]:
    """Return the first flows with wrong ICRCs, by link; ``links`` are interface names by number."""
    bad = np.flatnonzero(checks.wrong[:MAX_FLOWS])[:MAX_ERRORS].tolist()
    wanted = set(bad)
    alike = {flow: members for members in (flows.alike() if bad else ()) for flow in members if flow in wanted}
    return tuple(_error(checks, flows, links, flow, alike.get(flow, [flow])) for flow in bad)


def _error(checks: IcrcChecks, flows: Flows, links: Sequence[str], flow: int, alike: Sequence[int]) -> IcrcErrors:
    key = flows.key(flow)
    way = sorted(alike, key=lambda member: int(flows.seen[member, 0]))
    certain = checks.every or checks.wrong[flow] == checks.checked[flow]  # links have different samples
    right = (other for other in way[: way.index(flow)] if checks.checked[other] and not checks.wrong[other])
    before = list(right) if certain else []
    return IcrcErrors(
        link=links[key.interface],
        src=address(key.src),
        dst=address(key.dst),
        qp=key.destqp,
        wrong=int(checks.wrong[flow]),
        checked=int(checks.checked[flow]),
        after=links[flows.key(before[-1]).interface] if before else None,
        hops=tuple(sorted(checks.hops.found.get(flow, ()), key=lambda hop: (-hop.ttl, hop.sender))),
    )
