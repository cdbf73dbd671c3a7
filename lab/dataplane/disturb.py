"""Disturbances of the cables that emulated ports send into: begun, read, ended.

The port's own queue keeps what is in its cable, so that nothing has to be put on or taken off. What is asked of it
lies beside its configuration and its counters, where neither ``qos`` nor ``counters`` look.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.dataplane.port_layout import TYPES
from lab.errors import UsageError
from lab.model.disturbance import PRIORITIES

if TYPE_CHECKING:
    from lab.dataplane.port_maps import PortMaps
    from lab.model.disturbance import Disturbance

CABLE: Final = TYPES.record("rl_cable")
_NS: Final = 10**9
_UNIT: Final = 2**32


@dataclass(frozen=True, slots=True)
class DisturbanceCounts:
    """Packets since a disturbance began.

    ``packets``: of the priorities that are meant, and so numbered. ``reordered``: were to be overtaken; of these
    ``timed_out`` went because nothing came to overtake them.
    """

    packets: int
    reordered: int
    timed_out: int


def disturb(maps: PortMaps, port: int, disturbance: Disturbance) -> None:
    """Disturb what a port sends from now on; what is under way already is not. ``calm`` is the inverse.

    ``maps`` are writable. UsageError when the port's cable is disturbed already, OperationFailed when the fabric was
    taken down.
    """
    maps.require_live()
    if is_disturbed(maps, port):
        raise UsageError(f"the cable of port {port} is disturbed", "heal that fault first")
    maps.ports["cable"][port] = _record(disturbance)
    maps.ports["state"]["disturbed"][port] = 1


def calm(maps: PortMaps, port: int) -> None:
    """Let a port's cable be as it is configured; what is under way arrives as it was to. Not disturbed is fine.

    What ``read`` tells is gone with it.

    ``maps`` are writable. OperationFailed when the fabric was taken down.
    """
    maps.require_live()
    maps.ports["state"]["disturbed"][port] = 0
    maps.ports["cable"][port] = np.zeros((), CABLE)


def is_disturbed(maps: PortMaps, port: int) -> bool:
    """Whether a port's cable is."""
    return bool(maps.ports["state"]["disturbed"][port])


def read(maps: PortMaps, port: int) -> DisturbanceCounts:
    """What the disturbance of a port's cable has done so far; OperationFailed when the fabric was taken down."""
    maps.require_live()
    cable = maps.ports["cable"][port]
    return DisturbanceCounts(int(cable["packets"]), int(cable["reordered"]), int(cable["timed_out"]))


def _record(asked: Disturbance) -> np.void:
    made: np.void = np.zeros(1, CABLE)[0]
    for name, seconds in (("delay_ns", asked.delay), ("jitter_ns", asked.jitter), ("hold_ns", asked.hold)):
        made[name] = round(seconds * _NS)
    made["reorder"] = round(asked.reorder * _UNIT)
    made["distance"], made["seed"] = asked.distance, asked.seed
    made["priorities"] = sum(1 << each for each in asked.priorities or range(PRIORITIES))
    return made
