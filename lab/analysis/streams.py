"""Streams: one direction to one QP, whatever links saw it; and which stream answers which.

A BTH names only the destination's QP, so a stream is known by its hosts and that; of the two directions of a
connection each is the other's peer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.analysis.batch import Ints
    from lab.analysis.flows import Flows

_VNI: Final = 4
_ADDRESS: Final = 16
_HOSTS: Final = _VNI + 2 * _ADDRESS
"""Octets of ``Flows.stream`` that say who sends to whom, in which segment; QP and transport are behind them."""


class Streams:
    """All streams. ``of`` is each flow's; ``peer`` and ``mtu`` (bytes, 0 where not known) are by stream.

    ``answers`` is by flow: the flow that brings its answers, at best on the same link, and -1 where none is known.
    """

    def __init__(self, flows: Flows) -> None:
        self.of: Ints = np.zeros(0, np.int64)
        self.peer: Ints = np.zeros(0, np.int64)
        self.mtu: Ints = np.zeros(0, np.int64)
        self.answers: Ints = np.zeros(0, np.int64)
        self.members: list[list[int]] = []
        self._flows = flows
        self._numbers: dict[bytes, int] = {}
        self._hosts: list[bytes] = []  # by stream; those of the same two hosts share theirs
        self._by_hosts: dict[bytes, list[int]] = {}

    def grow(self, count: int) -> None:
        """There are ``count`` flows."""
        fresh = range(len(self.of), count)
        if not fresh:
            return
        of = [self._stream(flow) for flow in fresh]
        self.of = np.concatenate([self.of, np.array(of, np.int64)])
        more = len(self.members) - len(self.peer)
        self.peer = np.concatenate([self.peer, np.full(more, -1)])
        self.mtu = np.concatenate([self.mtu, np.zeros(more, np.int64)])
        self.answers = np.concatenate([self.answers, np.full(len(fresh), -1)])
        for stream in {stream for stream in of if self.peer[stream] >= 0}:
            self._match(stream, int(self.peer[stream]))

    def back(self, stream: int) -> list[int]:
        """The streams that go the other way between the same hosts."""
        return self._by_hosts.get(reverse(self._hosts[stream]), [])

    def hosts(self, stream: int) -> bytes:
        """Who sends to whom, in which segment, for ``reverse``."""
        return self._hosts[stream]

    def pair(self, one: int, other: int) -> None:
        """They are the two directions of a connection."""
        self.peer[one], self.peer[other] = other, one
        self.mtu[[one, other]] = max(self.mtu[one], self.mtu[other])
        self._match(one, other)

    def pair_known(self, one: bytes, other: bytes) -> bool:
        """Pair two by their ``Flows.stream``; whether both have been seen."""
        if one not in self._numbers or other not in self._numbers:
            return False
        first, second = self._numbers[one], self._numbers[other]
        if self.peer[first] < 0 and self.peer[second] < 0:
            self.pair(first, second)
        return True

    def learn(self, streams: Ints, mtu: Ints) -> None:
        """A First or Middle packet is as long as the path MTU (IBA vol. 1 section 9.7.1)."""
        self.mtu[streams] = mtu
        peers = self.peer[streams]
        self.mtu[peers[peers >= 0]] = mtu[peers >= 0]

    def _stream(self, flow: int) -> int:
        key = self._flows.stream(flow)
        number = self._numbers.setdefault(key, len(self._numbers))
        if number == len(self.members):
            self.members.append([])
            hosts = key[:_HOSTS]
            others = self._by_hosts.setdefault(hosts, [])
            self._hosts.append(self._hosts[others[0]] if others else hosts)
            others.append(number)
        self.members[number].append(flow)
        return number

    def _match(self, one: int, other: int) -> None:
        """By link; where the other direction takes another one, ECMP chose it."""
        for mine, theirs in ((self.members[one], self.members[other]), (self.members[other], self.members[one])):
            by_link = {self._link(flow): flow for flow in reversed(theirs)}
            for flow in mine:
                self.answers[flow] = by_link.get(self._link(flow), theirs[0])

    def _link(self, flow: int) -> int:
        return int(self._flows.interfaces(flow, flow + 1)[0])


def reverse(hosts: bytes) -> bytes:
    """Those of the other direction."""
    src, dst = hosts[_VNI : _VNI + _ADDRESS], hosts[_VNI + _ADDRESS :]
    return hosts[:_VNI] + dst + src


def stream_key(vni: int, src: Sequence[int], dst: Sequence[int], destqp: int) -> bytes:
    """``Flows.stream`` of a reliable connection (transport 0)."""
    return np.array([vni, *src, *dst, destqp, 0], np.int64).astype(np.uint32).tobytes()
