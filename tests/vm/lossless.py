"""Writes that lose nothing, what headers leave of a link of 100 Mb/s for their data, and what ports have counted."""

from __future__ import annotations

from typing import Any, Final

from lab.rdma.device_counters import meaning
from lab.units import WIRE_OVERHEAD
from tests.fabric.command import rocelab_json

RATE: Final = 100e6
MESSAGE: Final = 65536
PACKETS: Final = MESSAGE // 4096
HEADERS: Final = 14 + 20 + 8 + 12 + 4
"""Of each packet: Ethernet, IPv4, UDP, BTH, ICRC (IBA vol. 1, A17.3)."""
RETH: Final = 16
"""Of the first of a message."""
TUNNEL: Final = 50
"""IPv4, UDP, VXLAN and the inner Ethernet header (RFC 7348)."""


def goodput(tunnel: int) -> float:
    """Bit/s of data on a full link, where each packet has so many bytes more."""
    return RATE * MESSAGE / (MESSAGE + RETH + PACKETS * (HEADERS + tunnel + WIRE_OVERHEAD))


def ports(fabric: str) -> dict[str, dict[str, int]]:
    """All counters of all ports, by their names."""
    nodes = rocelab_json("counters", "--all", "--fabric", fabric)["nodes"]
    return {f"{node}:{name}": port for node, each in nodes.items() for name, port in each["interfaces"].items()}


def grown(before: dict[str, dict[str, int]], after: dict[str, dict[str, int]], port: str, counter: str) -> int:
    return after[port].get(counter, 0) - before[port].get(counter, 0)


def written(fabric: str, *words: str) -> dict[str, Any]:
    """What ``rdma bw`` reports of writes that lose nothing, in the NICs' own words and the ports'."""
    report: dict[str, Any] = rocelab_json("rdma", "bw", *words, "--duration", "2", "--fabric", fabric)
    trouble = {
        (host, counter): count
        for host, counters in report["counters"].items()
        for counter, count in counters.items()
        if meaning(counter).trouble
    }
    assert trouble == {}
    assert report["balance"]["dropped"] == 0
    return report
