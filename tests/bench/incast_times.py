"""In the VM: three hosts of topologies/incast.yaml write to a fourth; how fast, how soon paused, what was lost."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.backends.lifecycle import open_fabric
from lab.dataplane import port_maps
from lab.dataplane.port_layout import EventKind
from tests.fabric.command import TOPOLOGIES, rocelab, rocelab_json

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME: Final = "incast"
SENDERS: Final = ("h1", "h2", "h3")
SINK: Final = "h4"
SECONDS: Final = 5


def reactions() -> Iterator[int]:
    """Nanoseconds from each XOFF of leaf1 to the pause of the host that it was sent to."""
    fabric = open_fabric(NAME)
    maps = port_maps.open_maps(NAME)
    count, room = int(maps.event_count[0]), len(maps.events)
    log = [maps.events[number % room] for number in range(max(0, count - room), count)]
    for number, host in enumerate(SENDERS, start=1):
        port, nic = (
            fabric.numbering.nodes["leaf1"].port(f"swp{number + 2}"),
            fabric.numbering.nodes[host].port("eth1"),
        )
        sent = sorted(int(e["ns"]) for e in log if e["port"] == port and e["kind"] == EventKind.XOFF_SENT)
        heard = sorted(int(e["ns"]) for e in log if e["port"] == nic and e["kind"] == EventKind.PAUSED)
        for pause in heard:
            if earlier := [when for when in sent if when <= pause]:
                yield pause - earlier[-1]


def main() -> None:
    """Build it, run it, read it, take it down; print the figures as JSON."""
    began = time.monotonic()
    rocelab("up", TOPOLOGIES / "incast.yaml")
    up = time.monotonic() - began
    try:
        pairs = [word for host in SENDERS[1:] for word in ("--pair", f"{host}:{SINK}")]
        report = rocelab_json("rdma", "bw", SENDERS[0], SINK, *pairs, "--duration", f"{SECONDS}s")
        took = np.array(list(reactions()))
        counters = port_maps.open_maps(NAME).counters
        figures = {
            "up_s": up,
            "goodput_bps": sum(pair["goodput_bps"] for pair in report["pairs"]),
            "pauses": len(took),
            "reaction_ns": [float(np.percentile(took, share)) for share in (50, 99, 100)],
            "late_ns": int(counters["late_ns"].max()),
            "dropped_bytes": int(counters["queue"]["drop_bytes"].sum()),
        }
    finally:
        rocelab("down", "--fabric", NAME)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
