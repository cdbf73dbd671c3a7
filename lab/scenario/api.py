"""All that a scenario is made of.

A scenario is a module of one shape: a docstring whose first line is its title, with the story, a figure and the
numbers; ``Params``; ``run(stage, p)``, which only drives; checks, which only read; and ``SCENARIO`` at the end::

    class Params(Parameters):
        hold: Annotated[float, time_of(1, 60)] = 3.0
        \"\"\"How long each phase lasts.\"\"\"

    def run(stage: Stage, p: Params) -> None:
        with stage.writing("h1:h4"):
            with stage.phase("baseline"):
                stage.hold(p.hold)

    def nothing_is_lost(rec: Recording, p: Params) -> Verdict:
        \"\"\"Every packet that was sent arrives.\"\"\"
        ...

    SCENARIO = Scenario("incast", "incast.yaml", Params, run, (nothing_is_lost,))

With an ``answer`` it can be hidden: ``run`` says ``stage.linger()`` where the fault is there and can be looked for.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from lab.faults.fault import Parameters
from lab.faults.values import priorities, share_of, time_of
from lab.scenario.challenges.story_answer import StoryAnswer
from lab.scenario.stage import Stage
from lab.scenario.verdict import Verdict, VerdictOutcome, expect, in_words, unknown
from lab.telemetry.read.recording import Recording
from lab.telemetry.read.series import RecordingPhase
from lab.wire.craft.packet_values import between

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Parameters",
    "Recording",
    "RecordingPhase",
    "Scenario",
    "Stage",
    "StoryAnswer",
    "Verdict",
    "VerdictOutcome",
    "between",
    "expect",
    "in_words",
    "priorities",
    "share_of",
    "time_of",
    "unknown",
]  # fmt: skip

P = TypeVar("P", bound=Parameters)
Check: TypeAlias = "Callable[[Recording, Any], Verdict]"
"""Reads a recording and the parameters that it was made with."""


@dataclass(frozen=True)
class Scenario(Generic[P]):
    """A story: its name, the file of its topology, its parameters, how it is driven and what is true of it."""

    name: str
    topology: str
    """A file beside the scenarios' folder in ``topologies/``, or beside the scenario."""
    parameters: type[P]
    run: Callable[[Stage, P], None]
    checks: tuple[Check, ...]
    captures: tuple[str, ...] = ()
    """Links whose packets are recorded too, as ``rocelab capture`` names them: their headers."""
    answer: StoryAnswer | None = None
    """The cause, places and hints; a scenario without an answer can be run, but makes no challenge."""
    at: str = ""
    """The place where it runs instead of the first one of ``answer.where``; "" where it is not moved."""

    @property
    def text(self) -> str:
        """The docstring of its module."""
        return inspect.cleandoc(sys.modules[self.run.__module__].__doc__ or "")

    @property
    def title(self) -> str:
        """Its first line."""
        return self.text.partition("\n")[0].rstrip(".")


def named(check: Check) -> str:
    """What a check is called: its function's name with hyphens."""
    return check.__name__.replace("_", "-")
