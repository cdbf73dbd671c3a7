"""Scenarios at other places: the workload, the checks and the answer follow the place of the fault."""

from pathlib import Path

import pytest

from lab.errors import UsageError
from lab.model.load import read_topology
from lab.scenario import library
from lab.scenario.relocation import places, relocate
from tests.unit.scenario import played
from tests.unit.scenario.played import Act
from tests.unit.scenario.stories.test_judge_evpn import GOOD as OVERLAY_RUNS
from tests.unit.scenario.stories.test_slow_receiver import GOOD
from tests.unit.scenario.tale import outcomes

INCAST = read_topology(library.OWN.parent / "topologies" / "incast.yaml")
TENANT = read_topology(library.OWN.parent / "topologies" / "roce-tenant.yaml")
OVERLAY = [
    name for name in OVERLAY_RUNS
    if len(library.places(library.find(name), TENANT)) > 1
]  # fmt: skip
MOVABLE = [
    name for name in library.names() if library.topology_of(library.find(name)).name == "incast.yaml"
]  # fmt: skip


@pytest.mark.parametrize(
    ("place", "others"),
    [
        ("leaf1:swp1", {"leaf1:swp2", "leaf2:swp1", "leaf2:swp2"}),
        ("h8", {f"h{number}" for number in range(1, 8)}),
        ("leaf1--spine1", {"leaf1--spine2", "leaf2--spine1", "leaf2--spine2"}),
        ("spine1", {"spine2"}),
    ],
)
def test_a_place_has_the_others_of_its_role(place: str, others: set[str]) -> None:
    first, *rest = places(INCAST, place)
    assert first == place
    assert set(rest) == others


def test_names_ports_and_addresses_follow() -> None:
    moved = relocate(INCAST, "leaf1:swp1", "leaf2:swp2")
    text = "h1:h5, 10.0.0.8/31, leaf1:swp3 to swp5, leaf1 swp1, ffff:0a00:0009, h4:rx-eth1, leaf1--spine1, h12, vni10"
    assert moved.text(text) == (
        "h5:h1, 10.0.0.0/31, leaf2:swp3 to swp5, leaf2 swp2, ffff:0a00:0001, h8:rx-eth1, leaf2--spine2, h12, vni10"
    )


def test_the_own_place_moves_nothing() -> None:
    moved = relocate(INCAST, "h8", "h8")
    assert all(name == image for each in (moved.nodes, moved.ports, moved.addresses) for name, image in each.items())


def test_what_is_unlike_the_place_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no place 'spine1:swp1' like leaf1:swp1: .*swp"):
        relocate(INCAST, "leaf1:swp1", "spine1:swp1")


def test_leaves_of_the_same_networks_exchange_places() -> None:
    assert places(TENANT, "leaf2") == ["leaf2", "leaf1"]
    assert places(TENANT, "h1") == ["h1", "h2"]
    assert places(TENANT, "leaf3") == ["leaf3"]  # the only one of its network
    assert places(TENANT, "leaf3:swp1") == ["leaf3:swp1", "leaf3:swp2"]


@pytest.mark.parametrize(
    ("topology", "place"), [("vlans", "spine1"), ("multihomed", "leaf1"), ("multicast", "spine1")]
)
def test_what_an_overlay_chooses_by_number_does_not_move(topology: str, place: str) -> None:
    assert places(read_topology(library.OWN.parent / "topologies" / f"{topology}.yaml"), place) == [place]


def test_vteps_numbers_and_macs_follow() -> None:
    moved = relocate(TENANT, "leaf2", "leaf1")
    assert moved.text("router bgp 4200100002; leaf2, 10.252.0.2, 02:1a:00:04:00:00; leaf3, 10.252.0.3; vni10010") == (
        "router bgp 4200100001; leaf1, 10.252.0.1, 02:1a:00:03:00:00; leaf3, 10.252.0.3; vni10010"
    )
    assert moved.text("h1 10.1.10.2 02:1a:00:06:00:01, h2, h3 10.1.20.2, gateway 10.1.10.1 02:1a:00:00:00:01") == (
        "h2 10.1.10.3 02:1a:00:07:00:01, h1, h3 10.1.20.2, gateway 10.1.10.1 02:1a:00:00:00:01"
    )


@pytest.mark.parametrize("scenario", OVERLAY)
def test_a_run_of_the_overlay_is_judged_at_its_place(scenario: str, tmp_path: Path) -> None:
    place, there = library.places(library.find(scenario), TENANT)
    moved, here = relocate(TENANT, place, there), OVERLAY_RUNS[scenario]
    acts = {
        phase: Act(
            {moved.text(thing): words for thing, words in act.counted.items()},
            [(moved.text(node), moved.text(argv), moved.text(said), code) for node, argv, said, code in act.ran],
        )
        for phase, act in here.items()
    }
    assert set(played.outcomes(played.play(tmp_path / "there", scenario, acts, at=there)).values()) == {"pass"}
    if acts != here:  # what is measured at the other leaves stays
        assert "fail" in played.outcomes(played.play(tmp_path / "here", scenario, here, at=there)).values()


def test_every_scenario_with_an_answer_can_be_drawn() -> None:
    for name in library.names():
        scenario = library.find(name)
        if scenario.answer is None:
            continue
        topology = read_topology(library.topology_of(scenario))
        first, *_ = library.places(scenario, topology)
        assert library.find_at(name, first, topology).title == scenario.title


@pytest.mark.parametrize("name", MOVABLE)
def test_the_answer_is_at_the_place(name: str) -> None:
    for place in library.places(library.find(name), INCAST):
        scenario = library.find_at(name, place, INCAST)
        assert scenario.answer is not None
        assert scenario.answer.where[0] == scenario.at == place
        assert [check.__name__ for check in scenario.checks] == [each.__name__ for each in library.find(name).checks]


def test_a_run_is_judged_at_its_place(tmp_path: Path) -> None:
    moved = relocate(INCAST, "h4", "h7")
    for folder in ("there", "here", "elsewhere"):
        (tmp_path / folder).mkdir()
    there = {
        phase: {moved.text(counter): amount for counter, amount in growth.items()} for phase, growth in GOOD.items()
    }
    assert set(outcomes(tmp_path / "there", "slow-receiver", there, at="h7").values()) == {"pass"}
    assert "fail" in outcomes(tmp_path / "here", "slow-receiver", there).values()
    assert "fail" in outcomes(tmp_path / "elsewhere", "slow-receiver", GOOD, at="h7").values()


def test_a_moved_scenario_leaves_the_module_of_its_file_alone() -> None:
    library.find_at("gray-loss", "leaf2:swp2", INCAST)
    assert library.lint("gray-loss") == []
