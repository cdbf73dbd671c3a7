"""Numbers that a test asserts on: which counters they add up, and what they say of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from lab.backends import registry
from lab.backends.backend import Fabric
from lab.dataplane.port_layout import Drop
from lab.errors import UsageError
from lab.model.load import load_topology
from lab.testing import block_counters
from lab.testing.block_packets import Packets
from lab.testing.count import MOST, Count, explain
from lab.wire import headers
from lab.wire.craft import build
from tests.unit.analysis.captures import pcapng, records
from tests.unit.running import Running, run

if TYPE_CHECKING:
    from pathlib import Path

TOPOLOGY: Final = load_topology(
    "name: counting\nqos: pfc-ecn\ngenerate: {shape: leaf-spine, spines: 1, leaves: 1, hosts_per_leaf: 2}\n"
)


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    found = run(TOPOLOGY, tmp_path, monkeypatch)
    monkeypatch.setattr(block_counters, "open_maps", lambda _, **_options: found.maps)
    return found


@pytest.fixture
def fabric(ran: Running) -> Fabric:
    return Fabric(ran.state, TOPOLOGY, registry.backend(registry.DEFAULT))


def test_a_block_counts_what_grew_in_it(ran: Running, fabric: Fabric) -> None:
    counters = ran.maps.counters
    leaf, host = ran.id("leaf1:swp2"), ran.id("h1:eth1")
    counters["priority"]["tx_pause"][leaf, 3] = 5
    counters["queue"]["watermark_bytes"][leaf, 3] = 9000
    with block_counters.counting(fabric) as grown:
        counters["priority"]["tx_pause"][leaf, 3] += 2
        counters["queue"]["drop_packets"][leaf, 3, Drop.HEADROOM] += 7
        counters["queue"]["drop_bytes"][leaf, 3, Drop.HEADROOM] += 7000
        counters["queue"]["drop_packets"][host, 0, Drop.LIMIT] += 8
        assert grown.count("pauses") == 2
    counters["priority"]["tx_pause"][leaf, 3] += 100
    assert grown.count("pauses") == grown.count("tx_prio3_pause", "leaf1:swp2") == grown.count("pauses", "leaf") == 2
    assert grown.count("pauses", "h1") == 0
    drops = grown.count("drops")
    assert repr(drops) == "15 (drops of all ports)"
    assert drops.parts == (
        "h1:eth1 queue0_drop_limit_packets: 8",
        "leaf1:swp2 queue3_drop_headroom_packets: 7",
    )
    assert grown.count("queue3_watermark_bytes", "leaf1:swp2") == 0


def test_of_what_is_no_sum_the_most_counts(ran: Running, fabric: Fabric) -> None:
    with block_counters.counting(fabric) as grown:
        for end, size in (("leaf1:swp2", 100), ("leaf1:swp3", 300)):
            ran.maps.counters["queue"]["watermark_bytes"][ran.id(end), 3] = size
    assert grown.count("queue3_watermark_bytes", "leaf1") == 300


@pytest.mark.parametrize(
    ("name", "ports", "told"),
    [
        ("drop", (), "counting counts no 'drop': did you mean 'drops'?"),
        ("drops", ("leaf7",), "no node or tier 'leaf7'"),
    ],
)
def test_what_is_not_counted_is_told(
    ran: Running,  # noqa: ARG001 - whose maps are read
    fabric: Fabric,
    name: str,
    ports: tuple[str, ...],
    told: str,
) -> None:
    with block_counters.counting(fabric) as grown, pytest.raises(UsageError, match=told.replace("?", r"\?")):
        grown.count(name, *ports)


def test_packets_are_counted_by_a_filter_and_shown(tmp_path: Path, fabric: Fabric) -> None:
    file = tmp_path / "made.pcapng"
    frame = build.pfc("02:00:00:00:00:01", headers.PfcFrame.of({3: 65535}))
    file.write_bytes(pcapng(records([frame] * (MOST + 3), gap=10**6)))
    packets = Packets(fabric, file, ("leaf1:swp1",))
    with pytest.raises(UsageError, match="packets are counted when the capture has ended"):
        packets.count()
    packets.ended = True
    pauses = packets.count("pfc")
    assert pauses == MOST + 3
    assert repr(pauses) == f"{MOST + 3} (packets like pfc at leaf1:swp1)"
    assert pauses.parts[1].startswith("2  0.001000 s  leaf1:swp1  02:00:00:00:00:01 > 01:80:c2:00:00:01  PFC")
    assert pauses.parts[MOST - 1 :] == (f"... and 4 more in {file}",)
    assert (packets.count("roce"), packets.count("roce").parts) == (0, ())
    assert packets.count() == MOST + 3


def test_a_comparison_explains_either_side_and_leaves_others_alone() -> None:
    many = Count(20, "packets", map(str, range(20)))
    assert explain("==", 1, 2) is None
    assert explain("<", 3, many) == ["3 < 20 (packets)", *map(str, range(MOST)), "... and 8 more"]
    assert many + 1 == 21
    assert f"{many:d}" == "20"
