"""Symptoms from the delays of a path sweep: paths that are slower than others of the same number of hops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.diagnose.symptom import Evidence, Sign

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.diagnose.facts import Swept, WindowFacts

_TIMES: Final = 2.0
_MORE: Final = 150e-6
"""A slow path has this many times the delay of its fastest sibling, and so many seconds more.

A path's delay is the least of a hundred packets: neither a queue nor a busy machine adds that much to all of them.
"""
_CERTAIN: Final = 0.9
_US: Final = 1e6


def a_path_is_slow(facts: WindowFacts) -> Iterator[Sign]:
    """Some paths of a sweep are slower than their siblings. Signs name what is common to all slow paths.

    That is a link, or else a switch. Links in a direction that a fast path uses are ruled out. If several places fit,
    each is named, with less certainty.
    """
    slow, fast = _divided(facts)
    if not slow:
        return
    places = _common(facts, slow, fast)
    lines = tuple(_line(each, best) for each, best in slow)[:2]
    for place in places:
        yield Sign(place, lines, _CERTAIN / len(places))


def _divided(facts: WindowFacts) -> tuple[list[tuple[Swept, float]], list[Swept]]:
    """Return the slow paths, each with the delay of its fastest sibling, and the others."""
    fastest: dict[int, float] = {}
    for each in facts.swept:
        if each.delay is not None:
            hops = len(each.path)
            fastest[hops] = min(each.delay, fastest.get(hops, each.delay))
    slow: list[tuple[Swept, float]] = []
    fast: list[Swept] = []
    for each in facts.swept:
        if each.delay is None:
            continue
        best = fastest[len(each.path)]
        if each.delay > max(best * _TIMES, best + _MORE):
            slow.append((each, best))
        else:
            fast.append(each)
    return slow, fast


def _common(facts: WindowFacts, slow: Sequence[tuple[Swept, float]], fast: Sequence[Swept]) -> list[str]:
    sound = {port for each in fast for port in each.path}
    links = [{_link(facts, port) for port in each.path if port not in sound} for each, _ in slow]
    if shared := set.intersection(*links):
        named: dict[frozenset[str], str] = {}
        for port in (port for each, _ in slow for port in each.path if port not in sound):
            named.setdefault(_link(facts, port), f"{port}--{facts.peer(port)}")
        return [named[link] for link in named if link in shared]
    passing = {port.partition(":")[0] for each in fast for port in each.path[1:]}
    switches = [{port.partition(":")[0] for port in each.path[1:]} - passing for each, _ in slow]
    return sorted(set.intersection(*switches))


def _link(facts: WindowFacts, port: str) -> frozenset[str]:
    """Return the two ends of a link: its direction does not matter."""
    return frozenset({port, facts.peer(port)})


def _line(swept: Swept, best: float) -> Evidence:
    says = f"us at least, and {best * _US:.0f} us on the fastest path of as many hops: {' '.join(swept.path)}"
    return Evidence(
        says=says, of=swept.path[0], source="sweep", value=round((swept.delay or 0.0) * _US), at=swept.seconds
    )
