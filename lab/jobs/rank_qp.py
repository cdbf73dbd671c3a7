"""A QP of a rank as a job finds it, and as a recording has it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RankQp:
    """A QP of a rank, its peer, and the path on which it sends."""

    rank: int
    qpn: int
    peer_rank: int
    peer_qpn: int
    source_port: int
    """The UDP source port of its packets, which ECMP hashes."""
    path: tuple[str, ...]
    """The ports by which its packets leave, from its NIC on; empty if a node has no route."""
