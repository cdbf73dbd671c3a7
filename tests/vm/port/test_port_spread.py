"""Across spines: an incast on the far leaf stops the senders hop by hop, and nothing is lost on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.backends.lifecycle import open_fabric
from lab.dataplane import port_maps
from lab.dataplane.port_layout import EventKind
from lab.rdma import device_counters
from tests.fabric.command import rocelab, rocelab_json
from tests.vm.one_switch import balanced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.backends.backend import Fabric

pytestmark = [pytest.mark.vm, pytest.mark.long, pytest.mark.timeout(600)]

SENDERS: Final = 8
NAME: Final = "spread"
TOPOLOGY: Final = f"""
name: {NAME}
defaults: {{rate: 40Mbit, mtu: 4500}}
nodes:
  spine1: {{role: spine}}
  spine2: {{role: spine}}
  leaf1: {{role: leaf}}
  leaf2: {{role: leaf}}
{"".join(f"  h{number}: {{role: host}}{chr(10)}" for number in range(1, SENDERS + 2))}
links:
  - {{ends: [leaf1, spine1], rate: 160Mbit}}
  - {{ends: [leaf1, spine2], rate: 160Mbit}}
  - {{ends: [leaf2, spine1], rate: 160Mbit}}
  - {{ends: [leaf2, spine2], rate: 160Mbit}}
{"".join(f"  - ends: [h{number}, leaf1]{chr(10)}" for number in range(1, SENDERS + 1))}
  - ends: [h{SENDERS + 1}, leaf2]
qos:
  fabric: [pfc-ecn, roomy]
  profiles:
    roomy: {{buffer: {{groups: {{3: {{xoff: 60KB, xon: 30KB, headroom: 600KB}}}}}}}}
"""
"""Two queue pairs have 1 MB under way (rxe: 128 packets each), more than leaf2 and both spines hold below XOFF."""


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    file: Path = tmp_path_factory.mktemp("spread") / "spread.yaml"
    file.write_text(TOPOLOGY)
    rocelab("up", file)
    yield open_fabric(NAME)
    rocelab("down", "--fabric", NAME)


def port_counters(fabric: Fabric) -> dict[tuple[str, str], Any]:
    maps = port_maps.open_maps(fabric.name)
    return {place: maps.counters[port].copy() for port, place in fabric.numbering.names.items()}


def events(fabric: Fabric, since: int) -> list[tuple[int, str, EventKind]]:
    """Time, node and kind of each event after the first ``since``, in order of time."""
    maps = port_maps.open_maps(fabric.name)
    until = int(maps.event_count[0])
    assert until - since <= len(maps.events), "the first events are gone"
    log = [maps.events[number % len(maps.events)] for number in range(since, until)]
    return sorted((int(e["ns"]), fabric.numbering.names[int(e["port"])][0], EventKind(e["kind"])) for e in log)


@pytest.mark.parametrize("senders", [2, 4, 8])
def test_an_incast_across_spines_loses_nothing_and_is_felt_hop_by_hop(fabric: Fabric, senders: int) -> None:
    """The first XOFFs come in the order of the way back: receiver's leaf, spine, senders' leaf, host."""
    since = int(port_maps.open_maps(fabric.name).event_count[0])
    write_to_one(fabric, senders, "3s")
    path = first_pauses(fabric, since)
    assert path == sorted(path)


def write_to_one(fabric: Fabric, senders: int, duration: str) -> None:
    """Many hosts write to the one behind the other leaf, and neither rxe nor a port counts a loss."""
    sink = f"h{SENDERS + 1}"
    others = (word for number in range(2, senders + 1) for word in ("--pair", f"h{number}:{sink}"))
    report = rocelab_json("rdma", "bw", "h1", sink, *others, "--duration", duration)
    now = port_counters(fabric)
    assert all(pair["messages"] for pair in report["pairs"])
    moved = {counter for host in report["counters"].values() for counter, grown in host.items() if grown}
    assert not [counter for counter in moved if device_counters.meaning(counter).trouble]
    assert not any(port["queue"]["drop_packets"].sum() for port in now.values())
    assert all(balanced(port) for port in now.values())


def first_pauses(fabric: Fabric, since: int) -> list[int]:
    """When the receiver's leaf, a spine and the senders' leaf first sent XOFF, and when a host was first paused."""
    first: dict[tuple[str, EventKind], int] = {}
    for when, node, kind in events(fabric, since):
        first.setdefault((node.rstrip("0123456789") if kind is EventKind.PAUSED else node, kind), when)
    xoff = {node: when for (node, kind), when in first.items() if kind is EventKind.XOFF_SENT}
    spine = min(when for node, when in xoff.items() if node.startswith("spine"))
    return [xoff["leaf2"], spine, xoff["leaf1"], first["h", EventKind.PAUSED]]
