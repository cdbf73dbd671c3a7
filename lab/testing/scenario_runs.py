"""Scenarios as tests: run on a fabric of the test's own, and judged."""

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
    """A completed scenario: its verdicts and its recording."""

    judged: Judged
    folder: Path

    @property
    def failures(self) -> dict[str, str]:
        """The checks that did not pass, with their evidence; empty if all passed."""
        return {
            name: f"{verdict.outcome}: {verdict.evidence}"
            for name, verdict in self.judged.verdicts.items()
            if verdict.outcome is not VerdictOutcome.PASS
        }

    @property
    def recording(self) -> Recording:
        """The recording of the run."""
        return Recording.open(self.folder)


@dataclass
class Scenarios:
    """Runs scenarios on fabrics from ``build``, each recorded below ``folder``."""

    build: Callable[[Topology], Fabric]
    folder: Path

    def __call__(self, name: str, *, path: Path = library.OWN, seed: int = 1, **parameters: Any) -> ScenarioRun:
        """Run a scenario of the folder ``path``, by default rocelab's own.

        Parameters are those of ``rocelab scenario run --set``.
        """
        scenario = library.find(name, path)
        fabric = self.build(read_topology(library.topology_of(scenario, path), time_source.reaction()))
        written = {key.replace("_", "-"): value for key, value in parameters.items()}
        into = self.folder / f"{name}-{len(list(self.folder.glob(f'{name}-*'))) + 1}"
        runner.play(scenario, written, into, folder=path, seed=seed, keep=True, fabric=fabric.name)
        return ScenarioRun(judge(into, path), into)
