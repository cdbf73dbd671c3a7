"""What lldpcli prints, and the cabling that it means."""

import json
from typing import Any

import pytest

from lab.cli.fabrics.lldp import exit_code
from lab.errors import ExitCode, OperationFailed
from lab.model.load import load_topology
from lab.routing.lldp.cabling import CabledPort, CableState, compare_cabling
from lab.routing.lldp.lldp_daemons import LldpNeighbour, parse_neighbours

SESSION = "rocelab-1"
TOPOLOGY = """
name: cables
nodes:
  leaf1: {role: leaf}
  h1: {role: host, rdma: false}
  h2: {role: host, rdma: false}
links:
  - {ends: [h1, leaf1]}
  - {ends: [h2, leaf1]}
"""
UP = {"leaf1": {"swp1", "swp2"}, "h1": {"eth1"}, "h2": {"eth1"}}
AS_PLANNED = {
    "leaf1": {"swp1": [LldpNeighbour("h1", "eth1")], "swp2": [LldpNeighbour("h2", "eth1")]},
    "h1": {"eth1": [LldpNeighbour("leaf1", "swp1")]},
    "h2": {"eth1": [LldpNeighbour("leaf1", "swp2")]},
}


def entry(interface: str, node: str, port: str, session: str = SESSION) -> dict[str, Any]:
    """A neighbour in the format json0 of lldpcli 1.0.16, without what is not read."""
    name = {"name": [{"value": node}]} if node else {}
    chassis = {"id": [{"type": "local", "value": node}], **name, "descr": [{"value": session}]}
    return {
        "name": interface,
        "via": "LLDP",
        "chassis": [chassis],
        "port": [{"id": [{"type": "ifname", "value": port}]}],
    }


def printed(*entries: dict[str, Any]) -> str:
    return json.dumps({"lldp": [{"interface": list(entries)} if entries else {}]})


def test_each_port_has_its_neighbours() -> None:
    text = printed(entry("swp1", "h1", "eth1"), entry("swp2", "h2", "eth1"), entry("swp2", "h3", "eth2"))
    assert parse_neighbours(text, SESSION, "leaf1") == {
        "swp1": [LldpNeighbour("h1", "eth1")],
        "swp2": [LldpNeighbour("h2", "eth1"), LldpNeighbour("h3", "eth2")],
    }


def test_other_daemons_on_the_same_ports_do_not_count() -> None:
    text = printed(entry("swp1", "sonic", "Ethernet0", session="SONiC"), entry("swp1", "h1", "eth1"))
    assert parse_neighbours(text, SESSION, "leaf1") == {"swp1": [LldpNeighbour("h1", "eth1")]}
    assert parse_neighbours(printed(), SESSION, "leaf1") == {}


def test_a_frame_without_a_system_name_is_no_planned_neighbour() -> None:
    assert parse_neighbours(printed(entry("swp1", "", "eth1")), SESSION, "leaf1") == {
        "swp1": [LldpNeighbour("", "eth1")]
    }


@pytest.mark.parametrize(
    "text",
    [
        "", "2026-01-01 [WARN/control] unable to send", "[]", "null", '{"lldp": 3}', '{"lldp": [{"interface": [3]}]}',
        printed({"name": "swp1"}), printed({**entry("swp1", "h1", "eth1"), "chassis": []}),
        printed({**entry("swp1", "h1", "eth1"), "port": [{"id": [{"type": "ifname"}]}]}), "[" * 100_000,
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_one_line(text: str) -> None:
    """lldpcli exits with 0 also when it prints something else."""
    with pytest.raises(OperationFailed, match=r"^leaf1: lldpcli prints no neighbours: ") as raised:
        parse_neighbours(text, SESSION, "leaf1")
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 200
    assert raised.value.remedy


def states(seen: dict[str, dict[str, list[LldpNeighbour]]], up: dict[str, set[str]] = UP) -> dict[str, str]:
    found = compare_cabling(load_topology(TOPOLOGY), seen, up)
    return {f"{each.node}:{each.port}": each.state for each in found}


def test_planned_cables_are_ok() -> None:
    assert set(states(AS_PLANNED).values()) == {"ok"}
    assert len(states(AS_PLANNED)) == 4


def test_exchanged_cables_are_wrong_at_both_ends() -> None:
    swapped = {
        "leaf1": {"swp1": AS_PLANNED["leaf1"]["swp2"], "swp2": AS_PLANNED["leaf1"]["swp1"]},
        "h1": AS_PLANNED["h2"],
        "h2": AS_PLANNED["h1"],
    }
    assert set(states(swapped).values()) == {"wrong"}
    found = compare_cabling(load_topology(TOPOLOGY), swapped, UP)
    (leaf,) = [each for each in found if (each.node, each.port) == ("leaf1", "swp1")]
    assert leaf == CabledPort("leaf1", "swp1", "h1:eth1", ("h2:eth1",), CableState.WRONG)


def test_a_second_neighbour_is_wrong() -> None:
    hub = AS_PLANNED | {"h1": {"eth1": [LldpNeighbour("leaf1", "swp1"), LldpNeighbour("h2", "eth1")]}}
    assert states(hub)["h1:eth1"] == "wrong"


def test_silence_is_not_seen_and_a_port_without_carrier_is_down() -> None:
    silent = AS_PLANNED | {"leaf1": {"swp2": AS_PLANNED["leaf1"]["swp2"]}}
    assert states(silent)["leaf1:swp1"] == "not seen"
    assert states(silent, UP | {"leaf1": {"swp2"}})["leaf1:swp1"] == "down"
    assert states({}, {}) == dict.fromkeys(states(AS_PLANNED), "down")


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (["ok", "ok"], ExitCode.PASS),
        (["ok", "wrong", "not seen"], ExitCode.FAIL),
        (["ok", "not seen"], ExitCode.UNKNOWN),
        (["ok", "down"], ExitCode.UNKNOWN),
    ],
)
def test_exit_codes(found: list[str], code: ExitCode) -> None:
    assert exit_code([CabledPort("leaf1", "swp1", "h1:eth1", (), CableState(state)) for state in found]) is code
