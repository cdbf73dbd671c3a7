"""Disturbances of emulated cables: extra delay, jitter and reordering in the direction in which a port sends.

The port's qdisc holds the packets that are in its cable, so a disturbance attaches nothing. Its record is in the
port's memory beside configuration and counters, and does not appear in ``qos`` or ``counters``.
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
    """Packet counts since a disturbance began.

    - ``packets``: packets of the selected priorities; a packet's number and the seed determine its fate.
    - ``reordered``: packets that were held back to be overtaken.
    - ``timed_out``: those of ``reordered`` that went on before enough packets had overtaken them.
    """

    packets: int
    reordered: int
    timed_out: int


def disturb(maps: PortMaps, port: int, disturbance: Disturbance) -> None:
    """Disturb the packets that a port sends from now on; those already in the cable are not. ``calm`` is the inverse.

    ``maps`` must be writable. UsageError if the port's cable is already disturbed, OperationFailed if the fabric was
    taken down.
    """
    maps.require_live()
    if is_disturbed(maps, port):
        raise UsageError(f"the cable of port {port} is disturbed", "heal that fault first")
    maps.ports["cable"][port] = _record(disturbance)
    maps.ports["state"]["disturbed"][port] = 1


def calm(maps: PortMaps, port: int) -> None:
    """End the disturbance of a port's cable, if there is one, and reset the counts of ``read``.

    Packets already in the cable still arrive as drawn. ``maps`` must be writable. OperationFailed if the fabric was
    taken down.
    """
    maps.require_live()
    maps.ports["state"]["disturbed"][port] = 0
    maps.ports["cable"][port] = np.zeros((), CABLE)


def is_disturbed(maps: PortMaps, port: int) -> bool:
    """Return whether a port's cable is disturbed."""
    return bool(maps.ports["state"]["disturbed"][port])


def read(maps: PortMaps, port: int) -> DisturbanceCounts:
    """Return the counts of a port's disturbance so far; OperationFailed if the fabric was taken down."""
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
