"""The explanation, step by step: the sentences of a story, each bound to what the recording has of it.

Given is the first phase. A When is what was injected or healed, in their order, and where nothing was, the beginning
of the next phase. What follows it, Then and And, is so from the next phase on, or later in the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lab.report.places import places_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.topology import Topology
    from lab.report.facts import Facts

_SLOW: Final = 0.02
"""How fast a wave is shown: it crosses a fabric within a tenth of a second."""
_LEAD: Final = 0.005
"""Seconds before the first standstill from which on it is shown."""


def steps_of(topology: Topology, facts: Facts) -> list[dict[str, Any]]:
    """Steps by time: ``word``, ``text``, ``at`` in seconds, ``bound`` to what, ``nodes`` and ``ports``; ``speed``."""
    told = [*_story(topology, facts), *_wave(facts)]
    return sorted(told, key=lambda step: float(step["at"]))


def _story(topology: Topology, facts: Facts) -> Iterator[dict[str, Any]]:
    whens = _whens(facts)
    place, after = -1, 0
    for sentence in facts.story.sentences:
        place, after = (place + 1, 0) if sentence.word == "When" else (place, after + 1)
        at, bound = _moment(facts, whens, place, after)
        named = places_in(topology, sentence.text)
        yield {"word": sentence.word, "text": sentence.text, "at": at, "bound": bound, **named}


def _whens(facts: Facts) -> list[tuple[float, str]]:
    """What a story's Whens can be: faults that come and go, or phases, but for the first where it is the Given."""
    deeds = [(fault.start, f"{fault.kind} is injected") for fault in facts.faults]
    deeds += [(fault.end, f"{fault.kind} is healed") for fault in facts.faults if fault.end is not None]
    wanted = sum(sentence.word == "When" for sentence in facts.story.sentences)
    phases = [(phase.start, f"phase {phase.name}") for phase in facts.phases]
    return sorted(deeds) if deeds else phases[-wanted:] if wanted else []


def _moment(facts: Facts, whens: list[tuple[float, str]], place: int, after: int) -> tuple[float, str]:
    """When a sentence is so: ``place`` counts the Whens, and ``after`` the sentences since."""
    if place < 0 or not whens:
        return (facts.phases[0].start, f"phase {facts.phases[0].name}") if facts.phases else (0.0, "the beginning")
    place = min(place, len(whens) - 1)
    at, bound = whens[place]
    until = whens[place + 1][0] if place + 1 < len(whens) else facts.seconds
    if not after:
        return at, bound
    behind = [phase for phase in facts.phases if at < phase.start and phase.end < until]
    if after <= len(behind):
        return behind[after - 1].start, f"phase {behind[after - 1].name}"
    within = behind[-1:] or [phase for phase in facts.phases if phase.start <= at < phase.end]
    if not within:
        return at, bound
    start, end = max(at, within[0].start), min(until, within[0].end)
    number = after - len(behind)
    return start + (end - start) * number / (number + 1), f"phase {within[0].name}, going on"


def _wave(facts: Facts) -> Iterator[dict[str, Any]]:
    """The standstills of several ports one after the other, shown slowly."""
    began = facts.faults[0].start if facts.faults else 0.0
    wave = [pause for pause in facts.standstills if pause.start >= began]
    if len(wave) < 2:
        return
    first = wave[0].start
    hops = ", ".join(f"{pause.port} after {(pause.start - first) * 1000:.1f} ms" for pause in wave[1:])
    yield {
        "word": "Wave", "text": f"{wave[0].port} stands still first, {hops}", "at": max(began, first - _LEAD),
        "bound": "the first standstill", "nodes": [], "ports": [pause.port for pause in wave], "speed": _SLOW,
    }  # fmt: skip
