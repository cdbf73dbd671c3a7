"""Scenarios as tests: played on a fabric of the test's own, and judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lab.kernel.process import time_source
from lab.model.load import read_topology
from lab.scenario import library, runner
from lab.scenario.judge import judge
from lab.scenario.verdict import VerdictOutcome
from lab.telemetry.read.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lab.backends.backend import Fabric
    from lab.model.topology import Topology
    from lab.scenario.judge import Judged


@dataclass(frozen=True)
class ScenarioRun:
    """A scenario that was played: its verdicts, and its recording."""

    judged: Judged
    folder: Path

    @property
    def failures(self) -> dict[str, str]:
        """The checks that did not pass, and what was seen: empty when all is well."""
        return {
            name: f"{verdict.outcome}: {verdict.evidence}"
            for name, verdict in self.judged.verdicts.items()
            if verdict.outcome is not VerdictOutcome.PASS
        }

    @property
    def recording(self) -> Recording:
        """What was recorded."""
        return Recording.open(self.folder)


@dataclass
class Scenarios:
    """Plays scenarios, each recorded below ``folder``, on fabrics that ``build`` has."""

    build: Callable[[Topology], Fabric]
    folder: Path

    def __call__(self, name: str, *, path: Path = library.OWN, seed: int = 1, **parameters: Any) -> ScenarioRun:
        """``rocelab scenario run``: one of rocelab's, or of a folder of your own; parameters as after ``--set``."""
        scenario = library.find(name, path)
        fabric = self.build(read_topology(library.topology_of(scenario, path), time_source.reaction()))
        written = {key.replace("_", "-"): value for key, value in parameters.items()}
        into = self.folder / f"{name}-{len(list(self.folder.glob(f'{name}-*'))) + 1}"
        runner.play(scenario, written, into, folder=path, seed=seed, keep=True, fabric=fabric.name)
        return ScenarioRun(judge(into, path), into)
