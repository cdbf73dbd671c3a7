"""What the port's programs and user space share, as NumPy records: ``bpf/port.h``, as its generated layouts say.

A map's records are read and written in place, in the kernel's own memory.
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

CLASSES: Final = _SIZES["RL_CLASSES"]
NODE_PORTS: Final = _SIZES["RL_NODE_PORTS"]
"""Ids that one node may have."""
EVENTS: Final = _SIZES["RL_EVENTS"]
"""Events that are remembered; older ones are written over."""
CONTROL_SLOTS: Final = _SIZES["RL_CONTROL_SLOTS"]
"""Slots of a port that no data take: for PFC frames, and a clock's tokens."""


class Drop(IntEnum):
    """Why a packet was dropped (enum rl_drop)."""

    LIMIT = _DROPS["RL_DROP_LIMIT"]
    SHARED = _DROPS["RL_DROP_SHARED"]
    HEADROOM = _DROPS["RL_DROP_HEADROOM"]
    SLOTS = _DROPS["RL_DROP_SLOTS"]
    WATCHDOG = _DROPS["RL_DROP_WATCHDOG"]
    FLUSH = _DROPS["RL_DROP_FLUSH"]


class EventKind(IntEnum):
    """What is in the event log (enum rl_event_kind)."""

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
"""Configuration, counters, and the state of the qdisc: nothing to read there, but it lies behind the counters."""
NODE: Final = TYPES.record("rl_node")
EVENT: Final = TYPES.record("rl_event")
EVENT_COUNT: Final = np.dtype("u8")


def digest(*records: np.dtype[Any]) -> str:
    """Changes with the name, the place and the type of any field of ``records``."""
    return hashlib.sha256("\n".join(map(repr, records)).encode()).hexdigest()[:16]
