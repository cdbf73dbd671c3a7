"""The record of a challenge: the hidden scenario and the progress of the user, on disk.

It is a folder in the fabric's state, accessible by root only, which no other command prints::

    challenge/about.json    scenario, start time, challenge process, hints taken, wrong answers
              end.json      how its run ended; absent while it lasts
              recording/    the recording, which pauses while the user looks for the cause
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from lab.errors import UsageError
from lab.faults.ledger import Holder
from lab.kernel.process import files, locks
from lab.scenario import orphans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from lab.backends.fabric_state import FabricState
    from lab.faults.ledger import Entry

MARK: Final = "ROCELAB_CHALLENGE"
"""A variable in the environment of every program of a challenge; its value is the fabric's owner."""
_NONE: Final = "rocelab scenario break hides something"


@dataclass(frozen=True, slots=True)
class ChallengeInfo:
    """The state of a challenge."""

    scenario: str
    folder: str
    """The folder of the scenario's module."""
    seed: int
    began: float
    """The time on the user's clock, in seconds since 1970."""
    holder: Holder
    """The challenge process."""
    at: str = ""
    """The place to which the scenario was moved; otherwise ""."""
    hints: int = 0
    wrong: int = 0
    guess: tuple[str, str] | None = None
    """Cause and place of the last answer until the challenge was over."""
    solved: bool = False
    """Whether the user gave the right answer."""
    over: float | None = None
    """The time of the right answer, or of giving up."""
    scored: bool = False


@dataclass(frozen=True, slots=True)
class Challenge:
    """The folder of a challenge, which may not exist."""

    state: FabricState

    @property
    def recording(self) -> Path:
        """The recording of the challenge."""
        return self.state.challenge / "recording"

    @property
    def _about(self) -> Path:
        return self.state.challenge / "about.json"

    @property
    def _end(self) -> Path:
        return self.state.challenge / "end.json"

    def about(self) -> ChallengeInfo | None:
        """Return the state of the challenge; None if there is none."""
        try:
            data: dict[str, Any] = json.loads(self._about.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        guess = tuple(data["guess"]) if data.get("guess") else None
        return ChallengeInfo(**{**data, "holder": Holder(**data["holder"]), "guess": guess})

    def begin(self, about: ChallengeInfo) -> None:
        """Record the state of a challenge, replacing that of a previous one."""
        _write(self._about, asdict(about))

    def prepare(self) -> None:
        """Create an empty folder, accessible by root only."""
        self.forget()
        self.state.challenge.mkdir(mode=0o700)

    def forget(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.state.challenge, ignore_errors=True)

    def change(self, how: Callable[[ChallengeInfo], ChallengeInfo]) -> ChallengeInfo:
        """Update the state after a user's action. Raises UsageError if the challenge is gone."""
        try:
            with locks.held(self.state.challenge):
                about = how(required(self))
                self.begin(about)
                return about
        except FileNotFoundError:
            raise UsageError(f"fabric {self.state.name} has no challenge", _NONE) from None

    def end(self, why: str) -> None:
        """Record why the run failed; "" if it completed."""
        _write(self._end, {"why": why})

    def ended(self) -> str | None:
        """Return why the run failed, "" if it completed; None while it lasts, or if its process was killed."""
        with contextlib.suppress(FileNotFoundError):
            return str(json.loads(self._end.read_text(encoding="utf-8"))["why"])
        return None


def _write(path: Path, data: Any) -> None:
    with files.replaced(path) as fresh:
        fresh.write_text(json.dumps(data), encoding="utf-8")


def required(challenge: Challenge) -> ChallengeInfo:
    """Return the state of a challenge. Raises UsageError if there is none."""
    about = challenge.about()
    if about is None:
        raise UsageError(f"fabric {challenge.state.name} has no challenge", _NONE)
    return about


def lasting(state: FabricState) -> ChallengeInfo | None:
    """Return the state of a challenge whose process runs; None if there is none."""
    challenge = Challenge(state)
    if not os.access(state.challenge, os.X_OK):
        return None
    about = challenge.about()
    return about if about is not None and about.holder.lives and challenge.ended() is None else None


def refuse_another(state: FabricState) -> None:
    """Raise UsageError while a challenge lasts: other faults or scenarios would be mistaken for it."""
    if lasting(state) is not None:
        raise UsageError(f"fabric {state.name} has a challenge", "rocelab scenario fix ends it, or rocelab down")


def visible(state: FabricState, entries: Iterable[Entry]) -> list[Entry]:
    """Return the faults that may be shown: those of an active challenge stay hidden."""
    about = lasting(state)
    return [entry for entry in entries if about is None or entry.holder != about.holder]


def mend(state: FabricState) -> bool:
    """Clean up a challenge whose process was killed. Return whether there was one.

    Its faults are in the ledger, and are healed like all abandoned ones. ``port_restore.mend`` restores its settings.
    """
    challenge = Challenge(state)
    about = challenge.about() if os.access(state.challenge, os.X_OK) else None
    if about is None or about.holder.lives or challenge.ended() is not None:
        return False
    end_programs(state)
    with contextlib.suppress(FileNotFoundError):  # the fabric was taken down
        challenge.end("whoever attended it was killed")
    return True


def end_programs(state: FabricState) -> None:
    """End the remaining programs of a challenge of this fabric."""
    orphans.end(f"{MARK}={state.owner}")
