"""The state and counters of a namespace's interfaces, in one read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.kernel.netns import Namespace


@dataclass(frozen=True, slots=True)
class InterfaceState:
    """One interface: whether it carries, its MTU, and counters since it was made (RFC 2863's ifTable).

    ``drops`` are packets: those that the interface dropped, either way, and those that its queue had no room for.
    """

    name: str
    up: bool
    mtu: int
    rx_bytes: int
    rx_packets: int
    tx_bytes: int
    tx_packets: int
    drops: int


def interfaces(namespace: Namespace) -> dict[str, InterfaceState]:
    """All interfaces but the loopback, by name."""
    said = namespace.run(["ip", "-json", "-statistics", "link", "show"]).stdout
    queues = _queue_drops(namespace)
    found = {}
    for link in json.loads(said):
        if link["ifname"] != "lo":
            received, sent = link["stats64"]["rx"], link["stats64"]["tx"]
            found[link["ifname"]] = InterfaceState(
                name=link["ifname"],
                up=link["operstate"] == "UP",
                mtu=link["mtu"],
                rx_bytes=received["bytes"],
                rx_packets=received["packets"],
                tx_bytes=sent["bytes"],
                tx_packets=sent["packets"],
                drops=received["dropped"] + sent["dropped"] + queues.get(link["ifname"], 0),
            )
    return found


def root_qdiscs(namespace: Namespace) -> dict[str, tuple[str, str]]:
    """Kind and handle (``rl_t``, ``3:``) of each interface's root qdisc."""
    said = namespace.run(["tc", "-json", "qdisc", "show"]).stdout
    return {queue["dev"]: (queue["kind"], queue["handle"]) for queue in json.loads(said) if queue.get("root")}


def _queue_drops(namespace: Namespace) -> dict[str, int]:
    """Packets dropped by each interface's root qdisc, which the interface's own counters leave out."""
    said = namespace.run(["tc", "-json", "-statistics", "qdisc", "show"]).stdout
    return {queue["dev"]: queue["drops"] for queue in json.loads(said) if queue.get("root")}
