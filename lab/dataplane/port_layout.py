"""NumPy records that the port's programs and user space share, from the generated layout of ``bpf/port.h``.

Records are read and written in place, in the mapped memory of the BPF maps.
"""

from __future__ import annotations

import hashlib
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import numpy as np

from lab.kernel.bpf import type_layouts

SOURCE: Final = Path(__file__).parent / "bpf" / "port.bpf.c"
TYPES: Final = type_layouts.TypeLayouts.read(type_layouts.beside(SOURCE))
_SIZES: Final = TYPES.enumeration("rl_size")
_DROPS: Final = TYPES.enumeration("rl_drop")
_EVENTS: Final = TYPES.enumeration("rl_event_kind")
_ALGORITHMS: Final = TYPES.enumeration("rl_cc_algorithm")
_MODERATIONS: Final = TYPES.enumeration("rl_cnp_moderation")

CLASSES: Final = _SIZES["RL_CLASSES"]
NODE_PORTS: Final = _SIZES["RL_NODE_PORTS"]
"""The largest number of port ids of one node."""
EVENTS: Final = _SIZES["RL_EVENTS"]
"""Events in the ring; older ones are overwritten."""
LIMITERS: Final = _SIZES["RL_LIMITERS"]
"""QPs that one NIC can slow down at once."""
ACK_FLOWS: Final = _SIZES["RL_ACK_FLOWS"]
"""Queue pairs whose acknowledgements a port follows, in each direction."""
ALPHA_ONE: Final = _SIZES["RL_ALPHA_ONE"]
"""The value of alpha 1 in a limiter."""
FRACTION_ONE: Final = _SIZES["RL_FRACTION_ONE"]
"""The value of 1 in a register that is a fraction."""
CONTROL_SLOTS: Final = _SIZES["RL_CONTROL_SLOTS"]
"""Slots of a port that are reserved for PFC frames and clock tokens."""


class Drop(IntEnum):
    """The reason of a drop (enum rl_drop)."""

    LIMIT = _DROPS["RL_DROP_LIMIT"]
    SHARED = _DROPS["RL_DROP_SHARED"]
    HEADROOM = _DROPS["RL_DROP_HEADROOM"]
    SLOTS = _DROPS["RL_DROP_SLOTS"]
    WATCHDOG = _DROPS["RL_DROP_WATCHDOG"]
    FLUSH = _DROPS["RL_DROP_FLUSH"]


class RateAlgorithm(IntEnum):
    """The algorithm of a limiter (enum rl_cc_algorithm)."""

    DCQCN = _ALGORITHMS["RL_CC_DCQCN"]
    TIMELY = _ALGORITHMS["RL_CC_TIMELY"]


class CnpScope(IntEnum):
    """The scope of the minimum time between two CNPs (enum rl_cnp_moderation)."""

    QP = _MODERATIONS["RL_CNP_PER_QP"]
    DESTINATION = _MODERATIONS["RL_CNP_PER_DESTINATION"]
    PORT = _MODERATIONS["RL_CNP_PER_PORT"]


class EventKind(IntEnum):
    """The kind of an event in the event log (enum rl_event_kind)."""

    XOFF_SENT = _EVENTS["RL_EVENT_XOFF_SENT"]
    XON_SENT = _EVENTS["RL_EVENT_XON_SENT"]
    PAUSED = _EVENTS["RL_EVENT_PAUSED"]
    RESUMED = _EVENTS["RL_EVENT_RESUMED"]
    STORM = _EVENTS["RL_EVENT_STORM"]
    RESTORED = _EVENTS["RL_EVENT_RESTORED"]
    EXPIRED = _EVENTS["RL_EVENT_EXPIRED"]
    GROUP_DROPS = _EVENTS["RL_EVENT_GROUP_DROPS"]
    QUEUE_DROPS = _EVENTS["RL_EVENT_QUEUE_DROPS"]


GROUP_CONFIG: Final = TYPES.record("rl_group_config")
CONFIG: Final = TYPES.record("rl_config")
COUNTERS: Final = TYPES.record("rl_counters")
SLOT: Final = TYPES.record("rl_slot")
PORT: Final = TYPES.record("rl_memory")
"""All memory of a port: configuration, counters, the state of the qdisc, and the disturbance of its cable."""
NODE: Final = TYPES.record("rl_node")
EVENT: Final = TYPES.record("rl_event")
EVENT_COUNT: Final = np.dtype("u8")
LIMITER: Final = TYPES.record("rl_limiter")
"""The rate limiter of a QP at one NIC."""


def digest(*records: np.dtype[Any]) -> str:
    """Return a hash of the names, offsets and types of all fields of ``records``."""
    return hashlib.sha256("\n".join(map(repr, records)).encode()).hexdigest()[:16]
