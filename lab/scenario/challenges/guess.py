"""Judging a user's guess about a challenge without revealing the answer. Pure."""

from __future__ import annotations

from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from lab.errors import UsageError
from lab.model.values.link_selection import choose_links, choose_ports
from lab.model.values.suggest import suggest
from lab.scenario import library

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from lab.model.topology import Topology
    from lab.scenario.challenges.story_answer import StoryAnswer

_NEAREST: Final = 3
"""The maximum number of suggested names."""
_LONGEST: Final = 64
_FORMS: Final = "a place is a node like leaf1, a port like leaf1:swp1, or a link like leaf1--spine1"


class Guess(StrEnum):
    """The result of a guess."""

    RIGHT = "right"
    ELSEWHERE = "right cause, wrong place"
    WRONG = "wrong"


def causes(folder: Path = library.OWN) -> dict[str, StoryAnswer]:
    """Return the answers of a folder's scenarios by cause.

    Of several with one cause, it is that of the scenario named like the cause, or else of the easiest.
    """
    answers = {name: library.find(name, folder).answer for name in library.names(folder)}
    known = {name: answer for name, answer in answers.items() if answer is not None}
    found = sorted((answer.cause != name, answer.level, name) for name, answer in known.items())
    return {known[name].cause: known[name] for *_, name in reversed(found)}


def find_cause(name: str, folder: Path = library.OWN) -> StoryAnswer:
    """Return an answer by the name of its cause or scenario. Raises UsageError that suggests causes."""
    known = causes(folder)
    if name in library.names(folder) and name not in known:
        named = library.find(name, folder).answer
        name = named.cause if named is not None else name
    if name not in known:
        raise UsageError(f"there is no cause {name!r}", _nearest(name, known))
    return known[name]


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return a remedy with up to three similar causes, and the command that lists all."""
    names = sorted(known)
    words = set(name[:_LONGEST].split("-"))
    close = get_close_matches(name[:_LONGEST], names, _NEAREST, 0.5)
    sharing = [each for each in names if words & set(each.split("-"))]
    found = list(dict.fromkeys([*close, *sharing]))[:_NEAREST]
    quoted = [repr(each) for each in found]
    meant = f"did you mean {' or '.join([', '.join(quoted[:-1]), quoted[-1]][not quoted[:-1] :])}? " if quoted else ""
    return f"{meant}rocelab scenario ls lists all: causes have the scenarios' names, and there is capacity"


def judge(answer: StoryAnswer, topology: Topology, claimed: StoryAnswer, where: str) -> tuple[Guess, str]:
    """Return how much of a guess is right, and a line that explains it. Raises UsageError for an unknown place."""
    place = ends_of(topology, where)
    if claimed.cause != answer.cause:
        return Guess.WRONG, f"were it {claimed.cause}, then {claimed.sign}. That is not so here"
    if any(place & ends_of(topology, right) for right in answer.where):
        return Guess.RIGHT, f"it is {answer.cause}, at {where}"
    return (
        Guess.ELSEWHERE,
        f"it is {answer.cause}, and {where} has no fault: compare it with other places where this could happen",
    )


def ends_of(topology: Topology, name: str) -> frozenset[str]:
    """Return a place in comparable form: a node, a port, or both ends of a link. Raises UsageError if unknown."""
    if name in topology.by_name:
        return frozenset({name})
    if "--" in name and "," not in name:
        pairs = [choice.link.ends for choice in choose_links(topology, [name])]
        return frozenset(str(end) for ends in pairs for end in ends)
    if ":" in name:
        return frozenset(str(end) for end in choose_ports(topology, [name]))
    known = ", ".join(topology.by_name)
    raise UsageError(
        f"no place {name!r} in fabric {topology.name}",
        suggest(name, topology.by_name, f"{_FORMS}; nodes are {known}"),
    )
