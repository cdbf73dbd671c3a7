"""The meaning of a valid file, and the rejection of unreadable ones. Bad files: test_errors_golden."""

import subprocess
import sys
from collections.abc import Callable
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from lab.errors import InvalidInput, UsageError
from lab.model.load import load_topology, read_topology, renamed
from lab.model.topology import Bfd, HashPolicy, HostFamily, Role, Routing, SeedPolicy, Topology

EXPLICIT = """
name: hand-made
description: Written out.
defaults: {rate: 100Mbit, mtu: 1500, delay: 10us}
routing:
  {hash_policy: l3, hash_seed: shared, host_family: ipv6, bfd: {enabled: false, interval: 300ms, multiplier: 4}}
addressing: {vteps: 192.168.0.0/24}
nodes:
  h1: {role: host}
  h2: {role: host, rdma: false}
  leaf1: {role: leaf, pod: 7}
  leaf2: {role: leaf}
  spine1: {role: spine}
links:
  - {ends: [leaf1:swp2, spine1], rate: 1Gbit}
  - ends: [spine1:swp1, leaf2]
  - {ends: [h1, leaf1], mtu: 9000, delay: 0s}
  - ends: [leaf2, h2]
"""


def test_written_out_fabric() -> None:
    fabric = load_topology(EXPLICIT)
    assert [node.name for node in fabric.nodes] == ["spine1", "leaf1", "leaf2", "h1", "h2"]
    assert [str(link) for link in fabric.links] == [
        "leaf1:swp2--spine1:swp2",
        "spine1:swp1--leaf2:swp1",
        "h1:eth1--leaf1:swp1",
        "leaf2:swp2--h2:eth1",
    ]
    settings = [(link.rate, link.mtu, link.delay) for link in fabric.links]
    assert settings == [(10**9, 1500, 1e-5), (10**8, 1500, 1e-5), (10**8, 9000, 0.0), (10**8, 1500, 1e-5)]
    assert (fabric.node("h1").rdma, fabric.node("h2").rdma, fabric.node("leaf1").rdma) == (True, False, False)
    assert fabric.node("leaf1").pod == 7
    assert fabric.routing == Routing(HashPolicy.L3, SeedPolicy.SHARED, HostFamily.IPV6, Bfd(False, 0.3, 4))
    assert fabric.addressing.vteps == IPv4Network("192.168.0.0/24")


@pytest.mark.parametrize(
    ("overlay", "routing", "enabled"),
    [
        ("", "{}", True),
        ("flooding: ingress-replication", "{}", True),
        ("flooding: multicast", "{}", False),
        ("flooding: multicast", "{bfd: {interval: 300ms}}", False),
        ("flooding: multicast", "{bfd: {enabled: true}}", True),
        ("flooding: multicast, design: ibgp", "{underlay: ospf}", True),
    ],
)
def test_bfd_is_off_by_default_where_frr_would_not_bring_sessions_back(
    overlay: str, routing: str, enabled: bool
) -> None:
    networks = "networks: {lan: {vlan: 10, l2vni: 10010, untagged: [h1, h2]}}"
    text = f"""
name: t
generate: {{shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1, fabric_mtu: 9050}}
routing: {routing}
"""
    if overlay:
        text += f"overlay: {{{overlay}, {networks}}}\n"
    assert load_topology(text).routing.bfd.enabled is enabled


def test_the_same_text_gives_the_same_fabric() -> None:
    assert load_topology(EXPLICIT) == load_topology(EXPLICIT)


def test_overrides_change_the_links_they_name() -> None:
    text = """
name: t
generate: {shape: leaf-spine, spines: 2, leaves: 2, uplinks_per_pair: 2, hosts_per_leaf: 1}
overrides:
  spine1--leaf2: {rate: 20Mbit, delay: 1ms}
  leaf1:swp2--spine1: {rate: 30Mbit}
  leaf2:swp1--spine1:swp3: {mtu: 1500}
"""
    changed = {str(ln): (ln.rate, ln.mtu, ln.delay) for ln in load_topology(text).links if ln.rate < 10**9}
    assert changed == {
        "leaf2:swp1--spine1:swp3": (20_000_000, 1500, 0.001),
        "leaf2:swp2--spine1:swp4": (20_000_000, 9000, 0.001),
        "leaf1:swp2--spine1:swp2": (30_000_000, 9000, 0.0),
    }


def test_yaml_words_and_numbers_stay_what_was_typed() -> None:
    fabric = load_topology("name: no\ndescription: on\ngenerate: {shape: leaf-spine, spines: 1, leaves: 2}")
    assert (fabric.name, fabric.description) == ("no", "on")


def test_a_rate_in_bits_needs_no_unit() -> None:
    fabric = load_topology("name: t\ndefaults: {rate: 5000000}\ngenerate: {shape: leaf-spine, spines: 1, leaves: 2}")
    assert {link.rate for link in fabric.links} == {5_000_000}


def test_a_leaf_alone_is_a_fabric() -> None:
    assert [n.role for n in load_topology("name: t\nnodes: {leaf1: {role: leaf}}").nodes] == [Role.LEAF]


def test_pods_make_spines_reach_each_other_through_superspines() -> None:
    links = ["spine1, top", "spine2, top", "leaf1, spine1", "leaf2, spine2"]
    text = (
        "name: t\nnodes: {top: {role: superspine}, spine1: {role: spine, pod: 1}, spine2: {role: spine, pod: 2},"
        " leaf1: {role: leaf}, leaf2: {role: leaf}}\n"
        f"links: [{', '.join(f'{{ends: [{pair}]}}' for pair in links)}]"
    )
    assert len(load_topology(text).links) == 4
    with pytest.raises(InvalidInput, match="leaf1: has no BGP path to leaf2"):
        load_topology(text.replace("pod: 2", "pod: 1"))


def test_renamed_checks_the_name(small: Topology) -> None:
    assert renamed(small, "other").name == "other"
    with pytest.raises(InvalidInput, match="not a fabric's name"):
        renamed(small, "../other")


@pytest.mark.parametrize("written", ["rd: 50.50.50.50:50", "rd: 10000.5", "l3vni: fifty", "l3vni: 0.5"])
def test_what_is_said_in_place_of_a_number_that_is_none_is_accepted(written: str) -> None:
    text = "name: t\nnodes: {leaf1: {role: leaf}}\noverlay: {tenants: {blue: {%s}}}"
    with pytest.raises(InvalidInput, match="is not a whole number") as caught:
        load_topology(text % written)
    (problem,) = caught.value.problems
    key, _, _ = written.partition(" ")
    assert load_topology(text % f"{key} {problem.remedy.split()[-1]}").overlay is not None


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda _: None, "there is no file"),
        (Path.mkdir, "is a directory"),
        (lambda path: path.write_bytes(b"name: \xff\xfe"), "is not UTF-8"),
        (lambda path: path.symlink_to(path), "cannot read"),
    ],
)
def test_unreadable_files_have_a_remedy(tmp_path: Path, prepare: Callable[[Path], object], message: str) -> None:
    path = tmp_path / "fabric.yaml"
    prepare(path)
    with pytest.raises(UsageError, match=message) as caught:
        read_topology(path)
    assert caught.value.remedy


def test_a_name_with_a_zero_byte_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_topology(Path("a\0b"))


@pytest.mark.parametrize("text", ["[" * 100_000, "a: " * 50_000, "- " * 50_000, "x" * 2_000_000, "{a: [" * 40_000])
def test_hostile_texts_end_quickly(text: str) -> None:
    with pytest.raises(InvalidInput):
        load_topology(text)


def test_a_hundred_thousand_problems_are_not_all_told() -> None:
    text = "name: t\nnodes: {leaf1: {role: leaf}}\nlinks:\n" + "- ends: [leaf1, nobody]\n" * 10_000
    with pytest.raises(InvalidInput) as caught:
        load_topology(text)
    assert len(caught.value.problems) == 50


@pytest.mark.parametrize(
    "module", ["topology", "addressing", "store", "output.fabric_summary", "draw.svg", "qos.advice"]
)
def test_running_fabrics_do_not_wait_for_pydantic(module: str) -> None:
    code = f"import sys, lab.model.{module}; sys.exit('pydantic' in sys.modules or 'yaml' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_example_is_one_command_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, remedy in (
        ("topologies/incast.yaml", "rocelab examples copy topologies/incast.yaml"),
        ("topologies/incats.yaml", "name a topology file; rocelab examples copy has some"),
        ("topologies/../topologies/incast.yaml", "name a topology file; rocelab examples copy has some"),
    ):
        with pytest.raises(UsageError) as refused:
            read_topology(Path(name))
        assert str(refused.value) == f"there is no file {name}: {remedy}"
