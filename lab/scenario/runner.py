"""The runner: runs a scenario on a new or running fabric, and records it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lab.backends import lifecycle, registry
from lab.backends.backend import in_lines
from lab.backends.fabric_state import FabricState
from lab.errors import UsageError
from lab.faults import declared, fault_engine
from lab.faults.parameters import read
from lab.kernel.process import time_source
from lab.model.load import read_topology, renamed
from lab.model.qos.resolve import resolve
from lab.scenario import library, orphans, port_restore
from lab.scenario.challenges import challenge_record
from lab.scenario.stage import Stage
from lab.telemetry.record.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from lab.backends.backend import Fabric
    from lab.model.topology import Topology
    from lab.scenario.api import Parameters, Scenario

_HEADERS: Final = 160
"""The captured bytes of a packet: enough for its headers inside a tunnel."""


def parameters_of(scenario: Scenario[Any], written: Mapping[str, Any]) -> Parameters:
    """Return validated parameters. Raises InvalidInput that lists all invalid ones."""
    made: Parameters = read(scenario.parameters, written, scenario.name, f"rocelab scenario show {scenario.name}")
    return made


def play(  # noqa: PLR0913 - how it is to be played
    scenario: Scenario[Any],
    written: Mapping[str, Any],
    into: Path,
    *,
    folder: Path = library.OWN,
    seed: int = 1,
    keep: bool = False,
    fabric: str = "",
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Run a scenario and record it into a folder.

    A running fabric of its topology is reused, and left as it was. Otherwise one is built, and taken down at the end
    unless ``keep``. Its name is that of its topology, or ``fabric``. Raises UsageError if a fabric of that name has a
    different topology, faults or settings. Any other error is raised, and also recorded.
    """
    parameters = parameters_of(scenario, written)
    topology = read_topology(
        library.topology_of(scenario, folder), reaction=time_source.reaction(), also=declared.check
    )
    if fabric:
        topology = renamed(topology, fabric)
    asked = {
        "scenario": scenario.name,
        "at": scenario.at,
        "seed": seed,
        "params": parameters.model_dump(mode="json", by_alias=True),
    }
    with (
        fabric_for(topology, tell, keep=keep) as found,
        orphans.marked(found.fabric.state),
        Recorder.begin(
            into, found.fabric, captures=scenario.captures, snaplen=_HEADERS, parameters=asked
        ) as recorder,
    ):
        stage = Stage(fabric=found.fabric, recorder=recorder, seed=seed, tell=tell)
        try:
            scenario.run(stage, parameters)
        finally:
            stage.restore()


@dataclass
class ScenarioFabric:
    """The fabric of a scenario, and whether it is kept if it was built for it."""

    fabric: Fabric
    keep: bool


@contextlib.contextmanager
def fabric_for(topology: Topology, tell: Callable[[str], None], *, keep: bool = False) -> Iterator[ScenarioFabric]:
    """Yield the fabric of a topology, which is built if it does not run. Raises UsageError like ``play``.

    After the block a fabric that was built is taken down, unless ``keep``, which the block can set.
    """
    state = FabricState(topology.name)
    if state.exists():
        yield ScenarioFabric(_warm(topology, tell), keep=True)
        return
    tell(f"building {topology.name}")
    say, owner = in_lines(tell), ""
    built: ScenarioFabric | None = None

    def report(stage: str, done: int, total: int) -> None:
        nonlocal owner
        owner = owner or state.owner  # of the fabric that is built here, whenever a signal arrives
        say(stage, done, total)

    try:
        fabric, _ = lifecycle.up(topology, registry.backend(registry.DEFAULT), progress=report)
        declared.inject(fabric)
        built = ScenarioFabric(fabric, keep)
        yield built
    finally:
        if owner and state.owner == owner and not (built is not None and built.keep):
            lifecycle.down(state, partial(_tell_holder, tell))


def _tell_holder(tell: Callable[[str], None], holder: str) -> None:
    tell(f"waiting for {holder}")


def _warm(topology: Topology, tell: Callable[[str], None]) -> Fabric:
    wait = partial(_tell_holder, tell)
    fabric = lifecycle.open_fabric(topology.name, wait)
    down = f"rocelab down --fabric {topology.name}"
    if fabric.topology != topology:
        raise UsageError(f"fabric {topology.name} that runs is another one", down)
    challenge_record.refuse_another(fabric.state)
    fault_engine.heal_abandoned(fabric, wait)
    port_restore.mend(fabric, wait)
    orphans.mend(fabric.state)
    challenge_record.mend(fabric.state)
    fabric = replace(fabric)
    if fault_engine.running(fabric):
        raise UsageError(f"fabric {topology.name} has faults", f"rocelab fault heal --all, or {down}")
    if fabric.qos != resolve(topology, time_source.reaction()):
        raise UsageError(f"fabric {topology.name} is configured otherwise than it was built", down)
    return fabric
