"""A recording in which something happens, for those who look at it: three phases of two seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lab.dataplane.port_layout import Drop
from lab.telemetry.sample.queue_pairs import SCHEMA
from lab.telemetry.store.recording_folder import append_line
from tests.unit.model.qos.fabrics import fabric
from tests.unit.telemetry.made import START, STEP, Made

if TYPE_CHECKING:
    from pathlib import Path

PORT = "leaf1:swp3"
OTHER = "leaf1:swp4"
SAMPLES = 40
"""In each phase, besides the one that it begins with."""


def played(path: Path) -> Made:
    """Quiet; then swp3 sends, fills, is paused, marks and drops, more at each sample; quiet again."""
    made = Made(path, fabric("pfc-ecn"), hosts=("h1", "h2"))
    made.event(
        START + 1, source="routing", kind="bgp", node="leaf1", interface="swp1", state="Established", before=""
    )
    made.log.rows(SCHEMA, START + 2, [queue_pair(qpn, "RTS", remote=remote) for qpn, remote in ((17, 18), (19, 20))])
    made.phase("baseline")
    for _ in range(SAMPLES):
        made.sample()
    made.phase("inject")
    made.event(
        made.ns, source="routing", kind="bgp", node="leaf1", interface="swp1", state="Idle", before="Established"
    )
    append_line(made.folder.commands, {
        "ns": made.ns, "end_ns": made.ns + STEP, "node": "h1", "argv": ["ping", "h2"], "exit_code": 1,
        "stdout": "no answer\n", "stderr": "",
    })  # fmt: skip
    for number in range(1, SAMPLES + 1):
        _move(made, number)
        made.sample(late=700 * number)
    made.log.rows(SCHEMA, made.ns, [queue_pair(17, "ERR", "RTS"), queue_pair(19, "gone", "RTS", remote=20)])
    made.phase("fix")
    made.counters(PORT)["queue"]["depth_bytes"][3] = 0
    for _ in range(SAMPLES):
        made.sample()
    return made


def queue_pair(qpn: int, state: str, before: str = "", remote: int = 18, node: str = "h1") -> dict[str, Any]:
    """A row of a queue pair of a host."""
    program = "" if state == "gone" else "ib_write_bw"
    return {
        "node": node, "interface": "eth1", "qpn": qpn, "state": state, "before": before, "type": "RC",
        "remote": remote, "pid": 9, "program": program,
    }  # fmt: skip


def _move(made: Made, number: int) -> None:
    port, other = made.counters(PORT), made.counters(OTHER)
    port["priority"]["tx_bytes"][3] += 1000 * number
    port["priority"]["tx_bytes"][0] += 77
    port["priority"]["rx_bytes"][3] += 500
    port["priority"]["rx_pause"][3] += 2
    port["priority"]["paused_ns"][3] += 10_000_000
    port["priority"]["paused_ns"][4] += 1_000_000
    port["queue"]["depth_bytes"][3] = 300 * number
    port["queue"]["ecn_marked"][3] += number
    port["queue"]["drop_packets"][3][Drop.HEADROOM] += 1
    port["queue"]["drop_packets"][2][Drop.LIMIT] += 3
    other["priority"]["tx_bytes"][3] += 4000
    other["priority"]["tx_pause"][3] += 1
    made.devices[0] += np.array((0, 1, 40, 2, 3, 0, 0), np.uint64)
