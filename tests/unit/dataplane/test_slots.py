"""Packets that a port can hold: enough for what is asked for, as far as the memory goes, and a warning beyond."""

from __future__ import annotations

from dataclasses import replace

from lab.dataplane import slot_budget
from lab.dataplane.numbering import number_ports
from lab.model.load import load_topology
from lab.model.qos.resolve import resolve

TEXT = (
    "name: pair\nqos: pfc-ecn\nnodes: {s1: {role: leaf}, h1: {role: host}, h2: {role: host}}\n"
    "links: [{ends: [h1, s1]}, {ends: [h2, s1]}]\n"
)
TOPOLOGY = load_topology(TEXT)
NUMBERING, QOS = number_ports(TOPOLOGY), resolve(TOPOLOGY)
GIB = 2**30


def test_256_paused_queue_pairs_of_a_nic_do_not_overflow_its_port() -> None:
    """rxe stops a queue pair that has more than 64 packets in the queue."""
    hosts = {name: node for name, node in QOS.items() if name != "s1"}
    found = slot_budget.per_port(NUMBERING, {**hosts, "s1": replace(QOS["s1"], pool=0)}, 4 * GIB)
    assert slot_budget.usable(found) >= 256 * 65
    assert not list(slot_budget.advise(found, NUMBERING, hosts))


def test_all_limited_queue_pairs_of_a_small_fabric_fit() -> None:
    """1,024 that have 65 packets each; only with congestion control, and within 128 MiB."""
    controlled = load_topology(TEXT.replace("pfc-ecn", "lab"))
    qos = resolve(controlled)
    found = slot_budget.per_port(NUMBERING, qos, 4 * GIB)
    assert slot_budget.usable(found) >= 1024 * 65 > slot_budget.usable(slot_budget.per_port(NUMBERING, QOS, 4 * GIB))
    wide = load_topology(
        "name: wide\nqos: lab\ngenerate: {shape: leaf-spine, spines: 2, leaves: 4, hosts_per_leaf: 8}\n"
    )
    numbering, qos = number_ports(wide), resolve(wide)
    few = slot_budget.per_port(numbering, qos, GIB)
    assert few * slot_budget.SLOT_BYTES * numbering.size <= 128 * 2**20
    assert slot_budget.usable(few) >= 256 * 65
    assert not [each for each in slot_budget.advise(few, numbering, qos) if each.field == "nic"]


def test_a_switch_s_whole_buffer_fits_in_smallest_frames() -> None:
    found = slot_budget.per_port(NUMBERING, {**QOS, "s1": replace(QOS["s1"], pool=2_000_000)}, 4 * GIB)
    assert slot_budget.usable(found) >= 2_000_000 // 60


def test_memory_bounds_it_and_that_is_said() -> None:
    greedy = {**QOS, "s1": replace(QOS["s1"], pool=64_000_000)}
    assert slot_budget.per_port(NUMBERING, greedy, 0) * slot_budget.SLOT_BYTES * NUMBERING.size <= 128 * 2**20
    few = slot_budget.FEWEST
    found = list(slot_budget.advise(few, NUMBERING, greedy))
    assert [advice.ports for advice in found] == [("s1:swp1", "s1:swp2"), ("h1:eth1",), ("h2:eth1",)]
    switch, host, _ = map(str, found)
    assert switch.startswith("s1:swp1 s1:swp2: buffer.pool: a port holds 1472 packets: of less than 43479 bytes each")
    assert "h1:eth1: nic: a port holds 1472 packets, 256 paused QPs send 16640" in host


def test_many_ports_still_have_the_fewest() -> None:
    assert slot_budget.per_port(NUMBERING, QOS, 0) >= slot_budget.FEWEST


def test_what_is_free_is_less_than_all() -> None:
    assert 2**20 < slot_budget.available_memory() < 2**50
