"""A deployed lab's file as a topology: its own names, all its links, and what is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.errors import InvalidInput, UsageError
from lab.export.adopted import MTU, RATE, as_topology, furnished
from lab.export.lab_reader import read_lab
from lab.model.topology import Endpoint, Role

if TYPE_CHECKING:
    from pathlib import Path

    from lab.export.lab_reader import ReadLab

LAB = """
name: Theirs
topology:
  kinds: {linux: {image: alpine}}
  nodes:
    spine1: {kind: linux, image: frrouting/frr}
    Leaf_1: {kind: linux, image: frrouting/frr}
    Leaf_2: {kind: linux, image: frrouting/frr}
    client: {kind: linux}
    srl: {kind: nokia_srlinux}
  links:
    - endpoints: ["Leaf_1:eth1", "spine1:eth1"]
    - endpoints: ["Leaf_2:eth1", "spine1:eth2"]
    - endpoints: ["Leaf_1:peer", "Leaf_2:peer"]
    - {type: veth, mtu: 1400, labels: {rocelab.rate: 100Mbit, rocelab.delay: 1ms}, endpoints: [
        {node: Leaf_1, interface: eth7}, {node: client, interface: data0}]}
    - endpoints: ["client:x1", "client:x2"]
    - endpoints: ["srl:e1-1", "client:eth9"]
"""


def lab_of(folder: Path, text: str = LAB) -> ReadLab:
    file = folder / "theirs.clab.yml"
    file.write_text(text)
    return read_lab(file)


def test_nodes_and_interfaces_keep_their_names(tmp_path: Path) -> None:
    topology, _ = as_topology(lab_of(tmp_path))
    assert topology.name == "theirs"
    roles = {"spine1": Role.SPINE, "Leaf_1": Role.LEAF, "Leaf_2": Role.LEAF, "client": Role.HOST}
    assert {node.name: node.role for node in topology.nodes} == roles
    assert not any(node.rdma for node in topology.nodes)
    assert topology.links_of("client")[0].other(Endpoint("client", "data0")) == Endpoint("Leaf_1", "eth7")
    assert topology.qos is None


def test_links_of_one_tier_are_links_too(tmp_path: Path) -> None:
    topology, _ = as_topology(lab_of(tmp_path))
    assert [str(link) for link in topology.links_of("Leaf_2")] == [
        "Leaf_2:eth1--spine1:eth2",
        "Leaf_1:peer--Leaf_2:peer",
    ]


def test_a_link_is_as_its_labels_say_and_as_containerlab_makes_it_without(tmp_path: Path) -> None:
    topology, _ = as_topology(lab_of(tmp_path))
    usual, said = topology.links[0], topology.links_of("client")[0]
    assert (usual.rate, usual.mtu, usual.delay) == (RATE, MTU, 0)
    assert (said.rate, said.mtu, said.delay) == (10**8, 1400, 0.001)


def test_what_cannot_be_taken_is_told(tmp_path: Path) -> None:
    _, notes = as_topology(lab_of(tmp_path))
    assert notes == [
        "node srl: its kind is nokia_srlinux, and not linux",
        "link srl:e1-1--client:eth9: srl is left out",
        "link client:x1--client:x2: both its ends are at client",
    ]


def test_bfd_is_judged_where_an_export_says_that_it_runs(tmp_path: Path) -> None:
    assert not as_topology(lab_of(tmp_path))[0].routing.bfd.enabled
    exported = LAB.replace("image: frrouting/frr", "image: frrouting/frr, labels: {rocelab.role: leaf}")
    assert as_topology(lab_of(tmp_path, exported))[0].routing.bfd.enabled


@pytest.mark.parametrize(
    ("written", "instead", "said"),
    [
        ("client", "cli.ent", "node 'cli.ent' of lab Theirs cannot be adopted"),
        ("client", "c" * 33, "cannot be adopted"),
        ("kind: linux", "kind: ceos", "nothing of lab Theirs can be adopted"),
        ("100Mbit", "fast", "has a label that means nothing"),
        ("100Mbit", "400Gbit", "has a label that means nothing: 400 Gb/s is out of range"),
        ("delay: 1ms", "delay: 20m", "has a label that means nothing: 1200 s is out of range"),
    ],
)
def test_what_is_no_lab_of_ours_to_look_at_is_refused(tmp_path: Path, written: str, instead: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        as_topology(lab_of(tmp_path, LAB.replace(written, instead)))


def test_links_that_do_not_say_their_rate_have_the_one_that_is_given(tmp_path: Path) -> None:
    topology, _ = as_topology(lab_of(tmp_path), "40Mbit")
    assert {str(link): link.rate for link in topology.links} == {
        "Leaf_1:eth1--spine1:eth1": 40_000_000,
        "Leaf_2:eth1--spine1:eth2": 40_000_000,
        "Leaf_1:peer--Leaf_2:peer": 40_000_000,
        "Leaf_1:eth7--client:data0": 100_000_000,
    }
    with pytest.raises(UsageError, match="--rate fast is no rate"):
        as_topology(lab_of(tmp_path), "fast")


def test_ports_and_devices_are_there_where_they_are_asked_for(tmp_path: Path) -> None:
    topology, _ = as_topology(lab_of(tmp_path))
    assert furnished(topology, None, rdma=False) == topology
    asked = furnished(topology, "sonic", rdma=True)
    assert asked.qos is not None
    assert asked.qos.fabric == ("sonic",)
    assert [node.name for node in asked.nodes if node.rdma] == ["client"]
    with pytest.raises(UsageError, match="--qos loud is no preset"):
        furnished(topology, "loud", rdma=False)


def test_ports_that_cannot_hold_their_headroom_are_refused(tmp_path: Path) -> None:
    text = LAB.replace("100Mbit, rocelab.delay: 1ms", "20Gbit, rocelab.delay: 1s")
    topology, _ = as_topology(lab_of(tmp_path, text))
    with pytest.raises(InvalidInput, match=r"--qos lab: headroom of 5.05 GB, at 20 Gb/s with a delay of 1 s"):
        furnished(topology, "lab", rdma=False)
