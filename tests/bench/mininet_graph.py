"""Build and remove a graph with Mininet and print the seconds each took. Runs under the system's Python.

Every node is a plain ``Node``: no switch, no controller, no routing.
Standard input: {"nodes": [...], "links": [[a, b]]}.
"""

import json
import sys
import time

import mininet.net  # type: ignore[import-not-found]
from mininet.node import Node  # type: ignore[import-not-found]


def main() -> None:
    """Build, stop, report."""
    graph = json.load(sys.stdin)
    # It would raise limits of the host for good.
    mininet.net.fixLimits = lambda: None
    began = time.monotonic()
    net = mininet.net.Mininet(controller=None)
    for name in graph["nodes"]:
        net.addHost(name, cls=Node)
    for a, b in graph["links"]:
        net.addLink(a, b)
    net.start()
    built = time.monotonic()
    net.stop()
    json.dump({"up": built - began, "down": time.monotonic() - built}, sys.stdout)


main()
