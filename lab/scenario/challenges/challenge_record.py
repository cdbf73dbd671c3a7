"""A challenge: what was hidden in a fabric for somebody to find, as the commands about it know it.

It is a folder of the fabric's state that no other command prints, for root alone::

    challenge/about.json    which scenario, since when, who attends it, hints taken, wrong answers
              end.json      how its run ended; absent while it lasts
              recording/    what was recorded: all but what came while somebody looked for the cause
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
"""In the environment of every program that a challenge has started: whose it is."""
_NONE: Final = "rocelab scenario break hides something"


@dataclass(frozen=True, slots=True)
class ChallengeInfo:
    """What is known of a challenge."""

    scenario: str
    folder: str
    """Of the scenario's module."""
    seed: int
    began: float
    """By the clock of whoever plays, in seconds since 1970."""
    holder: Holder
    """Who attends it."""
    at: str = ""
    """The place to which the scenario was moved; "" where it was not."""
    hints: int = 0
    wrong: int = 0
    solved: bool = False
    """Whether the right answer was given."""
    over: float | None = None
    """When it was, or when it was given up."""
    scored: bool = False


@dataclass(frozen=True, slots=True)
class Challenge:
    """The folder of a challenge, there or not."""

    state: FabricState

    @property
    def recording(self) -> Path:
        """What was recorded of it."""
        return self.state.challenge / "recording"

    @property
    def _about(self) -> Path:
        return self.state.challenge / "about.json"

    @property
    def _end(self) -> Path:
        return self.state.challenge / "end.json"

    def about(self) -> ChallengeInfo | None:
        """What is known of it; None when there is none."""
        try:
            data: dict[str, Any] = json.loads(self._about.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return ChallengeInfo(**{**data, "holder": Holder(**data["holder"])})

    def begin(self, about: ChallengeInfo) -> None:
        """Write down who attends it, in place of one that is over."""
        _write(self._about, asdict(about))

    def prepare(self) -> None:
        """A folder for root alone, with nothing in it."""
        self.forget()
        self.state.challenge.mkdir(mode=0o700)

    def forget(self) -> None:
        """Leave nothing of it."""
        shutil.rmtree(self.state.challenge, ignore_errors=True)

    def change(self, how: Callable[[ChallengeInfo], ChallengeInfo]) -> ChallengeInfo:
        """Note what whoever plays has done; UsageError when it is gone."""
        try:
            with locks.held(self.state.challenge):
                about = how(required(self))
                self.begin(about)
                return about
        except FileNotFoundError:
            raise UsageError(f"fabric {self.state.name} has no challenge", _NONE) from None

    def end(self, why: str) -> None:
        """Write down how its run ended: "" when it came to its end."""
        _write(self._end, {"why": why})

    def ended(self) -> str | None:
        """How its run ended; None while it lasts, or where whoever attended it was killed."""
        with contextlib.suppress(FileNotFoundError):
            return str(json.loads(self._end.read_text(encoding="utf-8"))["why"])
        return None


def _write(path: Path, data: Any) -> None:
    with files.replaced(path) as fresh:
        fresh.write_text(json.dumps(data), encoding="utf-8")


def required(challenge: Challenge) -> ChallengeInfo:
    """What is known of a challenge; UsageError when there is none."""
    about = challenge.about()
    if about is None:
        raise UsageError(f"fabric {challenge.state.name} has no challenge", _NONE)
    return about


def lasting(state: FabricState) -> ChallengeInfo | None:
    """What is known of a challenge that somebody attends; None where none is, or one that is over."""
    challenge = Challenge(state)
    if not os.access(state.challenge, os.X_OK):
        return None
    about = challenge.about()
    return about if about is not None and about.holder.lives and challenge.ended() is None else None


def refuse_another(state: FabricState) -> None:
    """UsageError where a challenge lasts: what else is broken or played would be taken for it."""
    if lasting(state) is not None:
        raise UsageError(f"fabric {state.name} has a challenge", "rocelab scenario fix ends it, or rocelab down")


def visible(state: FabricState, entries: Iterable[Entry]) -> list[Entry]:
    """The faults that may be told of: not those of a challenge that lasts."""
    about = lasting(state)
    return [entry for entry in entries if about is None or entry.holder != about.holder]


def mend(state: FabricState) -> bool:
    """End what a challenge has left whose attendant was killed; whether there was one.

    Its faults are the ledger's, and are healed with those of everybody else; what it has set is put back by
    ``settings.mend``.
    """
    challenge = Challenge(state)
    about = challenge.about() if os.access(state.challenge, os.X_OK) else None
    if about is None or about.holder.lives or challenge.ended() is not None:
        return False
    end_programs(state)
    with contextlib.suppress(FileNotFoundError):  # it went with its fabric
        challenge.end("whoever attended it was killed")
    return True


def end_programs(state: FabricState) -> None:
    """End what a challenge of this fabric has started and left."""
    orphans.end(f"{MARK}={state.owner}")
