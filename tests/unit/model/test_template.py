"""New files are commented and load to what was asked for."""

import re

import pytest

from lab.errors import InvalidInput, UsageError
from lab.model.load import load_topology
from lab.model.output.topology_template import new_topology, room_for_tunnels, with_tenants
from lab.model.overlay.tenancy import MAX_TENANTS, tenants_of_ends
from lab.model.spec import SHAPES, ClosSpec, LeafSpineSpec, RailOptimisedSpec

SETTINGS: dict[str, dict[str, object]] = {
    "leaf-spine": {"spines": 3, "leaves": 5, "hosts_per_leaf": None, "host_rate": "100Mbit"},
    "clos": {"pods": 2, "superspines": 1, "spines_per_pod": 1, "leaves_per_pod": 1},
    "rail-optimised": {"rails": 2, "hosts_per_unit": 2, "spines": 1},
}


@pytest.mark.parametrize(
    ("shape", "spec"), [("leaf-spine", LeafSpineSpec), ("clos", ClosSpec), ("rail-optimised", RailOptimisedSpec)]
)
def test_every_key_is_there_with_its_meaning(shape: str, spec: type[LeafSpineSpec | ClosSpec]) -> None:
    text = new_topology("mine", shape, SETTINGS[shape], {"rate": "50Mbit"})
    lines = [line.strip().removeprefix("# ") for line in text.splitlines()]
    for key in spec.model_fields:
        assert any(line.startswith(f"{key}: ") for line in lines), key
    fabric = load_topology(text)
    assert fabric.name == "mine"
    assert max(link.rate for link in fabric.links) <= 100_000_000


@pytest.mark.parametrize("shape", list(SHAPES))
def test_keys_that_are_commented_out_have_valid_examples(shape: str) -> None:
    text = new_topology("f", shape, SETTINGS[shape], {})
    load_topology(re.sub(r"(?m)^  # ([a-z_]+): ", r"  \1: ", text))
    assert re.search(r"(?m)^generate:\n  shape: ", text)


def test_counts_are_used() -> None:
    fabric = load_topology(new_topology("mine", "leaf-spine", SETTINGS["leaf-spine"], {"mtu": 1500}))
    assert (len(fabric.nodes), {link.mtu for link in fabric.links}) == (3 + 5 + 10, {1500})


def test_the_key_qos_is_there_to_be_turned_on() -> None:
    lossy = new_topology("mine", "leaf-spine", SETTINGS["leaf-spine"], {})
    assert load_topology(lossy).qos is None
    uncommented = load_topology(lossy.replace("# qos: lab", "qos: lab"))
    assert uncommented == load_topology(new_topology("mine", "leaf-spine", SETTINGS["leaf-spine"], {}, "lab"))
    assert uncommented.qos is not None
    with pytest.raises(InvalidInput, match=r"qos.fabric: there is no profile sonik; did you mean 'sonic'"):
        new_topology("mine", "leaf-spine", SETTINGS["leaf-spine"], {}, "sonik")


@pytest.mark.parametrize("shape", SETTINGS)
@pytest.mark.parametrize("tenants", [1, 2, 3])
def test_hosts_are_dealt_out_among_tenants(shape: str, tenants: int) -> None:
    """Each host's every interface is in a network, of the host's tenant; no two networks share a subnet."""
    plain = new_topology("mine", shape, {**SETTINGS[shape], **room_for_tunnels(4300)}, {"mtu": 4300})
    if len(load_topology(plain).hosts) < tenants:
        with pytest.raises(UsageError, match=f"{tenants} tenants for 2 hosts: --tenants 2 or fewer, or more hosts"):
            with_tenants(plain, tenants)
        return
    fabric = load_topology(with_tenants(plain, tenants))
    assert fabric.overlay is not None
    whose = tenants_of_ends(fabric)
    ends = [link.end_at(host.name) for host in fabric.hosts for link in fabric.links_of(host.name)]
    assert set(whose) == set(ends)
    numbers = {host.name: number for number, host in enumerate(fabric.hosts)}
    assert all(tenant == f"tenant{numbers[end.node] % tenants + 1}" for end, tenant in whose.items())
    subnets = [subnet for network in fabric.overlay.networks for subnet in network.subnets]
    assert len(set(subnets)) == len(subnets)
    assert {link.mtu for link in fabric.links} == {4300, 4350}


def test_as_many_tenants_as_an_octet_has_room_for() -> None:
    many = {"spines": 1, "leaves": 2, "hosts_per_leaf": 125, **room_for_tunnels(None)}
    fabric = load_topology(with_tenants(new_topology("mine", "leaf-spine", many, {}), MAX_TENANTS))
    assert fabric.overlay is not None
    assert len(fabric.overlay.tenants) == MAX_TENANTS


def test_bad_values_are_told() -> None:
    with pytest.raises(InvalidInput, match=r"generate\.spines: 0 is too small"):
        new_topology("mine", "leaf-spine", {"spines": 0, "leaves": 2}, {})


def test_a_name_cannot_add_keys() -> None:
    with pytest.raises(InvalidInput, match="not a fabric's name"):
        new_topology("a\ndescription: b", "leaf-spine", SETTINGS["leaf-spine"], {})
