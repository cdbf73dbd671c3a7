"""Which source ports a sweep sends from: one for each path that the kernels choose from, between leaves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lab.errors import OperationFailed
from lab.kernel.packets.sweep import SweepFlow, Tally
from lab.model.addressing import plan_addresses
from lab.model.load import load_topology
from lab.scenario.probes import path_sweep
from lab.scenario.probes.path_sweep import covering, sweep_paths
from lab.scenario.probes.probe_traffic import longest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lab.scenario.stage import Stage

TOPOLOGY = load_topology(
    "name: swept\ndefaults: {rate: 100Mbit, mtu: 9000}\nqos: pfc-ecn\n"
    "generate: {shape: leaf-spine, spines: 4, leaves: 3, hosts_per_leaf: 1}\n"
)
PEERS = {str(end): link.other(end) for link in TOPOLOGY.links for end in link.ends}
HOSTS = ["h1", "h2", "h3"]


class Notes:
    """A recorder that keeps notes."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []

    def note(self, text: str, **data: Any) -> int:
        self.kept.append({"text": text, **data})
        return 0


@pytest.fixture
def stage() -> Stage:
    fabric = SimpleNamespace(
        name="swept", topology=TOPOLOGY, plan=plan_addresses(TOPOLOGY), namespace=lambda node: f"rl-swept-{node}"
    )
    return SimpleNamespace(fabric=fabric, recorder=Notes())  # type: ignore[return-value]


@pytest.fixture
def _hashing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves divide by port among their first three uplinks, and spines have one way to each leaf."""

    def ways(_: Stage, pair: str, came: str, ports: Iterable[int]) -> dict[int, str]:
        node, dst = came.partition(":")[0], pair.partition(":")[2]
        if node.startswith("leaf"):
            (mine,) = (str(peer) for end, peer in PEERS.items() if end == f"{dst}:eth1")
            if mine.partition(":")[0] == node:
                return dict.fromkeys(ports, mine.partition(":")[2])
            return {port: f"swp{port % 3 + 1}" for port in ports}
        leaf = PEERS[f"{dst}:eth1"].node
        (out,) = (end for end, peer in PEERS.items() if end.startswith(f"{node}:") and peer.node == leaf)
        return dict.fromkeys(ports, out.partition(":")[2])

    monkeypatch.setattr(path_sweep, "ways", ways)


@pytest.mark.usefixtures("_hashing")
def test_each_path_that_the_hash_uses_has_one_port(stage: Stage) -> None:
    found = covering(stage, "h1:h2")
    assert {path[1] for path in found} == {"leaf1:swp1", "leaf1:swp2", "leaf1:swp3"}
    for path, port in found.items():
        assert path[1] == f"leaf1:swp{port % 3 + 1}"
        assert [PEERS[each].node for each in path] == ["leaf1", f"spine{path[1][-1]}", "leaf2", "h2"]


@pytest.mark.usefixtures("_hashing")
def test_links_are_crossed_both_ways_and_what_came_is_noted(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def sweep(flows: Sequence[SweepFlow], large: int, rounds: int, every: int, pause: float) -> list[Tally]:
        assert (large, rounds * pause < 1, rounds // every) == (9000, True, 10)
        assert len({(flow.src, flow.port) for flow in flows}) == len(flows) == 9
        assert all(flow.src != flow.dst for flow in flows)
        return [Tally(100, 100, 10, 7) for _ in flows]

    monkeypatch.setattr(path_sweep, "sweep", sweep)
    sweep_paths(stage, HOSTS)
    notes = stage.recorder.kept  # type: ignore[attr-defined]
    assert {note["text"] for note in notes} == {"swept"}
    assert all((note["small"], note["large"], note["size"]) == ([100, 100], [10, 7], 9000) for note in notes)
    crossed = {port for note in notes for port in note["path"]}
    unused = {"leaf1:swp4", "leaf2:swp4", "leaf3:swp4"}
    assert crossed == {end for end in PEERS if not end.startswith("spine4")} - unused


def test_a_pair_without_a_route_is_left_out(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def ways(*_: object) -> dict[int, str]:
        raise OperationFailed("leaf1 has no route", "rocelab diagnose names the cause")

    monkeypatch.setattr(path_sweep, "ways", ways)
    sweep_paths(stage, HOSTS)
    assert [note["text"] for note in stage.recorder.kept] == ["gave up"] * 3  # type: ignore[attr-defined]


def test_one_leaf_has_no_paths_to_sweep(stage: Stage) -> None:
    sweep_paths(stage, HOSTS[:1])
    assert stage.recorder.kept == []  # type: ignore[attr-defined]


@pytest.mark.usefixtures("_hashing")
@pytest.mark.parametrize("failure", [None, OSError("Address already in use")])
def test_what_was_not_counted_is_not_noted_as_lost(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, failure: OSError | None
) -> None:
    def sweep(*_: object) -> None:
        if failure:
            raise failure

    monkeypatch.setattr(path_sweep, "sweep", sweep)
    sweep_paths(stage, HOSTS)
    assert [note["text"] for note in stage.recorder.kept] == ["gave up" if failure else "held back"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("rate", "seconds"), [("100Mbit", 13), ("1Mbit", 120)])
def test_the_longest_time_of_the_probes_depends_on_the_slowest_link(rate: str, seconds: int) -> None:
    """32 paths, 100 rounds of 1050 octets at a quarter of the rate, and 11.5 s of pings, ARP and waiting."""
    topology = load_topology(
        f"name: slow\ndefaults: {{rate: {rate}, mtu: 9000}}\nqos: pfc-ecn\n"
        "generate: {shape: leaf-spine, spines: 2, leaves: 2, hosts_per_leaf: 1}\n"
    )
    assert longest(topology) == seconds
