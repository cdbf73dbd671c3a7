"""A scenario's texts and verdict on a run, so that reports need neither its module nor its fabric."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_STEP: Final = re.compile(r"(Given|When|Then|And|But)\s+(\S.*)")


@dataclass(frozen=True, slots=True)
class Check:
    """A check: the property that it tests, its outcome (pass, fail or unknown), and its evidence."""

    name: str
    meaning: str
    outcome: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A scenario's answer: root cause, place, explanation, fix and prevention."""

    cause: str
    where: str
    because: str
    fix: str
    prevention: str
    level: int = 0
    """Difficulty, from 1; 0 if it is not given."""


@dataclass(frozen=True, slots=True)
class ScenarioText:
    """A scenario's name, the text of its module, the results of its checks, and summaries of fault kinds."""

    scenario: str = ""
    text: str = ""
    outcome: str = ""
    checks: tuple[Check, ...] = ()
    kinds: Mapping[str, str] | None = None
    why: str = ""
    """The reason why no check was made."""
    answer: Answered | None = None


@dataclass(frozen=True, slots=True)
class Sentence:
    """A line of a story: its word (Given, When, Then, And or But), and its text."""

    word: str
    text: str


@dataclass(frozen=True, slots=True)
class Story:
    """The parts of a scenario's text."""

    title: str = ""
    sentences: tuple[Sentence, ...] = ()
    figure: str = ""
    numbers: str = ""


def story_of(text: str) -> Story:
    """Parse a scenario's text; missing parts are empty."""
    title = text.partition("\n")[0].rstrip(".")
    parts = _parts(text)
    told: list[str] = []
    figure: list[str] = []
    for line in parts.get("Story", []):
        (figure if line.startswith(" " * 8) and not _continues(told, line) else told).append(line)
    numbers = _dedented(parts.get("Numbers", []))
    return Story(
        title=title,
        sentences=tuple(_sentences(told)),
        figure="\n".join(_dedented(figure)),
        numbers="\n".join(numbers),
    )


def _parts(text: str) -> dict[str, list[str]]:
    """Return the lines below each heading; a heading is a line at the margin."""
    parts: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines()[1:]:
        if line and not line[0].isspace():
            name = line.strip()
        elif line.strip():
            parts.setdefault(name, []).append(line)
        elif name in parts:
            parts[name].append("")
    return parts


def _continues(told: list[str], line: str) -> bool:
    """Whether an indented line continues the sentence above it: an empty line separates a figure from the text."""
    return bool(told) and told[-1] != "" and bool(line.strip())


def _sentences(lines: list[str]) -> Iterator[Sentence]:
    held: Sentence | None = None
    for line in lines:
        begun = _STEP.fullmatch(line.strip())
        if begun:
            if held:
                yield held
            held = Sentence(begun[1], begun[2])
        elif held and line.strip():
            held = Sentence(held.word, f"{held.text} {line.strip()}")
    if held:
        yield held


def _dedented(lines: list[str]) -> list[str]:
    kept = [line for line in lines if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in kept), default=0)
    return [line[margin:] for line in kept]
