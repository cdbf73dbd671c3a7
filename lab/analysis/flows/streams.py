"""Streams: one direction to one QP, over all links; each stream knows the stream with its answers.

A BTH names only the destination QP, so a stream is identified by its hosts and that QP. The two streams of a
connection are each other's peers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from lab.analysis.flows.flow_keys import Keys
from lab.analysis.flows.flow_sums import MAX_FLOWS
from lab.analysis.flows.sparse_arrays import several, zeros

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lab.analysis.flows.flow_sums import Flows
    from lab.analysis.read.packet_batch import Ints

_HOSTS: Final = 9
"""Words of a stream's key for hosts and VNI; QP and transport follow."""
_KEY: Final = _HOSTS + 2
_REVERSED: Final = [0, 5, 6, 7, 8, 1, 2, 3, 4]


class Groups:
    """The members of groups. ``of`` is the group of each member, and only grows."""

    def __init__(self, of: Ints | NDArray[np.int32]) -> None:
        self._of = of
        self._members, self._groups = np.zeros(0, np.int32), np.zeros(0, np.int32)

    def of(self, group: int, count: int) -> list[int]:
        """Return the members of a group among the first ``count``, in order."""
        if count != len(self._members):
            self._members = np.argsort(self._of[:count], kind="stable").astype(np.int32)
            self._groups = self._of[self._members].astype(np.int32)
        begin, end = np.searchsorted(self._groups, np.array([group, group + 1], np.int32)).tolist()
        members: list[int] = self._members[begin:end].tolist()
        return members


class Streams:
    """All streams. ``of`` maps flows to streams; by stream: ``peer``, ``mtu`` (bytes, 0 if unknown), source ``port``.

    ``answers`` maps a flow to the flow with its answers, on the same link if possible; -1 if unknown.
    """

    def __init__(self, flows: Flows) -> None:
        self.flows = 0
        """Number of flows that have been assigned to streams."""
        self.of, self.peer, self.mtu, self.answers = several(4, MAX_FLOWS, np.int32)
        self._flows = flows
        self._keys = Keys(_KEY, MAX_FLOWS)
        self._pairs = Keys(_HOSTS, MAX_FLOWS)
        self.port = zeros(MAX_FLOWS, np.uint16)
        self._pair = zeros(MAX_FLOWS, np.int32)
        """By stream: the number of its host pair."""
        self._members, self._alike = Groups(self.of), Groups(self._pair)

    def __len__(self) -> int:
        return len(self._keys)

    def grow(self, count: int) -> None:
        """Assign flows to streams, up to ``count`` flows."""
        known, before = self.flows, len(self)
        if count <= known:
            return
        words = self._flows.streams(known, count)
        of = self.of[known:count] = self._keys.numbers(words)
        fresh = slice(before, len(self))
        self.peer[fresh] = -1
        self._pair[of] = self._pairs.numbers(words[:_HOSTS])
        self.port[of] = self._flows.port[known:count]
        self.answers[known:count] = -1
        self.flows = count
        for stream in set(of[self.peer[of] >= 0].tolist()):
            self._match(stream, int(self.peer[stream]))

    def members(self, stream: int) -> list[int]:
        """Return the flows of a stream, in order."""
        return self._members.of(stream, self.flows)

    def back(self, stream: int) -> list[int]:
        """Return the streams in the reverse direction between the same hosts."""
        other = int(self.reverse(self.hosts(np.array([stream])))[0])
        return self._alike.of(other, len(self)) if other >= 0 else []

    def beside(self, stream: int) -> list[int]:
        """Return the streams in the same direction between the same hosts, including this one."""
        return self._alike.of(int(self._pair[stream]), len(self))

    def destqp(self, stream: int) -> int:
        """Return the destination QP of a stream."""
        return int(self._keys.rows[stream, _HOSTS])

    def hosts(self, streams: Ints) -> Ints:
        """Return the number of each stream's host pair (source, destination, VNI), for ``reverse``."""
        return self._pair[streams].astype(np.int64)

    def reverse(self, hosts: Ints) -> Ints:
        """Return the numbers of the reversed host pairs; -1 if no stream goes that way."""
        rows = self._pairs.rows[hosts].astype(np.int64)
        return self._pairs.find([np.ascontiguousarray(rows[:, word]) for word in _REVERSED])

    def pair(self, one: int, other: int) -> None:
        """Record that two streams are the two directions of a connection."""
        self.peer[one], self.peer[other] = other, one
        self.mtu[[one, other]] = max(self.mtu[one], self.mtu[other])
        self._match(one, other)

    def find(self, keys: Sequence[bytes]) -> list[int]:
        """Return the stream of each ``stream_key``; -1 if it has not been captured."""
        words = np.frombuffer(b"".join(keys), np.uint32).reshape(-1, _KEY).T
        found: list[int] = self._keys.find(list(words.astype(np.int64))).tolist()
        return found

    def learn(self, streams: Ints, mtu: Ints) -> None:
        """Record path MTUs, from First and Middle packets, which fill the path MTU (IBA vol. 1 section 9.7.1)."""
        self.mtu[streams] = mtu
        peers = self.peer[streams]
        self.mtu[peers[peers >= 0]] = mtu[peers >= 0]

    def _match(self, one: int, other: int) -> None:
        """Match the flows of two streams by link. If ECMP chose another link for the answers, use the first one."""
        both = self.members(one), self.members(other)
        for mine, theirs in (both, both[::-1]):
            links = self._flows.interfaces(np.array([*mine, *theirs])).tolist()
            by_link = dict(zip(reversed(links[len(mine) :]), reversed(theirs), strict=True))
            for flow, link in zip(mine, links, strict=False):
                self.answers[flow] = by_link.get(link, theirs[0])


def stream_key(vni: int, src: Sequence[int], dst: Sequence[int], destqp: int) -> bytes:
    """Return the key of a stream of a reliable connection (transport 0)."""
    return np.array([vni, *src, *dst, destqp, 0], np.int64).astype(np.uint32).tobytes()
