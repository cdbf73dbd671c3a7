"""Requested changes of running ports: resolved for all nodes at once, or rejected without any effect."""

import json

import pytest

from lab.errors import InvalidInput, UsageError
from lab.model.qos.port import NodeQos
from lab.model.qos.port_change import QosRequest, work_out
from lab.model.qos.qos_store import dump_node, restore_node
from lab.model.qos.resolve import resolve
from lab.model.values.link_selection import choose_ports, every_port
from tests.unit.model.qos.fabrics import fabric

TOPOLOGY = fabric("{fabric: pfc-ecn, profiles: {calm: {ecn: {3: {enabled: false}}}, slow: {nic: {drain: 20Mbit}}}}")
NODES = resolve(TOPOLOGY)


def asked(ports: str, *assignments: str, profile: str | None = None) -> dict[str, NodeQos]:
    chosen = choose_ports(TOPOLOGY, ports.split()) if ports else every_port(TOPOLOGY)
    return work_out(TOPOLOGY, NODES, chosen, QosRequest(assignments, profile))


def test_only_what_is_named_changes() -> None:
    changed = asked("leaf1:swp3 leaf2", "ecn.3.kmin=20KB")
    assert list(changed) == ["leaf1", "leaf2"]
    kmins = {name: [port.queues[3].ecn.kmin for port in node.ports.values()] for name, node in changed.items()}
    assert kmins == {"leaf1": [40_000, 40_000, 20_000, 40_000], "leaf2": [20_000] * 4}


def test_what_is_so_already_is_no_change() -> None:
    assert asked("leaf1", "pfc.tx=true") == {}


def test_the_rate_is_the_links_and_so_both_ends() -> None:
    changed = asked("h1:eth1", "rate=50Mbit", "delay=1ms")
    assert list(changed) == ["leaf1", "h1"]
    ends = changed["h1"].ports["eth1"], changed["leaf1"].ports["swp3"]
    assert [(port.rate, port.delay) for port in ends] == [(50_000_000, 0.001)] * 2
    assert changed["leaf1"].ports["swp4"] == NODES["leaf1"].ports["swp4"]
    assert ends[0].queues == NODES["h1"].ports["eth1"].queues, "thresholds stay the bytes that they were"


def test_times_are_of_the_new_rate() -> None:
    changed = asked("h1:eth1", "ecn.3.kmin=2ms", "rate=40Mbit")
    assert changed["h1"].ports["eth1"].queues[3].ecn.kmin == 10_000


def test_a_preset_makes_ports_afresh_and_keeps_their_link() -> None:
    (changed,) = asked("leaf1", profile="dcqcn-thresholds").values()
    alone = resolve(fabric("dcqcn-thresholds"))["leaf1"]
    assert changed == alone


def test_a_preset_of_some_ports_leaves_what_is_shared() -> None:
    (changed,) = asked("leaf1:swp3", profile="dcqcn-thresholds").values()
    assert changed.ports["swp3"] == resolve(fabric("dcqcn-thresholds"))["leaf1"].ports["swp3"]
    assert changed.ports["swp4"] == NODES["leaf1"].ports["swp4"]
    assert changed.shared == NODES["leaf1"].shared


def test_a_profile_of_the_file_comes_before_the_assignments() -> None:
    (changed,) = asked("h1", "nic.drain=30Mbit", profile="slow").values()
    assert changed.ports["eth1"].drain == 30_000_000
    (calm,) = asked("spine1", profile="calm").values()
    assert not any(port.queues[3].ecn.enabled for port in calm.ports.values())


@pytest.mark.parametrize(
    ("ports", "assignment", "said"),
    [
        ("leaf1", "ecn.3.kmin=1MB", "ecn.3.kmin: kmin 1 MB is above kmax 160 KB; choose kmin <= kmax"),
        ("leaf1", "ecn.9.kmin=1KB", "there is no '9'"),
        ("leaf1", "scheduler.3=0", "scheduler.3"),
        ("leaf1 h1", "nic.drain=50Mbit", "nic.drain: is for hosts, not for a leaf"),
        ("h1", "rate=fast", "rate: 'fast' is not a rate"),
        ("h1", "rate=0", "rate: 0 is out of range; choose 1 Mb/s to 25 Gb/s"),
        ("h1", "rate=100Gbit", "rate: 100Gbit is out of range"),
        ("h1", "delay=1h", "delay: 1h is out of range; choose 0 to 1 s"),
        ("leaf1", "nonsense", "'nonsense' is no assignment"),
        ("leaf1", "buffer.pool=1KB", "buffer.pool"),
    ],
)
def test_what_cannot_be_is_one_clear_line(ports: str, assignment: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        asked(ports, assignment)
    (line,) = str(refused.value).splitlines()
    assert said in line


def test_a_profile_that_does_not_exist() -> None:
    with pytest.raises(UsageError, match=r"there is no profile 'slwo'.*slow"):
        asked("h1", profile="slwo")


@pytest.mark.parametrize("name", ["leaf1", "h1"])
def test_a_node_comes_back_equal_from_json(name: str) -> None:
    request = ["buffer.groups.3.xoff=60KB", "pfc.watchdog.detection=100ms", "delay=5us", "scheduler.2=strict"]
    (changed,) = (node for key, node in asked(name, *request).items() if key == name)
    assert restore_node(json.loads(json.dumps(dump_node(changed)))) == changed
    assert restore_node(json.loads(json.dumps(dump_node(NODES[name])))) == NODES[name]
