"""What ``rocelab fault`` answers."""

from __future__ import annotations

from lab.cli.answers.base import Answer


class FaultEntry(Answer):
    """A fault that was injected."""

    number: int
    """What ``fault heal`` takes."""
    kind: str
    place: str
    """As it was written."""
    parameters: dict[str, str]
    """Those that were given."""
    whole: bool
    """Its injection came to its end."""
    timing: str
    """Of one that comes and goes, in words; empty of one that stays."""
    pid: int | None
    """The process that looks after it: when that is gone, the next command heals it."""


class FaultRun(Answer):
    """A fault that came and went by the clock."""

    kind: str
    place: str
    came: int
    """How often it was injected."""
    interrupted: bool
    """A signal ended it before its time."""


class FaultParameter(Answer):
    """A parameter of a kind."""

    name: str
    default: str | None
    """None where it has to be given."""
    meaning: str


class FaultKind(Answer):
    """A kind of fault, of ``fault show`` and ``fault ls --kinds``."""

    kind: str
    place: str
    """What it is about, and how that is written."""
    meaning: str
    instant: bool
    """It is over once it has happened; there is nothing to heal."""
    parameters: list[FaultParameter]
