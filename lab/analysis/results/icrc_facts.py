"""Facts about ICRCs: how many are wrong, in which flows, and between which links or hops they became wrong."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IcrcHop:
    """A hop that changed packets: they were right with TTL ``before``, and wrong with TTL ``ttl``.

    ``sender`` is the source MAC address of the wrong ones: the port that sent them.
    """

    before: int
    ttl: int
    sender: str


@dataclass(frozen=True, slots=True)
class IcrcErrors:
    """The ICRCs of a flow at ``link``: ``wrong`` ones of all ``checked``.

    ``after`` is the last link before it at which the flow had no wrong ICRC, None without one. ``hops`` are known
    where one link captured packets several times on their path, as mirrors of several switches do.
    """

    link: str
    src: str
    dst: str
    qp: int
    wrong: int
    checked: int
    after: str | None
    hops: tuple[IcrcHop, ...]


@dataclass(frozen=True, slots=True)
class Icrcs:
    """ICRCs checked and wrong (IBA vol. 1 section 7.8.1).

    ``unknown`` packets cannot be checked: they were truncated, or are RoCEv1, fragments, or have IPv6 extension
    headers. ``every``: all others were checked; if not, the first of each flow and a sample of the rest.
    """

    right: int
    wrong: int
    unknown: int
    every: bool
