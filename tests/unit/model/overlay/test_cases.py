"""netlab's and FRR's own EVPN cases as our topologies: what they assert holds of our plan, or the file is refused.

A file in cases/ has the name of the case, in whose folder it is; NAME+MORE.yaml is what a case wants besides, and
NAME.txt why a file is refused. ROCELAB_UPDATE_GOLDEN=1 writes the texts anew.
"""

import os
import re
from itertools import combinations
from pathlib import Path

import pytest

from lab.cli.machine.docs import PAGES
from lab.errors import InvalidInput
from lab.model.load import load_topology, read_topology
from lab.routing.frr_config.render import render_router
from lab.routing.wait.evpn_expectations import Segments, expected_overlay
from tests.unit.model.overlay.wanted import Wanted
from tests.unit.model.overlay.wanted_frr import NO_WORD, WANTED
from tests.unit.model.overlay.ways import NOT_AT_ALL, Fabric

CASES = Path(__file__).parent / "cases"
FILES = {str(path.relative_to(CASES).with_suffix("")): path for path in sorted(CASES.rglob("*.yaml"))}
REFUSED = sorted(FILES.keys() - WANTED.keys())


@pytest.fixture(scope="module", params=WANTED)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def wanted(name: str) -> Wanted:
    return WANTED[name]


@pytest.fixture(scope="module")
def fabric(name: str) -> Fabric:
    return Fabric(read_topology(FILES[name]))


def test_hosts_reach_those_that_they_are_to_and_nobody_else(fabric: Fabric, wanted: Wanted) -> None:
    ways = {
        f"{one}-{other}": fabric.way(one, other)
        for one, other in combinations(sorted(host.name for host in fabric.topology.hosts), 2)
    }
    assert {pair: way for pair, way in ways.items() if way != NOT_AT_ALL} == {
        pair: way for way, pairs in wanted.ways.items() for pair in pairs.split()
    }


def test_leaves_have_the_vnis_and_no_other(fabric: Fabric, wanted: Wanted) -> None:
    found: dict[int, set[str]] = {}
    for leaf, own in fabric.overlay.leaves.items():
        for tunnel in own.tunnels:
            found.setdefault(tunnel.vni, set()).add(leaf)
    assert found == {vni: set(leaves.split()) for vni, leaves in {**wanted.floods, **wanted.routers}.items()}


def test_each_leaf_of_a_network_floods_to_all_others(fabric: Fabric, wanted: Wanted) -> None:
    """Which it does by their routes of type 3, or by the group."""
    floods = {leaf: {name: set(to) for name, to in each.vteps.items()} for leaf, each in fabric.floods.items()}
    expected: dict[str, dict[str, set[str]]] = {}
    for vni, leaves in wanted.floods.items():
        for leaf in leaves.split():
            others = {_vtep(fabric, other) for other in leaves.split() if other != leaf}
            group = wanted.groups.get(vni)
            expected.setdefault(leaf, {})[f"vni{vni}"] = others if group is None else {group}
    assert floods == expected


def test_subnets_and_what_is_outside_come_by_type_5_from_whose_they_are(fabric: Fabric, wanted: Wanted) -> None:
    found = {
        f"{leaf} {vrf} {prefix}": set(hops)
        for leaf, routes in fabric.routes.items()
        for (vrf, prefix), hops in routes.vteps.items()
    }
    assert found == {key: {_hop(fabric, key, each) for each in by.split()} for key, by in wanted.routes.items()}


def test_gateways_are_on_every_leaf_of_their_network_with_one_mac(fabric: Fabric, wanted: Wanted) -> None:
    where: dict[str, set[str]] = {}
    macs = set()
    for leaf, own in fabric.overlay.leaves.items():
        for gateway in (each for each in own.gateways if each.addresses):
            where.setdefault(" ".join(map(str, gateway.addresses)), set()).add(leaf)
            macs.add(gateway.mac)
    assert len(macs) <= 1
    assert {key: where.get(key) for key in wanted.gateways} == {
        key: set(leaves.split()) for key, leaves in wanted.gateways.items()
    }


def test_segments_have_their_identifiers_and_other_leaves(fabric: Fabric, wanted: Wanted) -> None:
    leaves = fabric.overlay.leaves
    assert {
        f"{leaf} {bond.name}": f"{bond.esi} {' '.join(bond.others)}" for leaf in leaves for bond in leaves[leaf].bonds
    } == wanted.segments
    others = {
        f"{leaf} {name}": set(known)
        for leaf, expected in expected_overlay(fabric.topology, fabric.nodes).items()
        for each in expected
        if isinstance(each, Segments)
        for name, known in each.others.items()
    }
    assert others == {
        key: {_vtep(fabric, each) for each in text.split()[1:]} for key, text in wanted.segments.items()
    }


def test_switches_are_told_what_the_design_is(fabric: Fabric, wanted: Wanted) -> None:
    told = {switch.name: _told(fabric, switch.name) for switch in fabric.topology.switches}
    for switch, texts in wanted.lines.items():
        assert [text for text in texts if f"\n{text}\n" not in told[switch]] == []
    for text in told.values():
        assert [each for each in wanted.lacks if each in text] == []
        assert "next-hop-self" not in text
        assert text.count("neighbor OVERLAY activate") <= 1  # for EVPN, and no IPv4 besides


def _told(fabric: Fabric, name: str) -> str:
    """All lines of a switch's FRR, without indents and separators."""
    config = render_router(fabric.topology, fabric.nodes, name)
    lines = (line.strip() for line in [*(config.integrated + config.managed).splitlines(), *config.own])
    return "\n" + "\n".join(line for line in lines if line != "!") + "\n"


def _vtep(fabric: Fabric, leaf: str) -> str:
    """By the order of the leaves in the file."""
    leaves = [node.name for node in fabric.topology.nodes if node.role == "leaf"]
    return f"10.252.0.{leaves.index(leaf) + 1}"


def _hop(fabric: Fabric, key: str, by: str) -> str:
    """The next hop that a name stands for: of a router outside the link's own address, for that is IPv6's."""
    node = fabric.topology.by_name.get(by)
    if node is None:
        return by
    if node.role.is_switch:
        return _vtep(fabric, by)
    assert ":" in key
    return str(fabric.nodes[by].interfaces["eth1"].link_local)


def test_tunnels_end_at_another_address_than_the_loopbacks() -> None:
    """What netlab's alternative VTEP is about."""
    nodes = Fabric(read_topology(FILES["netlab/vxlan/08-vxlan-alt-vtep"])).nodes
    assert [(str(nodes[leaf].loopback4), str(nodes[leaf].vtep)) for leaf in ("leaf1", "leaf2")] == [
        ("10.253.0.1", "10.252.0.1"), ("10.253.0.2", "10.252.0.2")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        (("untagged: [h1, h2]", "untagged: [h2, h1]"), set()),
        (("l2vni: 1002, tenant: customer", "l2vni: 1002, tenant: other"), {"h1-h4", "h2-h4", "h3-h4"}),
        (("[10.1.20.0/24], gateways: [10.1.20.1]", "[10.1.20.0/24]"), {"h1-h3", "h2-h3", "h3-h4"}),
        (("untagged: [h1, h2]", "untagged: [h1]"), {"h1-h2", "h2-h3", "h2-h4"}),
    ],
)
def test_a_way_is_missed_where_there_is_none(change: tuple[str, str], lost: set[str]) -> None:
    """Another tenant, no gateway, no network: the checker finds what of symmetric IRB is left."""
    path = FILES["netlab/evpn/03-vxlan-symmetric-irb"]
    text = path.read_text().replace("5042}", "5042}\n    other: {l3vni: 5043}")
    assert change[0] in text
    fabric = Fabric(load_topology(text.replace(*change)))
    hosts = [host for host in ("h1", "h2", "h3", "h4") if host in fabric.overlay.hosts]
    kept = {f"{one}-{other}" for one, other in combinations(hosts, 2) if fabric.way(one, other) != NOT_AT_ALL}
    assert kept == {"h1-h2", "h1-h3", "h1-h4", "h2-h3", "h2-h4", "h3-h4"} - lost


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_said_is_refused_in_one_line(name: str) -> None:
    path = FILES[name]
    with pytest.raises(InvalidInput) as caught:
        read_topology(path)
    (problem,) = caught.value.problems
    assert problem.remedy
    complaint = str(caught.value).replace(str(path), path.name) + "\n"
    if "ROCELAB_UPDATE_GOLDEN" in os.environ:
        path.with_suffix(".txt").write_text(complaint, encoding="utf-8")
    assert complaint == path.with_suffix(".txt").read_text(encoding="utf-8")


def test_every_case_is_of_one_sort_and_every_text_of_a_file() -> None:
    assert WANTED.keys() <= FILES.keys()
    assert not FILES.keys() & set(NO_WORD)
    assert {str(path.relative_to(CASES).with_suffix("")) for path in CASES.rglob("*.txt")} == set(REFUSED)


def test_the_page_lists_every_case_and_whether_it_is_supported() -> None:
    _, _, section = (PAGES / "overlay.md").read_text().partition("\n## Test cases of netlab and FRR\n")
    rows = re.findall(r"^\| `(\S+)` \| (yes|part|no) \| (.+) \|$", section.partition("\n## ")[0], re.MULTILINE)
    said = {name: word for name, word, _ in rows}
    assert len(said) == len(rows)
    cases = {name.partition("+")[0] for name in FILES} | set(NO_WORD)
    assert said.keys() == cases
    assert {name for name, word in said.items() if word != "no"} == WANTED.keys()
