"""The cause engine: matches facts against the table of causes, drops consequences, and ranks what is left."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from lab.diagnose.causes.cause_table import CAUSES
from lab.diagnose.conservation.locations import locate
from lab.diagnose.diagnosis import Diagnosis, DiagnosisOutcome, Found
from lab.diagnose.symptom import matches
from lab.diagnose.unexplained import trouble

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lab.diagnose.causes.cause import Cause
    from lab.diagnose.conservation.locations import Location
    from lab.diagnose.facts import WindowFacts
    from lab.diagnose.symptom import Evidence, Sign, Symptom

_SURE: Final = 0.99
_SHORT: Final = 0.3
"""Seconds. A shorter window has too few counts for a diagnosis."""
_CERTAIN: Final = 0.75
"""From this confidence on, a cause is not listed as an alternative of another, nor has alternatives."""
_LINES: Final = 8
"""The maximum number of evidence lines per cause."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    cause: Cause
    sign: Sign
    supports: tuple[Sign, ...]
    confidence: float


def diagnose(facts: WindowFacts) -> Diagnosis:
    """Return the diagnosis of a window. With fewer facts the answer is the same, or less certain."""
    if facts.seconds < _SHORT:
        missing = (f"time: the window has {facts.seconds:.2f} s", *facts.missing)
        return Diagnosis(
            outcome=DiagnosisOutcome.UNKNOWN,
            causes=(),
            unexplained=(),
            missing=missing,
            start=facts.start,
            end=facts.end,
        )
    looked = _Looked(facts)
    kept = _without_fallbacks(_unexplained(facts, _shared(list(_candidates(looked)))))
    found = _with_alternatives(_ranked([_found(facts, each) for each in _by_cause(kept)]))
    faults = [each for each in found if each.fault]
    wrong = () if faults else tuple(dict.fromkeys(trouble(facts)))
    if faults:
        outcome = DiagnosisOutcome.FAULT
    elif wrong or (facts.plain and not facts.swept_pairs):
        outcome = DiagnosisOutcome.UNKNOWN
    else:
        outcome = DiagnosisOutcome.CAPACITY if found else DiagnosisOutcome.HEALTHY
    return Diagnosis(
        outcome=outcome,
        causes=found,
        unexplained=wrong[:_LINES],
        missing=facts.missing,
        start=facts.start,
        end=facts.end,
        located=locate(facts),
    )


def together(diagnoses: Sequence[Diagnosis]) -> Diagnosis:
    """Merge the diagnoses of several windows of a recording: a cause found in one of them is a cause of the whole."""
    best: dict[str, Found] = {}
    for diagnosis in diagnoses:
        for found in diagnosis.causes:
            before = best.get(found.cause)
            if before is None:
                best[found.cause] = found
                continue
            first, second = sorted((before, found), key=lambda each: -each.confidence)
            more = tuple(place for place in second.places if second.confidence > 0.9 and place not in first.places)
            best[found.cause] = replace(first, places=first.places + more, since=min(before.since, found.since))
    outcomes = {diagnosis.outcome for diagnosis in diagnoses}
    outcome = next((each for each in DiagnosisOutcome if each in outcomes), DiagnosisOutcome.UNKNOWN)
    if outcome is not DiagnosisOutcome.FAULT and DiagnosisOutcome.UNKNOWN in outcomes:
        usable = [each for each in diagnoses if each.end - each.start >= _SHORT]
        outcome = next(
            (
                each
                for each in (DiagnosisOutcome.UNKNOWN, *DiagnosisOutcome)
                if each in {one.outcome for one in usable}
            ),
            DiagnosisOutcome.UNKNOWN,
        )
    wrong = (
        () if outcome is DiagnosisOutcome.FAULT else tuple(line for each in diagnoses for line in each.unexplained)
    )
    missing = tuple(
        dict.fromkeys(line for each in diagnoses for line in each.missing if not line.startswith("time:"))
    )
    start, end = min(each.start for each in diagnoses), max(each.end for each in diagnoses)
    causes = _with_alternatives(_ranked(list(best.values())))
    return Diagnosis(
        outcome=outcome, causes=causes, unexplained=wrong[:_LINES], missing=missing, start=start, end=end,
        located=_worst(each for diagnosis in diagnoses for each in diagnosis.located),
    )  # fmt: skip


def _worst(locations: Iterable[Location]) -> tuple[Location, ...]:
    """Return for each place and effect the window that shows most of it, the most affected share first."""
    found: dict[tuple[str, str], Location] = {}
    for each in sorted(locations, key=lambda each: -each.share):
        found.setdefault((each.place, each.effect), each)
    return tuple(found.values())


class _Looked:
    """The symptoms of a window's facts. Each symptom is evaluated once and cached."""

    def __init__(self, facts: WindowFacts) -> None:
        self.facts = facts
        self._seen: dict[Symptom, tuple[Sign, ...]] = {}

    def signs(self, symptom: Symptom) -> tuple[Sign, ...]:
        if symptom not in self._seen:
            self._seen[symptom] = tuple(symptom(self.facts))
        return self._seen[symptom]

    def at(self, symptom: Symptom, place: str) -> Sign | None:
        """Return the first sign of a symptom whose place matches ``place``, or None."""
        return next((sign for sign in self.signs(symptom) if matches(sign.place, place)), None)


def _candidates(looked: _Looked) -> Iterator[_Candidate]:
    for cause in CAUSES:
        first, *others = cause.needs
        for sign in looked.signs(first):
            if any(looked.at(each, sign.place) is None for each in others):
                continue
            if any(looked.at(each, sign.place) is not None for each in cause.excludes):
                continue
            seen = [looked.at(each, sign.place) for each in cause.supports]
            supports = tuple(each for each in seen if each is not None)
            share = len(supports) / len(seen) if seen else 0.0
            yield _Candidate(
                cause=cause,
                sign=sign,
                supports=supports,
                confidence=sign.weight + max(0.0, _SURE - sign.weight) * share,
            )


def _shared(candidates: list[_Candidate]) -> list[_Candidate]:
    """Lower the confidence of causes that one symptom at one place indicates equally.

    Such causes share their first needed symptom and the place, and no supporting symptom. Their confidence is divided
    by their number.
    """
    claims = {(each.cause.needs[0], each.sign.place, each.cause.name) for each in candidates if not each.supports}
    rivals = Counter((symptom, place) for symptom, place, _ in claims)
    return [
        each
        if each.supports or rivals[each.cause.needs[0], each.sign.place] < 2
        else replace(each, confidence=each.confidence / rivals[each.cause.needs[0], each.sign.place])
        for each in candidates
    ]


def _unexplained(facts: WindowFacts, candidates: list[_Candidate]) -> list[_Candidate]:
    """Remove candidates that another candidate explains, either anywhere or on the same or an adjacent node."""
    return [
        each
        for each in candidates
        if not any(
            each.cause.name in other.cause.explains
            or (each.cause.name in other.cause.nearby and _adjacent(facts, other.sign.place, each.sign.place))
            for other in candidates
            if other.cause.name != each.cause.name
        )
    ]


def _without_fallbacks(candidates: list[_Candidate]) -> list[_Candidate]:
    """Remove causes that only name a place, if there is any other fault."""
    named = any(each.cause.fault and not each.cause.fallback for each in candidates)
    return [each for each in candidates if not (named and each.cause.fallback)]


def _adjacent(facts: WindowFacts, one: str, other: str) -> bool:
    nodes, others = ({end.partition(":")[0] for end in place.split("--")} for place in (one, other))
    cabled = {facts.peer(port.name).partition(":")[0] for node in nodes for port in facts.ports_of(node)}
    return bool((nodes | cabled) & others)


def _by_cause(candidates: list[_Candidate]) -> Iterator[list[_Candidate]]:
    """Yield for each cause the candidates of its best row, in descending order of confidence."""
    names = dict.fromkeys(each.cause.name for each in candidates)
    for name in names:
        mine = sorted((each for each in candidates if each.cause.name == name), key=lambda each: -each.confidence)
        row = mine[0].cause
        yield [each for each in mine if each.cause is row]


def _found(facts: WindowFacts, candidates: list[_Candidate]) -> Found:
    best = candidates[0]
    place, cause = best.sign.place, best.cause
    port = place.partition("--")[0]
    peer = facts.peer(port)
    names = {
        "place": place, "node": best.sign.node, "port": port, "peer": peer or best.sign.node,
        "interface": port.partition(":")[2],
        "peer_node": peer.partition(":")[0], "peer_interface": peer.partition(":")[2],
        "priority": "" if best.sign.priority is None else best.sign.priority,
    }  # fmt: skip
    evidence: dict[Evidence, None] = {}
    for each in candidates:
        evidence.update(dict.fromkeys(each.sign.evidence))
    for sign in best.supports:
        evidence.update(dict.fromkeys(sign.evidence))
    return Found(
        cause=cause.name,
        title=cause.title,
        fault=cause.fault,
        places=_places(facts, candidates),
        priority=best.sign.priority,
        confidence=round(best.confidence, 2),
        evidence=tuple(evidence)[:_LINES],
        rival=cause.rival,
        tell=cause.tell.format(**names),
        fix=cause.fix.format(**names),
        words=cause.words,
        since=facts.start,
    )


def _places(facts: WindowFacts, candidates: list[_Candidate]) -> tuple[str, ...]:
    """Return the distinct places of the candidates. A node replaces its ports if all of them are listed."""
    places = tuple(dict.fromkeys(each.sign.place for each in candidates))
    nodes = {place.partition(":")[0] for place in places}
    ports = {node: {port.name for port in facts.ports_of(node)} for node in nodes}
    whole = {node for node in nodes if len(ports[node]) > 1 and ports[node] <= set(places)}
    return tuple(dict.fromkeys(node if (node := place.partition(":")[0]) in whole else place for place in places))


def _ranked(found: list[Found]) -> tuple[Found, ...]:
    order = {cause.name: number for number, cause in reversed(list(enumerate(CAUSES)))}
    return tuple(sorted(found, key=lambda each: (not each.fault, -each.confidence, order[each.cause])))


def _with_alternatives(found: tuple[Found, ...]) -> tuple[Found, ...]:
    """Add alternatives to each cause: faults with the same figures at the same place, if neither is certain."""
    return tuple(
        replace(each, alternatives=tuple(other.cause for other in found if _is_either(each, other))) for each in found
    )


def _is_either(one: Found, other: Found) -> bool:
    """Return whether two faults are alternatives.

    They are rivals (directly, or through an alternative), share a place, and neither has a confidence of at least
    0.75.
    """
    rivals = other.cause in {one.rival, *one.alternatives} or one.cause in {other.rival, *other.alternatives}
    unsure = max(one.confidence, other.confidence) < _CERTAIN
    same = any(matches(place, another) for place in one.places for another in other.places)
    return one.cause != other.cause and one.fault and other.fault and rivals and unsure and same
