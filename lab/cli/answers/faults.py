"""The ``--json`` answers of ``rocelab fault``."""

from __future__ import annotations

from lab.cli.answers.base import Answer


class FaultEntry(Answer):
    """An injected fault."""

    number: int
    """The number for ``fault heal``."""
    kind: str
    place: str
    """The place as the user wrote it."""
    parameters: dict[str, str]
    """The parameters that the user gave."""
    whole: bool
    """Whether the injection was completed."""
    timing: str
    """Schedule of a fault that comes and goes, as text; empty for a permanent fault."""
    pid: int | None
    """The process that maintains the fault; if it is gone, the next command heals the fault."""


class FaultRun(Answer):
    """A fault that was injected and healed on a schedule."""

    kind: str
    place: str
    came: int
    """Number of injections."""
    interrupted: bool
    """Whether a signal ended it early."""


class FaultParameter(Answer):
    """A parameter of a kind of fault."""

    name: str
    default: str | None
    """null if the parameter is required."""
    meaning: str


class FaultKind(Answer):
    """A kind of fault, of ``fault show`` and ``fault ls --kinds``."""

    kind: str
    place: str
    """The kind of place, and its notation."""
    meaning: str
    instant: bool
    """Whether the fault is over at once, with nothing to heal."""
    parameters: list[FaultParameter]
