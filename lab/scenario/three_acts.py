"""A fault in three acts: the workload without it, with it, and after it is healed.

::

    with stage.writing("h1:h5"):
        three_acts(stage, p.hold, fault("link-loss", "leaf1:swp1", one_in=256), healed=1.5)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from lab.faults.fault import Parameters
from lab.faults.fault_request import FaultRequest
from lab.faults.values import time_of
from lab.scenario.phase_measures import ACTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.scenario.stage import Stage

    Wait: TypeAlias = "float | Callable[[], None]"


class PhaseParameters(Parameters):
    """The parameters of a scenario without others."""

    hold: Annotated[float, time_of(1, 60)] = 1.5
    """How long each phase lasts."""


class ProbeParameters(Parameters):
    """The parameters of a scenario whose phases consist of probes."""

    hold: Annotated[float, time_of(0, 60)] = 0.5
    """How long each phase lasts in addition to its probes."""


def fault(kind: str, place: str, **parameters: Any) -> FaultRequest:
    """Return a fault for ``three_acts``, with the parameters of ``Stage.inject``."""
    return FaultRequest(kind, place, parameters)


def three_acts(  # noqa: PLR0913 - each act has its own wait
    stage: Stage,
    hold: float,
    *faults: FaultRequest,
    broken: Wait = 0.0,
    healed: Wait = 0.0,
    look: Callable[[str], None] | None = None,
    show: Callable[[], None] | None = None,
    again: Callable[[], None] | None = None,
    fix: Callable[[], None] | None = None,
) -> None:
    """Play the phases ``baseline``, ``inject``, ``observe``, ``fix`` and ``verify``.

    The acts baseline, observe and verify last ``hold`` seconds each, and end with ``look``, which gets their name.
    ``broken`` and ``healed`` run once the faults are injected and healed: seconds to hold, or a function that waits.
    ``show`` records commands while the faults are active. A challenge waits after it, and repeats ``again``.
    ``fix`` replaces healing: another change resolves the problem, and the faults remain until the scenario ends.
    """

    def act(name: str) -> None:
        with stage.holding(name, hold):
            if look is not None:
                look(name)

    act(ACTS[0])
    with stage.phase("inject"):
        entries = [stage.inject(each.kind, each.place, **each.parameters) for each in faults]
        _wait(stage, broken)
    act(ACTS[1])
    if show is not None:
        show()
    stage.linger(again)
    with stage.phase("fix"):
        if fix is not None:
            fix()
        else:
            stage.heal(*entries)
        _wait(stage, healed)
    act(ACTS[2])


def _wait(stage: Stage, wait: Wait) -> None:
    if callable(wait):
        wait()
    elif wait:
        stage.hold(wait)
