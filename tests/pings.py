"""Echoes by ping(8), one after the other: which came back, how often, and after how long."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lab.kernel.process.netns import Namespace

_REPLY: Final = re.compile(r"icmp_seq=(\d+) .*time=([\d.]+) ms( \(DUP!\))?")


@dataclass(frozen=True, slots=True)
class Echoes:
    """The number and the seconds of every answer to ``sent`` requests, numbered from 0, as they came."""

    sent: int
    answers: tuple[tuple[int, float], ...]

    @property
    def lost(self) -> list[int]:
        """The numbers of those that were not answered."""
        return sorted(set(range(self.sent)) - {number for number, _ in self.answers})

    @property
    def times(self) -> list[float]:
        """Seconds of each answer, in the order of the requests."""
        return [seconds for _, seconds in sorted(self.answers)]


def ping(space: Namespace, address: str, count: int, *words: str) -> Echoes:
    """Echo requests every 5 ms; each is sent whether or not the one before it has been answered."""
    argv = ["ping", "-n", "-c", str(count), "-i", "0.005", "-W", "1", *words, address]
    said = space.run(argv, check=False, timeout=120).stdout
    assert f"{count} packets transmitted" in said, said
    return Echoes(count, tuple((int(found[1]) - 1, float(found[2]) / 1000) for found in _REPLY.finditer(said)))
