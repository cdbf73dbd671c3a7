"""The API of scenarios: all that a scenario module imports.

A scenario is a module with these parts, in this order: a docstring (title, story, figure and numbers); ``Params``;
``run(stage, p)``, which only drives the fabric; checks, which only read the recording; and ``SCENARIO``::

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

With an ``answer`` it can be a challenge. Then ``run`` calls ``stage.linger()`` where the fault is active.
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
"""A check: takes a recording and the parameters of its run."""


@dataclass(frozen=True)
class Scenario(Generic[P]):
    """A scenario: its name, topology file, parameters, the function that drives it, and its checks."""

    name: str
    topology: str
    """A file in ``topologies/`` beside the scenarios' folder, or in the scenario's own folder."""
    parameters: type[P]
    run: Callable[[Stage, P], None]
    checks: tuple[Check, ...]
    captures: tuple[str, ...] = ()
    """Links whose packet headers are recorded, named as for ``rocelab capture``."""
    answer: StoryAnswer | None = None
    """The cause, places and hints. A scenario without an answer can be run, but not used for challenges."""
    at: str = ""
    """The place where it runs, if moved from the first one of ``answer.where``; otherwise ""."""

    @property
    def text(self) -> str:
        """The docstring of the scenario's module."""
        return inspect.cleandoc(sys.modules[self.run.__module__].__doc__ or "")

    @property
    def title(self) -> str:
        """The first line of the docstring, without the full stop."""
        return self.text.partition("\n")[0].rstrip(".")


def named(check: Check) -> str:
    """Return the name of a check: its function's name with hyphens."""
    return check.__name__.replace("_", "-")
