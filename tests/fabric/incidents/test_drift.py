"""``rocelab drift`` on a running fabric: ordinary commands change each kind of object, and change it back."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from lab.telemetry.read.audits import read_audits
from lab.telemetry.store.recording_folder import Folder
from tests.fabric import resident, snapshot
from tests.fabric.command import TOPOLOGIES, rocelab
from tests.patience import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.fabric

FABRIC = "clos-2x2"


class Change(NamedTuple):
    """A change of one setting, as ``exec`` runs it, and the difference that it makes."""

    node: str
    do: str
    undo: str
    object: str
    field: str
    expected: str
    value: str


CHANGES = [
    Change("leaf1", "ip link set swp1 mtu 1500", "ip link set swp1 mtu 9000",
           "interface swp1", "mtu", "9000", "1500"),
    Change("leaf1", "ip link set swp1 promisc on", "ip link set swp1 promisc off",
           "interface swp1", "PROMISC", "absent", "yes"),
    Change("leaf1", "ip link set swp2 txqueuelen 10", "ip link set swp2 txqueuelen 1000",
           "interface swp2", "queue length", "1000", "10"),
    Change("h1", "ip link set eth1 address 02:00:00:00:00:01", "ip link set eth1 address 02:1a:00:05:00:01",
           "interface eth1", "mac", "02:1a:00:05:00:01", "02:00:00:00:00:01"),
    Change("leaf1", "ip link set swp1 multicast off", "ip link set swp1 multicast on",
           "interface swp1", "NOMULTICAST", "absent", "yes"),
    Change("h1", "ip neigh add proxy 10.0.0.9 dev eth1", "ip neigh del proxy 10.0.0.9 dev eth1",
           "neighbour proxy 10.0.0.9 eth1", "presence", "absent", "present"),
    Change("h1", "ip route add blackhole 10.0.0.4 tos 0x08", "ip route del blackhole 10.0.0.4 tos 0x08",
           "route 10.0.0.4/32 tos 0x08", "presence", "absent",
           "present: type blackhole, protocol boot, scope global"),
    Change("h1", "ethtool -K eth1 gro on", "ethtool -K eth1 gro off",
           "interface eth1", "offloads", "none", "gro"),
    Change("h1", "ip addr add 10.9.9.9/24 dev eth1", "ip addr del 10.9.9.9/24 dev eth1",
           "address 10.9.9.9/24 eth1", "presence", "absent", "present: scope global"),
    Change("leaf1", "ip addr del 10.253.0.1/32 dev lo", "ip addr add 10.253.0.1/32 dev lo",
           "address 10.253.0.1/32 lo", "presence", "present: scope global", "absent"),
    Change("h1", "ip route replace default via 10.0.0.9 dev eth1 onlink metric 100 proto static",
           "ip route replace default via 10.0.0.0 dev eth1 metric 100 proto static",
           "route 0.0.0.0/0 metric 100", "next hops", "via 10.0.0.0 dev eth1", "via 10.0.0.9 dev eth1 onlink"),
    Change("leaf1", "ip route add blackhole 10.0.0.4/32", "ip route del blackhole 10.0.0.4/32",
           "route 10.0.0.4/32", "presence", "absent", "present: type blackhole, protocol boot, scope global"),
    Change("leaf2", "ip rule add from 10.0.0.1 lookup 77 priority 5", "ip rule del priority 5",
           "rule inet 5 from 10.0.0.1", "presence", "absent", "present: action lookup 77"),
    Change("leaf1", "ip neigh replace 10.0.0.1 lladdr 02:00:00:00:00:09 nud permanent dev swp3",
           "ip neigh del 10.0.0.1 dev swp3",
           "neighbour 10.0.0.1 swp3", "presence", "absent", "present: mac 02:00:00:00:00:09, permanent yes"),
    Change("spine1", "sysctl -qw net.ipv4.fib_multipath_hash_policy=0",
           "sysctl -qw net.ipv4.fib_multipath_hash_policy=3",
           "sysctl net.ipv4.fib_multipath_hash_policy", "value", "3", "0"),
    Change("leaf2", "sysctl -qw net.ipv4.conf.swp1.rp_filter=1", "sysctl -qw net.ipv4.conf.swp1.rp_filter=0",
           "sysctl net.ipv4.conf.swp1.rp_filter", "value", "0", "1"),
    Change("spine2", "tc qdisc change dev swp1 root tbf rate 500mbit burst 125000 limit 625000 overhead 24",
           "tc qdisc change dev swp1 root tbf rate 1gbit burst 125000 latency 4ms overhead 24",
           "qdisc swp1 root", "rate", "125000000", "62500000"),
    Change("spine2", "tc qdisc add dev swp1 clsact", "tc qdisc del dev swp1 clsact",
           "qdisc swp1 ffff:fff1", "presence", "absent", "present: kind clsact"),
    Change("leaf1", "vtysh -c 'configure' -c 'router bgp 4200100001' -c 'bgp bestpath med confed'",
           "vtysh -c 'configure' -c 'router bgp 4200100001' -c 'no bgp bestpath med confed'",
           "frr router bgp 4200100001 / bgp bestpath med confed", "presence", "absent", "present"),
    Change("leaf1", "vtysh -c 'configure' -c 'bfd' -c 'profile fabric' -c 'transmit-interval 1001'",
           "vtysh -c 'configure' -c 'bfd' -c 'profile fabric' -c 'transmit-interval 1000'",
           "frr bfd / profile fabric / transmit-interval", "value", "1000", "1001"),
]  # fmt: skip


@pytest.fixture(scope="module")
def fabric() -> Iterator[str]:
    before = snapshot.take()
    rocelab("up", TOPOLOGIES / f"{FABRIC}.yaml", "--no-rdma")
    yield FABRIC
    rocelab("down")
    assert before.differences(snapshot.take()) == []


def drift(expect: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(rocelab("drift", "--json", expect=expect).stdout)["differences"]
    return found


def inside(node: str, command: str) -> None:
    rocelab("exec", node, "--", "sh", "-c", command)


def without_drift() -> bool:
    return not json.loads(resident.ended("drift", "--json", timeout=PATIENCE).stdout)["differences"]


def test_a_new_fabric_is_as_planned(fabric: str) -> None:
    """Also after traffic: neighbours come and go."""
    assert drift(expect=0) == []
    rocelab("exec", "h1", "--", "ping", "-nqc1", "10.0.0.3")
    assert drift(expect=0) == []
    assert f"{fabric}: no difference between plan and now" in rocelab("drift").stdout


@pytest.mark.usefixtures("fabric")
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change.object} {change.field}".replace(" ", "-"))
def test_a_change_is_named_with_both_values(change: Change) -> None:
    inside(change.node, change.do)
    found = drift(expect=1)
    inside(change.node, change.undo)
    wanted = {
        "node": change.node, "object": change.object, "field": change.field, "expected": change.expected,
        "value": change.value, "against": "plan",
    }  # fmt: skip
    assert wanted in [{name: each[name] for name in wanted} for each in found]
    assert {each["node"] for each in found if each["kind"] != "route"} <= {change.node}
    until(without_drift)


@pytest.mark.usefixtures("fabric")
def test_a_node_filter_selects_nodes() -> None:
    inside("leaf1", "ip link set swp1 mtu 1500")
    rocelab("drift", "--node", "leaf2")
    rocelab("drift", "--node", "leaf1", expect=1)
    inside("leaf1", "ip link set swp1 mtu 9000")


@pytest.mark.usefixtures("fabric")
def test_a_link_that_is_down_is_named_first() -> None:
    """Lost routes and sessions are named after it, on all nodes."""
    inside("leaf1", "ip link set swp1 down")
    until(lambda: any(each["kind"] == "route" for each in drift(expect=1)))
    found = drift(expect=1)
    inside("leaf1", "ip link set swp1 up")
    of_leaf = [each for each in found if each["node"] == "leaf1"]
    assert (of_leaf[0]["object"], of_leaf[0]["field"]) == ("interface swp1", "up")
    assert not any(each["object"].startswith(("address fe80", "route fe80")) for each in found)
    until(without_drift)


@pytest.mark.usefixtures("fabric")
def test_two_moments_of_a_recording(tmp_path: Path) -> None:
    """Its end differs from its beginning; both differ from the plan, and that is recorded, too."""
    inside("leaf2", "ip link set swp1 txqueuelen 500")
    rocelab("record", "start", "work", "-o", tmp_path)
    inside("leaf1", "ip link set swp1 mtu 1500")
    rocelab("record", "stop")
    inside("leaf1", "ip link set swp1 mtu 9000")
    inside("leaf2", "ip link set swp1 txqueuelen 1000")
    said = json.loads(rocelab("drift", tmp_path / "work", "--json", expect=1).stdout)
    assert [(each["node"], each["field"], each["value"]) for each in said["differences"]] == [
        ("leaf1", "mtu", "1500")
    ]
    assert (said["against"], said["fabric"]) == ("0.0 s", FABRIC)
    rocelab("drift", tmp_path / "work", "--from", "0", "--to", "0")
    first, last = read_audits(Folder(tmp_path / "work"))
    assert [(each.node, each.field) for each in first.drift or ()] == [("leaf2", "queue length")]
    assert [(each.node, each.field) for each in last.drift or ()] == [("leaf1", "mtu"), ("leaf2", "queue length")]
    rocelab("drift", tmp_path / "work", "--fabric", FABRIC, expect=2)
    rocelab("drift", "--from", "0", expect=2)


@pytest.mark.usefixtures("fabric")
def test_a_dead_daemon_does_not_stop_the_comparison(fabric: str) -> None:
    """It comes last: nothing restarts it."""
    pid = int(Path(f"/run/rocelab/fabrics/{fabric}/nodes/leaf2/bfdd.pid").read_text())
    os.kill(pid, signal.SIGKILL)
    inside("h1", "ip link set eth1 mtu 1400")
    until(lambda: any(each["object"] == "daemon bfdd" for each in drift(expect=1)))
    found = drift(expect=1)
    assert {("leaf2", "daemon bfdd", "no"), ("h1", "interface eth1", "1400")} <= {
        (each["node"], each["object"], each["value"]) for each in found
    }
    assert not any(each["node"] == "leaf2" and each["kind"] == "frr" for each in found)
