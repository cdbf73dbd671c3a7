"""Symptoms from the delays of a path sweep: paths that are slower than others of the same number of hops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.diagnose.symptom import Evidence, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.diagnose.facts import Swept, WindowFacts

Path = tuple[str, ...]
"""The egress ports of a path."""

_TIMES: Final = 2.0
_MORE: Final = 150e-6
"""A slow path has this many times the delay of its fastest sibling, and so many seconds more.

A path's delay is the least of a hundred packets: a busy machine does not add that much to all of them.
"""
_QUEUES: Final = 2.0
"""Queues explain a delay of at most so many times that of their mean depth: a standing one delays all packets."""
_CERTAIN: Final = 0.9
_US: Final = 1e6


@dataclass(frozen=True, slots=True)
class _Slow:
    """A slow path, and the delay of its fastest sibling in seconds."""

    swept: Swept
    best: float


def a_path_is_slow(facts: WindowFacts) -> Iterator[Sign]:
    """Some paths of a sweep are slower than their siblings. Signs name what is common to slow paths.

    That is a link, or else a switch. Links in a direction that a fast path uses are ruled out. The place that most of
    the slow paths use is named first, then that of the rest. If several places fit the same paths, each is named,
    with less certainty.
    """
    slow, fast = _divided(facts)
    while slow:
        places, explained = _common(facts, slow, fast)
        if not places:
            return
        lines = tuple(_line(each) for each in slow if each.swept.path in explained)[:2]
        for place in places:
            yield Sign(place, lines, _CERTAIN / len(places))
        slow = [each for each in slow if each.swept.path not in explained]


def slow_paths(facts: WindowFacts) -> Iterator[Sign]:
    """Some paths of a sweep are slower than their siblings, at whatever place."""
    slow, _ = _divided(facts)
    if slow:
        yield Sign("", tuple(map(_line, slow)))


def _divided(facts: WindowFacts) -> tuple[list[_Slow], list[Swept]]:
    """Return the slow paths, and the fast ones. Those that their queues may slow down are neither."""
    timed = [(each, each.delay) for each in facts.swept if each.delay is not None]
    fastest: dict[int, float] = {}
    for each, delay in timed:
        hops = len(each.path)
        fastest[hops] = min(delay, fastest.get(hops, delay))
    slow: list[_Slow] = []
    fast: list[Swept] = []
    for each, delay in timed:
        best = fastest[len(each.path)]
        most = max(best * _TIMES, best + _MORE)
        if delay <= most:
            fast.append(each)
        elif delay > most + _QUEUES * _queueing(facts, each):
            slow.append(_Slow(each, best))
    return slow, fast


def _queueing(facts: WindowFacts, swept: Swept) -> float:
    """Return the time that the queues of a path take to drain at their mean depth, in seconds."""
    return sum(
        lane.depth * 8 / rate
        for port in swept.path
        if (rate := facts.rate(port))
        for lane in facts.by_port.get(port, ())
    )


def _common(facts: WindowFacts, slow: Sequence[_Slow], fast: Sequence[Swept]) -> tuple[list[str], frozenset[Path]]:
    """Return the places that most slow paths and no fast path use, and these paths. Links come before switches."""
    sound = {port for each in fast for port in each.path}
    passing = {node for each in fast for node in _switches(each.path)}
    names: dict[frozenset[str], str] = {}
    using: dict[str, set[Path]] = {}
    for path in (each.swept.path for each in slow):
        for port in path:
            if port not in sound:
                link = frozenset({port, facts.peer(port)})  # its direction does not matter
                using.setdefault(names.setdefault(link, f"{port}--{facts.peer(port)}"), set()).add(path)
    for path in (each.swept.path for each in slow):
        for node in _switches(path):
            if node not in passing:
                using.setdefault(node, set()).add(path)
    if not using:
        return [], frozenset()
    best = max(using, key=lambda place: len(using[place]))  # of equal ones the first: a link
    alike = [place for place in using if using[place] == using[best] and ("--" in place) is ("--" in best)]
    return alike, frozenset(using[best])


def _switches(path: Path) -> tuple[str, ...]:
    return tuple(port.partition(":")[0] for port in path[1:])


def _line(slow: _Slow) -> Evidence:
    swept = slow.swept
    says = f"us at least, and {slow.best * _US:.0f} us on the fastest path of as many hops: {' '.join(swept.path)}"
    return Evidence(
        says=says, of=swept.path[0], source="sweep", value=round((swept.delay or 0.0) * _US), at=swept.seconds
    )
