"""How many packets a port can hold, whatever their size: as many as its fabric asks for and the memory gives.

A buffer is meant in bytes, and each packet in it takes a slot besides (``bpf/queue.h``). All ports of a fabric have
equally many.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.dataplane.port_layout import CONTROL_SLOTS, SLOT
from lab.model.qos.advice import QosAdvice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.dataplane.numbering import Numbering
    from lab.model.qos.port import NodeQos

SLOT_BYTES: Final = SLOT.itemsize
"""Memory that a slot takes."""
FEWEST: Final = 2048
MOST: Final = 65536
"""Slots of a port, at least and at most."""
_QUEUE_PAIRS: Final = 256
_IN_FLIGHT: Final = 65
"""Packets that rxe lets a queue pair have in a NIC's queue, one more than RXE_INFLIGHT_SKBS_PER_QP_HIGH
(drivers/infiniband/sw/rxe/rxe_param.h)."""
_SMALLEST: Final = 60
"""Bytes of the smallest frame without its FCS."""
_MEMORY: Final = 128 * 2**20
_SHARE: Final = 16
"""Of the memory that is free, the part that slots may take where that is more than ``_MEMORY``."""


def usable(slots: int) -> int:
    """Packets that one lossless queue can hold of a port's ``slots``, when the others wait with few (rl_has_slot)."""
    return slots - slots // 4 - CONTROL_SLOTS


def needed(node: NodeQos, *, host: bool) -> int:
    """Packets that may wait at one port of a node: all of the buffer in smallest frames, or what 256 QPs send."""
    if host:
        return _QUEUE_PAIRS * _IN_FLIGHT
    return node.pool // _SMALLEST


def per_port(numbering: Numbering, qos: Mapping[str, NodeQos], memory: int) -> int:
    """Slots for each port of a fabric when ``memory`` bytes are free."""
    wanted = max((needed(qos[name], host=node.host) for name, node in numbering.nodes.items()), default=0)
    slots = FEWEST
    while usable(slots) < wanted and slots < MOST:
        slots *= 2
    return max(FEWEST, min(slots, max(_MEMORY, memory // _SHARE) // SLOT_BYTES // numbering.size))


def available_memory() -> int:
    """Bytes that programs can still have (MemAvailable of proc_meminfo(5))."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))


def advise(slots: int, numbering: Numbering, qos: Mapping[str, NodeQos]) -> Iterator[QosAdvice]:
    """For each node of ``qos`` that may have more packets than its ports have slots, what comes of it."""
    for name, node in qos.items():
        host = numbering.nodes[name].host
        if needed(node, host=host) <= usable(slots):
            continue
        ports = tuple(f"{name}:{interface}" for interface in node.ports)
        if host:
            message = (
                f"a port holds {usable(slots)} packets, {_QUEUE_PAIRS} paused QPs send {needed(node, host=host)}"
            )
            yield QosAdvice(ports, "nic", message, "use fewer QPs, or build a smaller fabric")
        else:
            message = (
                f"a port holds {usable(slots)} packets: of less than {-(-node.pool // usable(slots))} bytes each"
                " they do not fill the buffer, and are dropped before"
            )
            yield QosAdvice(ports, "buffer.pool", message, "make it smaller, or build a smaller fabric")
