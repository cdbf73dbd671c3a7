"""Recordings to be diagnosed, of a fabric that nobody built: a healthy incast, and one of hosts that are deaf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lab.dataplane.port_layout import Drop
from lab.model.qos.headroom import VIRTUAL_REACTION
from lab.model.qos.qos_store import dump_node
from lab.model.qos.resolve import resolve
from lab.telemetry.store import recording_folder as files
from tests.unit.diagnose.made_facts import HOSTS, QOS, TOPOLOGY
from tests.unit.telemetry.made import RDMA, Made

if TYPE_CHECKING:
    from pathlib import Path

    from lab.model.topology import Topology

STEPS = 20
"""Samples of a phase: a second."""
SENDERS = ("h1", "h2", "h3")


def incast(made: Made) -> None:
    """Three hosts write to h4 for a twentieth of a second, and are paused."""
    queue = made.counters("leaf1:swp6")
    queue["priority"]["tx_bytes"][3] += 640_000
    queue["priority"]["tx_packets"][3] += 147
    queue["queue"]["depth_bytes"][3] = 250_000
    queue["queue"]["ecn_marked"][3] += 80
    made.counters("h4:eth1")["priority"]["rx_packets"][3] += 147
    for number, host in enumerate(SENDERS):
        port, nic = made.counters(f"leaf1:swp{number + 3}"), made.counters(f"{host}:eth1")
        for record, direction in ((nic, "tx"), (port, "rx")):
            record["priority"][f"{direction}_bytes"][3] += 204_000
            record["priority"][f"{direction}_packets"][3] += 49
        port["priority"]["tx_pause"][3] += 2
        port["priority"]["tx_resume"][3] += 2
        nic["priority"]["rx_pause"][3] += 2
        nic["priority"]["rx_resume"][3] += 2
        nic["priority"]["paused_ns"][3] += 30_000_000


def deaf(made: Made) -> None:
    """The same with hosts that do not obey: leaf1 has no room, and drops."""
    incast(made)
    for number, host in enumerate(SENDERS):
        nic = made.counters(f"{host}:eth1")["priority"]
        nic["rx_pause"][3] -= 2
        nic["rx_resume"][3] -= 2
        nic["paused_ns"][3] -= 30_000_000
        nic["rx_pause_ignored"][3] += 2
        made.counters(f"leaf1:swp{number + 3}")["group"]["drop_packets"][3] += 5
    made.counters("leaf1:swp6")["queue"]["drop_packets"][3][Drop.HEADROOM] += 15
    made.devices[HOSTS.index("h4"), RDMA.index("out_of_seq_request")] += 5


def begun(path: Path, hosts: list[str] | None = None, topology: Topology = TOPOLOGY) -> Made:
    """A recording of a fabric, incast if no other is given, with the state that it began with."""
    made = Made(path, topology, hosts=HOSTS if hosts is None else hosts)
    qos = QOS if topology is TOPOLOGY else resolve(topology, VIRTUAL_REACTION)
    state = {name: {"qos": dump_node(node), "routes": []} for name, node in qos.items()}
    files.write_json(made.folder.state("before"), state)
    return made


def during(made: Made, name: str, happens: Any) -> None:
    """A phase of a second."""
    made.phase(name)
    for _ in range(STEPS):
        happens(made)
        made.sample()
    made.phase("")


def one_sided(path: Path) -> Made:
    """A healthy incast, then one of hosts that are deaf; not yet ended."""
    made = begun(path)
    during(made, "baseline", incast)
    during(made, "observe", deaf)
    return made
