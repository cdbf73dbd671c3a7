"""The steps of an explanation: the sentences of a story, each bound to a time of the recording.

Given is the first phase. A When is a turning point of the run. The sentences after it, Then and And, are bound to the
phases that follow, or to later times of the same phase.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lab.report.mentions import places_in
from lab.report.ruled_out import WORST
from lab.report.turning_points import turning_points

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.topology import Topology
    from lab.report.run_facts import ReportFacts
    from lab.report.turning_points import TurningPoint

_SLOW: Final = 0.02
"""Playback speed of a wave of pauses, which crosses a fabric within a tenth of a second."""
_LEAD: Final = 0.005
"""Seconds before the first standstill at which a wave begins to play."""
_SETTLED: Final = 0.01
"""Seconds after the last standstill of a wave at which all of it is visible."""


def steps_of(topology: Topology, facts: ReportFacts) -> list[dict[str, Any]]:
    """Return the steps by time: ``word``, ``text``, ``at`` (seconds), ``bound``, ``nodes``, ``ports``; ``speed``."""
    told = [*_story(topology, facts), *_wave(facts)]
    return sorted(told, key=lambda step: float(step["at"]))


def opening_of(facts: ReportFacts, steps: list[dict[str, Any]]) -> float:
    """Return the time shown first, in seconds: the whole wave, else the effect of the fault, else the run's end.

    For a recording without a story, it is the busiest time.
    """
    wave = next((step for step in steps if step["word"] == "Wave"), None)
    if wave is not None:
        return max(pause.start for pause in facts.standstills if pause.port in wave["ports"]) + _SETTLED
    thens = [step for step in steps if step["word"] in {"Then", "But"}]
    if not thens:
        return facts.busiest
    worst = [phase for phase in facts.phases if phase.name == WORST]
    seen = [then for then in thens if any(phase.start <= then["at"] < phase.end for phase in worst)]
    broken = [then for then in thens if then["at"] > facts.broken_from > 0]
    return float((seen or broken or thens[-1:])[0]["at"])


def _story(topology: Topology, facts: ReportFacts) -> Iterator[dict[str, Any]]:
    whens = turning_points(facts, sum(sentence.word == "When" for sentence in facts.story.sentences))
    place, after = -1, 0
    for sentence in facts.story.sentences:
        place, after = (place + 1, 0) if sentence.word == "When" else (place, after + 1)
        at, bound = _moment(facts, whens, place, after)
        named = places_in(topology, sentence.text)
        yield {"word": sentence.word, "text": sentence.text, "at": at, "bound": bound, **named}


def _moment(facts: ReportFacts, whens: list[TurningPoint], place: int, after: int) -> tuple[float, str]:
    """Return the time of a sentence: ``place`` counts the Whens, ``after`` the sentences since."""
    if place < 0 or not whens:
        return (facts.phases[0].start, f"phase {facts.phases[0].name}") if facts.phases else (0.0, "the beginning")
    place = min(place, len(whens) - 1)
    at, bound = whens[place].at, whens[place].what
    until = whens[place + 1].at if place + 1 < len(whens) else facts.seconds
    if not after:
        return at, bound
    here = [phase for phase in facts.phases if phase.start <= at < phase.end]
    behind = [phase for phase in facts.phases if at < phase.start and phase.end <= until]
    if not whens[place].mends:  # the fault takes full effect at once and keeps it
        worst = next((number for number, phase in enumerate(behind, 1) if phase.name == WORST), None)
        behind = [] if any(phase.name == WORST for phase in here) else behind[:worst]
    if after <= len(behind):
        return behind[after - 1].start, f"phase {behind[after - 1].name}"
    within = behind[-1:] or here
    if not within:
        return at, bound
    start, end = max(at, within[0].start), min(until, within[0].end)
    number = after - len(behind)
    return start + (end - start) * number / (number + 1), f"phase {within[0].name}, continued"


def _wave(facts: ReportFacts) -> Iterator[dict[str, Any]]:
    """Yield the successive standstills of several ports, played slowly."""
    began = facts.broken_from
    wave = [pause for pause in facts.standstills if pause.start >= began]
    if len(wave) < 2:
        return
    first = wave[0].start
    hops = ", ".join(f"{pause.port} after {(pause.start - first) * 1000:.1f} ms" for pause in wave[1:])
    yield {
        "word": "Wave", "text": f"{wave[0].port} stops first, {hops}", "at": max(began, first - _LEAD),
        "bound": "the first stopped port", "nodes": [], "ports": [pause.port for pause in wave], "speed": _SLOW,
    }  # fmt: skip
