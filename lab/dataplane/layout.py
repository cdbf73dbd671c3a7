"""What the port's programs and we agree upon, as NumPy records: the mirror of ``bpf/port.h``, field by field.

A map's records are read and written in place, in the kernel's own memory. ``tests/vm`` compares every offset here
with the types that the compiler put into the object.
"""

from __future__ import annotations

import hashlib
from enum import IntEnum
from typing import Any, Final

import numpy as np

FIRST_INDEX: Final = 1000
"""A port's interface has this index plus the port's id, clear of the devices that modules put into new namespaces."""
CLASSES: Final = 8
NODE_PORTS: Final = 4096
"""Ids that one node may have."""
EVENTS: Final = 65536
"""Events that are remembered; older ones are written over."""


class Drop(IntEnum):
    """Why a packet was dropped (enum rl_drop)."""

    LIMIT = 0
    SHARED = 1
    HEADROOM = 2
    SLOTS = 3
    WATCHDOG = 4
    FLUSH = 5


class EventKind(IntEnum):
    """What is in the event log (enum rl_event_kind)."""

    XOFF_SENT = 0
    XON_SENT = 1
    PAUSED = 2
    RESUMED = 3
    STORM = 4
    RESTORED = 5
    EXPIRED = 6
    GROUP_DROPS = 7
    QUEUE_DROPS = 8


def _record(*fields: tuple[Any, ...]) -> np.dtype[np.void]:
    return np.dtype(list(fields), align=True)


def _words(names: str, width: str = "u8") -> list[tuple[str, str]]:
    return [(name, width) for name in names.split()]


QUEUE_CONFIG: Final = _record(*_words("pmax"), *_words("kmin kmax limit weight", "u4"))
GROUP_CONFIG: Final = _record(*_words("reserved xoff xon headroom alpha lossless", "u4"))
CONFIG: Final = _record(
    *_words("rate delay_ns watchdog_detect_ns watchdog_restore_ns"),
    ("watchdog_forward", "u4"),
    ("node", "u4"),
    ("pause_quanta", "u2"),
    ("trust_pcp", "u1"),
    ("pfc_tx", "u1"),
    ("pfc_rx", "u1"),
    ("lossless", "u1"),
    ("mac", "u1", 6),
    ("unused", "u1", 4),
    ("dscp_to_priority", "u1", 64),
    ("pcp_to_priority", "u1", CLASSES),
    ("priority_to_queue", "u1", CLASSES),
    ("priority_to_group", "u1", CLASSES),
    ("queue", QUEUE_CONFIG, CLASSES),
    ("group", GROUP_CONFIG, CLASSES),
)
PRIORITY_COUNTERS: Final = _record(
    *_words(
        "rx_packets rx_bytes tx_packets tx_bytes rx_pause rx_resume rx_pause_ignored tx_pause tx_resume"
        " paused_ns paused_from paused_until"
    )
)
QUEUE_COUNTERS: Final = _record(
    *_words(
        "depth_bytes depth_packets watermark_bytes offered_packets offered_bytes sent_packets sent_bytes"
        " ecn_marked not_ect"
    ),
    ("drop_packets", "u8", len(Drop)),
    ("drop_bytes", "u8", len(Drop)),
    *_words("storms restored"),
)
GROUP_COUNTERS: Final = _record(
    *_words("bytes watermark_bytes headroom_bytes headroom_watermark_bytes xoff xon drop_packets drop_bytes")
)
COUNTERS: Final = _record(
    ("priority", PRIORITY_COUNTERS, CLASSES),
    ("queue", QUEUE_COUNTERS, CLASSES),
    ("group", GROUP_COUNTERS, CLASSES),
    *_words("rx_pfc rx_pfc_invalid rx_global_pause tx_pfc tx_pfc_bytes tx_pfc_failed other_packets late_ns rx_cnp"),
)
LIST: Final = _record(*_words("head tail", "u4"))
STATE: Final = _record(
    *_words("next_tx debt"),
    ("pause_until", "u8", CLASSES),
    ("pause_end", "u8"),
    ("blocked_since", "u8", CLASSES),
    ("dropped_at", "u8", CLASSES),
    ("deficit", "i8", CLASSES),
    *_words("waiting blocked stormed idle free fresh turn held in_xoff spares on_wire", "u4"),
    ("list", LIST, CLASSES + 4),
)
"""The qdisc's own memory: nothing to read here, but it lies behind the counters."""
PORT: Final = _record(("config", CONFIG), ("counters", COUNTERS), ("state", STATE))
NODE: Final = _record(
    *_words("pool_bytes pool_used pool_watermark drain_rate tick_at ticks revived busy"),
    ("busy_ports", "u8", NODE_PORTS // 64),
    *_words("paused ticking generation first_port", "u4"),
)
EVENT: Final = _record(("ns", "u8"), ("value", "u8"), ("port", "u4"), ("kind", "u2"), ("index", "u2"))
EVENT_COUNT: Final = np.dtype("u8")


def digest(*records: np.dtype[Any]) -> str:
    """Changes with the name, the place and the type of any field of ``records``."""
    return hashlib.sha256("\n".join(map(repr, records)).encode()).hexdigest()[:16]
