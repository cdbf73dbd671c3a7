"""What is answered about recordings: ``rocelab record``."""

from __future__ import annotations

from typing import Literal

from lab.cli.answers.base import Answer


class Started(Answer):
    """``rocelab record start``."""

    name: str
    fabric: str
    folder: str
    hz: float


class Listed(Answer):
    """A recording of ``rocelab record ls``."""

    name: str
    fabric: str
    state: Literal["recording", "complete", "incomplete"]
    seconds: float | None
    """None of one that is not complete."""
    folder: str


class Phase(Answer):
    """A part of a run that has a name."""

    name: str
    start: float
    """Seconds into the recording."""
    seconds: float


class Busy(Answer):
    """A port, and what it carried on average; bit/s of frames."""

    port: str
    rx_bps: float
    tx_bps: float


class Recording(Answer):
    """``rocelab record show``, and of the one that it ended ``stop``."""

    name: str
    fabric: str
    folder: str
    complete: bool
    why: str
    """Why it ended otherwise than by its recorder's wish; empty when it did not."""
    began: str
    """By the clock on the wall, as ISO 8601 has it."""
    seconds: float
    hz: float
    samples: int
    skipped: int | None
    """Samples that were due and not taken; None where nobody counted them."""
    late_mean: float
    """Seconds."""
    late_max: float
    phases: list[Phase]
    busiest: list[Busy]
    """The busiest ports first."""
    events: dict[str, int]
    """How many, by source and kind."""
    commands: int
    captures: list[str]
    """Files below the recording's folder."""
