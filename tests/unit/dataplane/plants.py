"""A fabric's ports without a kernel: its maps as arrays of our own, configured as those of a running one."""

import numpy as np

from lab.dataplane import layout, plant, slots
from lab.dataplane.numbering import Numbering, number_ports
from lab.dataplane.plant import Plant
from lab.model.addressing import plan_addresses
from lab.model.qos.resolve import resolve
from lab.model.topology import Topology


def empty(numbering: Numbering) -> Plant:
    """Nothing configured, nothing counted."""
    return Plant(
        ports=np.zeros(numbering.size, layout.PORT),
        nodes=np.zeros(len(numbering.nodes), layout.NODE),
        events=np.zeros(layout.EVENTS, layout.EVENT),
        event_count=np.zeros(1, layout.EVENT_COUNT),
        slots=slots.MOST,
    )


def planted(topology: Topology) -> Plant:
    """As after ``rocelab up``."""
    numbering = number_ports(topology)
    made = empty(numbering)
    plant.write(made, numbering, resolve(topology), plan_addresses(topology))
    return made
