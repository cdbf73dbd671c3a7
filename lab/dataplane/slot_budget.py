"""The number of packets that a port can hold, whatever their size: its slots.

Buffers are configured in bytes, but each packet in them also needs a slot (``bpf/queue.h``). All ports of a fabric
have the same number of slots, which depends on its QoS and on the available memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.dataplane.port_layout import CONTROL_SLOTS, LIMITERS, SLOT
from lab.model.qos.advice import QosAdvice

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.dataplane.numbering import Numbering
    from lab.model.qos.port import NodeQos

SLOT_BYTES: Final = SLOT.itemsize
"""Memory of one slot in bytes."""
FEWEST: Final = 2048
MOST: Final = 65536
"""The smallest and largest number of slots of a port."""
MOST_LIMITED: Final = 131072
"""The largest number of slots of a port in a fabric with congestion control: 1,024 limited QPs need 66,560."""
_QUEUE_PAIRS: Final = 256
_IN_FLIGHT: Final = 65
"""The most packets of one QP that rxe puts into a NIC's queue, one more than RXE_INFLIGHT_SKBS_PER_QP_HIGH
(drivers/infiniband/sw/rxe/rxe_param.h)."""
_SMALLEST: Final = 60
"""Bytes of the smallest Ethernet frame, without FCS."""
_MEMORY: Final = 128 * 2**20
_SHARE: Final = 16
"""Slots may use 1/16 of the available memory, or ``_MEMORY`` bytes if that is more."""


def usable(slots: int) -> int:
    """Return the packets that one lossless queue can hold if the port's other queues hold few (rl_has_slot)."""
    return slots - slots // 4 - CONTROL_SLOTS


def needed(node: NodeQos, *, host: bool) -> int:
    """Return the most packets that may wait at a port: a switch's pool in smallest frames, or those of 256 QPs."""
    if host:
        return _QUEUE_PAIRS * _IN_FLIGHT
    return node.pool // _SMALLEST


def per_port(numbering: Numbering, qos: Mapping[str, NodeQos], memory: int) -> int:
    """Return the number of slots for each port of a fabric if ``memory`` bytes are available."""
    wanted = max((needed(qos[name], host=node.host) for name, node in numbering.nodes.items()), default=0)
    slots = _fitting(wanted, MOST, max(_MEMORY, memory // _SHARE) // numbering.size)
    if any(port.cc is not None for node in qos.values() for port in node.ports.values()):
        slots = max(slots, _fitting(LIMITERS * _IN_FLIGHT, MOST_LIMITED, _MEMORY // numbering.size))
    return slots


def _fitting(packets: int, most: int, memory: int) -> int:
    """Return the slots for ``packets`` in a lossless queue, as far as ``most`` slots and ``memory`` bytes allow."""
    slots = FEWEST
    while usable(slots) < packets and slots < most:
        slots *= 2
    return max(FEWEST, min(slots, memory // SLOT_BYTES))


def available_memory() -> int:
    """Return the available memory in bytes (MemAvailable of proc_meminfo(5))."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))


def advise(slots: int, numbering: Numbering, qos: Mapping[str, NodeQos]) -> Iterator[QosAdvice]:
    """Yield advice for each node of ``qos`` whose ports may have to hold more packets than they have slots."""
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
                " they are dropped before the buffer is full"
            )
            yield QosAdvice(ports, "buffer.pool", message, "make it smaller, or build a smaller fabric")
