"""The least time for the same graph: its namespaces and veths by ``ip -batch``, and by Mininet."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lab.errors import CommandFailed
from lab.kernel.process import libc, process, tuning
from lab.kernel.process.netns import NETNS_DIR
from lab.kernel.process.threads import in_thread

if TYPE_CHECKING:
    from lab.model.topology import Topology

_MININET = Path(__file__).with_name("mininet_graph.py")
_SYSTEM_PYTHON = "/usr/bin/python3"


class Seconds(NamedTuple):
    """How long building and removing took."""

    up: float
    down: float


def ip_batch(topology: Topology) -> Seconds:
    """Namespaces and veths by one ``ip -batch`` each way, where no mount of it reaches the host."""
    add = [f"netns add {node.name}\n" for node in topology.nodes]
    add += [
        f"link add {link.a.interface} netns {link.a.node} type veth "
        f"peer name {link.b.interface} netns {link.b.node}\n"
        for link in topology.links
    ]
    delete = [f"netns del {node.name}\n" for node in topology.nodes]

    def build() -> Seconds:
        tuning.own_mounts()
        libc.mount("tmpfs", NETNS_DIR, "tmpfs")
        return Seconds(_timed("".join(add)), _timed("".join(delete)))

    made = not NETNS_DIR.exists()
    NETNS_DIR.mkdir(exist_ok=True)
    try:
        return in_thread(build)
    finally:
        if made:
            NETNS_DIR.rmdir()


def _timed(batch: str) -> float:
    began = time.monotonic()
    process.run(["ip", "-batch", "-"], stdin=batch)
    return time.monotonic() - began


def mininet(topology: Topology) -> Seconds | None:
    """The same graph by Mininet, without routing; None when it is not installed."""
    graph = {
        "nodes": [node.name for node in topology.nodes],
        "links": [[link.a.node, link.b.node] for link in topology.links],
    }
    try:
        process.run([_SYSTEM_PYTHON, "-c", "import mininet"])
    except CommandFailed:
        return None
    done = process.run([_SYSTEM_PYTHON, _MININET], stdin=json.dumps(graph), timeout=300)
    return Seconds(**json.loads(done.stdout))
