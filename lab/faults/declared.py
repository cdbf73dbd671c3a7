"""Faults declared in a topology: validated with the file, and injected once the fabric runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lab.backends import lifecycle
from lab.errors import InvalidInput, UsageError
from lab.model.values.validate import SpecFinding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.backends.backend import Fabric
    from lab.faults.timing import Timing
    from lab.kernel.process.locks import Waiting
    from lab.model.topology import DeclaredFault, Topology
    from lab.model.values.yamltext import Path

# Imports are deferred: all kinds take a while to import, and most topologies declare none.


def check(topology: Topology) -> Iterator[SpecFinding]:
    """Yield findings for invalid kinds, places, parameters and times of declared faults, in the file's terms.

    Conditions that need a running fabric, for example whether its ports are lossless, are checked at injection.
    """
    for number, fault in enumerate(topology.faults):
        yield from _problems(topology, fault, ("faults", number))


def _problems(topology: Topology, fault: DeclaredFault, at: Path) -> Iterator[SpecFinding]:
    from lab.faults.fault_request import find_kind, place_of, read_parameters  # noqa: PLC0415

    try:
        timing = timing_of(fault)
    except UsageError as error:
        yield SpecFinding(at, *_told(error))
        timing = None
    try:
        kind = find_kind(fault.kind)
    except UsageError as error:
        yield SpecFinding((*at, "kind"), *_told(error))
        return
    if kind.instant and timing is not None and timing.lasting is not None:
        yield SpecFinding((*at, "for"), f"{kind.name} is over once it has happened", "leave it out")
    try:
        place_of(topology, kind, fault.place)
    except UsageError as error:
        yield SpecFinding((*at, "place"), *_told(error))
    try:
        read_parameters(kind, fault.parameters)
    except InvalidInput as error:
        for problem in error.problems:
            yield SpecFinding((*at, "parameters", problem.path), problem.message, problem.remedy)


def _told(error: UsageError) -> tuple[str, str]:
    """Return an error's message and remedy, with command options replaced by the keys of the file."""
    return error.message.replace("--", ""), error.remedy.replace("--for", "for").replace("--every", "every")


def timing_of(fault: DeclaredFault) -> Timing:
    """Return the timing of a declared fault. Raises UsageError for an invalid combination."""
    from lab.faults.timing import Timing  # noqa: PLC0415

    return Timing(after=fault.after, lasting=fault.lasting, every=fault.every, times=fault.times, seed=fault.seed)


def inject(fabric: Fabric, waiting: Waiting | None = None) -> None:
    """Inject the declared faults of a fabric that ``up`` has built. Timed faults run in the background.

    On any failure the fabric is taken down, as in ``lifecycle.up``. Raises the errors of ``fault_engine.inject``.
    """
    if not fabric.topology.faults:
        return
    from lab.faults import fault_engine, helper_process  # noqa: PLC0415
    from lab.faults.fault_request import FaultRequest  # noqa: PLC0415

    try:
        for fault in fabric.topology.faults:
            if timing_of(fault).attended:
                helper_process.leave(fabric, [fault.kind, fault.place, *_words(fault)])
            else:
                wish = FaultRequest(fault.kind, fault.place, fault.parameters)
                fault_engine.inject(replace(fabric), wish, waiting=waiting)
    except BaseException:
        lifecycle.down(fabric.state, waiting)
        raise


def _words(fault: DeclaredFault) -> Iterator[str]:
    """Yield parameters and times as arguments of ``rocelab fault inject``."""
    for name, value in fault.parameters.items():
        yield f"{name}={str(value).lower() if isinstance(value, bool) else value}"
    times = {"--after": fault.after, "--for": fault.lasting, "--every": fault.every}
    for option, seconds in times.items():
        if seconds:
            yield f"{option}={seconds:.9f}s"
    for option, number in (("--times", fault.times), ("--seed", fault.seed)):
        if number is not None:
            yield f"{option}={number}"
