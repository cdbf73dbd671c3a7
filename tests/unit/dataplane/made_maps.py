"""A fabric's ports without a kernel: its maps as arrays of our own, configured as those of a running one."""

import numpy as np

from lab.dataplane import port_layout, port_maps, slot_budget
from lab.dataplane.numbering import Numbering, number_ports
from lab.dataplane.port_maps import PortMaps
from lab.model.addressing import plan_addresses
from lab.model.qos.resolve import resolve
from lab.model.topology import Topology


def empty(numbering: Numbering) -> PortMaps:
    """Nothing configured, nothing counted."""
    return PortMaps(
        ports=np.zeros(numbering.size, port_layout.PORT),
        nodes=np.zeros(len(numbering.nodes), port_layout.NODE),
        events=np.zeros(port_layout.EVENTS, port_layout.EVENT),
        event_count=np.zeros(1, port_layout.EVENT_COUNT),
        limiters=np.zeros(max(numbering.nics, 1) * port_layout.LIMITERS, port_layout.LIMITER),
        slots=slot_budget.MOST,
    )


_EVENT = ("ns", "value", "port", "kind", "index")


def log_event(maps: PortMaps, *values: int) -> None:
    """Log one event: ns, value, port, kind, index; its sequence number is that of the programs."""
    number = int(maps.event_count[0])
    maps.event_count[0] += 1
    record = maps.events[number % port_layout.EVENTS]
    for name, value in zip(_EVENT, values, strict=True):
        record[name] = value
    record["sequence"] = number + 1


def configured(topology: Topology) -> PortMaps:
    """As after ``rocelab up``; of a fabric of plain links nobody configures any."""
    numbering = number_ports(topology)
    made = empty(numbering)
    if qos := resolve(topology):
        port_maps.write(made, numbering, qos, plan_addresses(topology))
    return made
