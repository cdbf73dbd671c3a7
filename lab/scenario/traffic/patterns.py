"""Traffic patterns of collective operations, as pairs like ``h1:h4`` for ``Stage.writing``."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

from lab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


def incast(senders: Sequence[str], receiver: str) -> list[str]:
    """Return pairs from all senders to one receiver. Raises UsageError if the receiver is a sender, too."""
    _require_different([*senders, receiver])
    return [f"{sender}:{receiver}" for sender in senders]


def ring(hosts: Sequence[str]) -> list[str]:
    """Return pairs from each host to the next, and from the last to the first: a step of a ring all-reduce."""
    _require_different(hosts)
    return [f"{src}:{dst}" for src, dst in zip(hosts, [*hosts[1:], hosts[0]], strict=True)]


def all_to_all(hosts: Sequence[str]) -> list[str]:
    """Return pairs from each host to every other."""
    _require_different(hosts)
    return [f"{src}:{dst}" for src, dst in permutations(hosts, 2)]


def _require_different(hosts: Sequence[str]) -> None:
    if len(hosts) < 2:
        raise UsageError(f"{len(hosts)} hosts are too few to write to each other", "name two or more")
    for number, host in enumerate(hosts):
        if host in hosts[:number]:
            raise UsageError(f"{host} is named twice", "name each host once")
