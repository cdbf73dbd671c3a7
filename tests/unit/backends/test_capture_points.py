"""Capture points of a fabric: the links' names and rates, and what the NIC at a link's end does about congestion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.backends.capture_points import points_of
from lab.backends.lifecycle import open_fabric
from lab.model.addressing import plan_addresses
from tests.unit.model.qos.fabrics import fabric
from tests.unit.running import run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from lab.model.topology import Topology


def notes(topology: Topology, folder: Path, monkeypatch: pytest.MonkeyPatch, *links: str) -> list[str]:
    run(topology, folder, monkeypatch)
    return [str(point.nic) for point in points_of(open_fabric(topology.name), links)]


def test_links_of_hosts_say_what_their_nics_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From either end, with the minimum time at the lab's rate: 50 us at 40 Gb/s are 20 ms at 100 Mb/s."""
    topology = fabric("{fabric: paper, nodes: {h2: mute}, profiles: {mute: {nic: {cc: {algorithm: off}}}}}")
    plan = plan_addresses(topology)
    first, second = (plan[host].interfaces["eth1"].address for host in ("h1", "h2"))
    assert first
    assert second
    assert notes(topology, tmp_path, monkeypatch, "h1:eth1", "leaf1:swp4", "leaf1:swp1") == [
        f"congestion control of h1:eth1 ({first.ip}): np rp, min_time_between_cnps 0.02 s per qp",
        f"congestion control of h2:eth1 ({second.ip}): off",
        "None",
    ]


def test_a_preset_without_congestion_control_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (note,) = notes(fabric("pfc-ecn"), tmp_path, monkeypatch, "h1:eth1")
    assert note.endswith(": off")
