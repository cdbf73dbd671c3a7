"""``rocelab import containerlab``: an export comes back as the same fabric, and others' labs as far as they can."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.errors import InvalidInput, LabError, UsageError
from lab.export.containerlab import Images, export_lab
from lab.export.folder import write
from lab.export.from_lab import import_lab
from lab.model.load import load_topology
from lab.model.topology import Role, Topology

FOREIGN = """name: Fabric_01
topology:
  kinds:
    linux: {image: "quay.io/frrouting/frr:10.5.1"}
  nodes:
    Spine_1: {kind: linux, binds: ["s1/frr.conf:/etc/frr/frr.conf"], sysctls: {net.ipv4.ip_forward: 1}}
    tor-a: {kind: linux, binds: ["ta:/etc/frr/"]}
    r7: {kind: linux}
    srl1: {kind: nokia_srlinux, image: ghcr.io/nokia/srlinux}
    PC1: {kind: linux, image: alpine, exec: ["ip addr add 10.1.1.2/24 dev eth1"]}
    PC2: {kind: linux, image: alpine}
    PC3: {kind: linux, image: alpine}
  links:
    - endpoints: ["Spine_1:eth1", "tor-a:eth49"]
    - {endpoints: ["Spine_1:eth2", "r7:uplink"], mtu: 9500}
    - {endpoints: ["Spine_1:e1-3", "srl1:e1-1"]}
    - {type: veth, mtu: 1500, endpoints: [{node: PC1, interface: eth1}, {node: tor-a, interface: eth1}]}
    - endpoints: ["PC2:eth1", "r7:eth49"]
    - endpoints: ["PC2:eth2", "PC1:eth2"]
    - endpoints: ["tor-a:eth2", "host:tor-a-eth2"]
    - {type: mgmt-net, endpoint: {node: PC1, interface: eth9}, host-interface: pc1}
"""


def foreign(folder: Path, text: str = FOREIGN) -> Path:
    file = folder / "lab.clab.yml"
    file.write_text(text)
    return file


def test_an_export_comes_back_as_the_same_fabric(fabric: Topology, tmp_path: Path) -> None:
    write(export_lab(fabric, Images()), tmp_path / "lab")
    text, notes = import_lab(tmp_path / "lab" / "clab.yml")
    assert load_topology(text) == replace(fabric, qos=None)
    assert notes == ["qos: a lab has none; with qos: lab every port is a lossless one"]


def test_and_goes_out_again_as_the_same_files(fabric: Topology, tmp_path: Path) -> None:
    bare = replace(fabric, qos=None)
    files = export_lab(bare, Images())
    write(files, tmp_path / "lab")
    text, _ = import_lab(tmp_path / "lab" / "clab.yml")
    assert export_lab(load_topology(text), Images()) == files


def test_somebody_else_s_lab(tmp_path: Path) -> None:
    text, notes = import_lab(foreign(tmp_path))
    fabric = load_topology(text)
    assert fabric.name == "fabric-01"
    roles = {"spine-1": Role.SPINE, "tor-a": Role.LEAF, "r7": Role.LEAF, "pc1": Role.HOST, "pc2": Role.HOST}
    assert {node.name: node.role for node in fabric.nodes} == roles
    assert [str(link) for link in fabric.links] == [
        "spine-1:swp1--tor-a:swp49",
        "spine-1:swp2--r7:swp1",
        "pc1:eth1--tor-a:swp1",
        "pc2:eth1--r7:swp49",
    ]
    assert [link.mtu for link in fabric.links] == [9000, 9000, 1500, 9000]
    others = "tor-a:eth49 is tor-a:swp49, Spine_1:eth2 is spine-1:swp2"
    assert notes == [
        "node srl1: its kind is nokia_srlinux, and not linux",
        "link Spine_1:e1-3--srl1:e1-1: srl1 is left out",
        "link tor-a:eth2--host:tor-a-eth2: host is no node",
        "link links[7]: it is of type mgmt-net, and not between two nodes",
        "link PC2:eth2--PC1:eth2: a host and a host are no neighbours",
        "node PC3: no link of it is left",
        "node Spine_1 is called spine-1",
        "node PC1 is called pc1",
        "node PC2 is called pc2",
        "link Spine_1:eth2--r7:uplink: its MTU of 9500 is out of range",
        "MTU of 2 links that state none: rocelab's default is 9000, containerlab's is 9500",
        f"names of interfaces: Spine_1:eth1 is spine-1:swp1, {others}, r7:uplink is r7, and 2 more",
        "binds of Spine_1, tor-a",
        "exec of PC1",
        "image of Spine_1, tor-a, r7, PC1 and 2 more",
        "sysctls of Spine_1",
    ]
    assert all(f"# - {note.split(':')[0]}" in text for note in notes)


def test_a_router_without_a_telling_name_is_of_the_tier_of_its_distance(tmp_path: Path) -> None:
    routers = "".join(f"    r{number}: {{kind: linux, image: frr}}\n" for number in (1, 2, 3))
    text = (
        f"name: t\ntopology:\n  nodes:\n{routers}    pc: {{kind: linux, image: alpine}}\n  links:\n"
        '    - endpoints: ["r3:eth1", "r2:eth1"]\n'
        '    - endpoints: ["r2:eth2", "r1:eth1"]\n'
        '    - endpoints: ["r1:eth2", "pc:eth1"]\n'
    )
    fabric = load_topology(import_lab(foreign(tmp_path, text))[0])
    assert [node.role for node in fabric.nodes] == [Role.SUPERSPINE, Role.SPINE, Role.LEAF, Role.HOST]


def test_a_host_that_is_taken_for_a_leaf_is_left_out_with_the_label_that_mends_it(tmp_path: Path) -> None:
    """Its image is that of the switches."""
    nodes = "".join(f"    {name}: {{kind: linux, image: frr}}\n" for name in ("spine1", "leaf1", "h1"))
    text = (
        f"name: t\ntopology:\n  nodes:\n{nodes}  links:\n"
        '    - endpoints: ["leaf1:eth1", "spine1:eth1"]\n'
        '    - endpoints: ["leaf1:eth2", "h1:eth1"]\n'
    )
    _, notes = import_lab(foreign(tmp_path, text))
    assert (
        "node h1: no link of it is left; it is treated as a leaf (a router with no tier in its name): "
        "label it with rocelab.role if that is wrong"
    ) in notes
    labelled = text.replace("h1: {kind: linux,", "h1: {kind: linux, labels: {rocelab.role: host},")
    assert load_topology(import_lab(foreign(tmp_path, labelled))[0]).node("h1").role is Role.HOST


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        ("name: t\n", InvalidInput, "topology.nodes: is missing; name a containerlab topology file"),
        ("name: [\n", InvalidInput, "is not valid YAML"),
        (
            "name: t\ntopology: {nodes: {a: {kind: srl}}}\n",
            InvalidInput,
            ":2: topology.nodes.a: its kind is srl, and not linux",
        ),
        (FOREIGN.replace("tor-a:eth49", "PC1:eth7"), InvalidInput, ":7: topology.nodes.tor-a: has no BGP path to r7"),
    ],
)
def test_what_cannot_be_a_fabric(text: str, error: type[LabError], told: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=told):
        import_lab(foreign(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no file .*: name a topology file of containerlab; "):
        import_lab(tmp_path / "clab.yml")


def test_lines_for_frr_whose_file_is_gone_are_told(tmp_path: Path, fabric: Topology) -> None:
    write(export_lab(fabric, Images()), tmp_path / "lab")
    switch = fabric.switches[0].name
    (tmp_path / "lab" / switch / "frr.conf").unlink()
    assert (
        f"node {switch}: {switch}/frr.conf is not there, and what it says for FRR"
        in import_lab(tmp_path / "lab" / "clab.yml")[1]
    )


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 99999)
    | st.sampled_from(["", "linux", "a:b", "a", "veth", "leaf1:eth1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["kind", "group", "labels", "binds", "endpoints", "type", "mtu", "node", "interface", "a", "leaf1"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(VALUES, VALUES, VALUES)
def test_whatever_a_lab_says_the_answer_is_a_fabric_or_one_of_our_errors(
    tmp_path: Path, nodes: object, links: object, rest: object
) -> None:
    data = {
        "name": "t",
        "topology": {"nodes": nodes, "links": links, "defaults": rest, "groups": rest, "kinds": rest},
    }
    with contextlib.suppress(LabError):
        assert load_topology(import_lab(foreign(tmp_path, json.dumps(data)))[0]).switches
