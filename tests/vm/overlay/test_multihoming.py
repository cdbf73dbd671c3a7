"""A host on two leaves by LACP and an Ethernet segment: who tells what, what comes twice, and what fails over.

Whichever way is flooded. The judges are FRR's own show commands, the kernel's tables, ping and tshark. One fabric for
all tests of a way, since each takes a while.
"""

from __future__ import annotations

import itertools
import json
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest

from lab.kernel.bpf.probe import load_bonding
from tests.fabric import snapshot
from tests.fabric.command import TOPOLOGIES, rocelab, rocelab_json
from tests.vm.multihomed import (
    ADDRESS,
    ESI,
    MAC,
    SENT,
    VTEP,
    flooded,
    forwarders,
    frr,
    is_used,
    said,
    silence,
    until,
    ways_to_h1,
)
from tests.vm.on_the_wire import captured, fields

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.vm, pytest.mark.long]

LEAVES: Final = ("leaf1", "leaf2", "leaf3")
MTU: Final = 4300


@pytest.fixture(scope="module", autouse=True, params=["ingress-replication", "multicast"])
def flooding(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    load_bonding()  # a module stays, and brings tls with it
    before = snapshot.take()
    file = tmp_path_factory.mktemp("fabric") / "multihomed.yaml"
    example = (TOPOLOGIES / "multihomed.yaml").read_text()
    file.write_text(example.replace("\noverlay:\n", f"\noverlay:\n  flooding: {request.param}\n"))
    rocelab("up", file)
    for host, other in (("h1", "h3"), ("h2", "h1"), ("h3", "h2")):  # a leaf tells the MAC of a host that has spoken
        said(host, "ping", "-nqc1", "-W2", ADDRESS[other], check=False)
    yield request.param
    rocelab("down", "--fabric", "multihomed")
    assert before.differences(snapshot.take()) == []


def test_when_up_returns_both_leaves_have_the_segment_and_one_forwards() -> None:
    """First: no time has passed. The filters do as zebra says."""
    assert forwarders() == {"leaf1": True, "leaf2": False}
    assert said("h1", "cat", "/proc/net/bonding/bond1").count("Partner Mac Address: 02:1a:00:00:00:02") == 1
    for leaf, does in (("leaf1", "pass"), ("leaf2", "drop")):
        rules = said(leaf, "tc", "filter", "show", "dev", "bond1", "egress", "chain", "2")
        assert rules.count(f"gact action {does}") == 1, rules
    assert rocelab_json("status")["healthy"]


def test_every_pair_reaches_each_other_at_full_mtu_once() -> None:
    begun = {}
    until(lambda: ways_to_h1() == {VTEP["leaf1"], VTEP["leaf2"]}, "leaf3 has not both ways to h1")
    for source, target in itertools.permutations(ADDRESS, 2):
        argv = ["ping", "-nqc2", "-i.3", "-W5", "-Mdo", f"-s{MTU - 28}", ADDRESS[target]]
        command = ["ip", "netns", "exec", f"rl-multihomed.{source}", *argv]
        begun[source, target] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for pair, ping in begun.items():
        report = ping.communicate(timeout=120)[0]
        assert "2 received" in report, (pair, report)
        assert "duplicates" not in report, (pair, report)


def test_each_leaf_tells_of_its_segments_and_macs_and_nothing_else(flooding: str) -> None:
    """RFC 7432: type 1 of the segment and of the network, 2 of MACs, 3, and 4; each by its teller and segment.

    Who floods to a group wants no copies: FRR tells no route of type 3 then.
    """
    wanted = {(3, leaf, "") for leaf in LEAVES if flooding == "ingress-replication"}
    wanted |= {(kind, leaf, ESI) for kind in (1, 4) for leaf in ("leaf1", "leaf2")}
    wanted |= {(2, leaf, MAC["h1"]) for leaf in ("leaf1", "leaf2")} | {
        (2, "leaf1", MAC["h2"]),
        (2, "leaf3", MAC["h3"]),
    }

    def told(leaf: str) -> set[tuple[int, str, str]]:
        found = set()
        for rd, routes in frr(leaf, "show bgp l2vpn evpn route json").items():
            for prefix in routes if isinstance(routes, dict) else ():
                if prefix.startswith("["):
                    kind, *rest = prefix.strip("[]").split("]:[")
                    of = {"1": rest[1], "2": rest[2] if len(rest) > 2 else "", "4": rest[0]}.get(kind, "")
                    found.add((int(kind), f"leaf{rd.split(':')[0].rsplit('.', 1)[-1]}", of))
        return found

    until(lambda: all(told(leaf) == wanted for leaf in LEAVES), f"{[told(leaf) ^ wanted for leaf in LEAVES]}")
    answer = rocelab_json("status", "--evpn")
    assert answer["healthy"]
    kinds = {(each["route"]["type"], each["route"]["esi"]) for each in answer["routes"]}
    copied = {(3, "")} if flooding == "ingress-replication" else set()
    assert kinds == {(1, ESI), (2, ESI), (2, ""), (4, ESI)} | copied


def test_lldp_sees_both_legs_of_the_bond() -> None:
    found = rocelab_json("lldp", "--fabric", "multihomed")
    legs = {each["port"]: each["seen"] for each in found["ports"] if each["node"] == "h1"}
    assert legs == {"eth1": ["leaf1:swp2"], "eth2": ["leaf2:swp2"]}
    assert found["as_planned"]


def test_flows_to_h1_take_both_leaves(tmp_path: Path) -> None:
    """Aliasing (RFC 7432 section 8.4): by the source port of UDP, of which there are 16."""
    files = {leg: tmp_path / f"{leg}.pcap" for leg in ("eth1", "eth2")}
    with ExitStack() as stack:
        for leg, file in files.items():
            stack.enter_context(captured("rl-multihomed.h1", leg, file, "-Q", "in", "udp"))
        for port in range(40000, 40016):
            said("h3", "python3", "-c", f"import socket; s = socket.socket(type=2); s.bind(('', {port}));"
                 f" s.sendto(b'x', ('{ADDRESS['h1']}', 9))")  # fmt: skip
    ports = {
        leg: [port for (port,) in fields(file, "udp.dstport == 9", "udp.srcport")] for leg, file in files.items()
    }
    assert all(ports.values()), ports
    assert sorted(int(port) for each in ports.values() for port in each) == list(range(40000, 40016))


def test_path_tells_the_leg_and_the_vtep_of_a_flow_as_a_capture_has_it(tmp_path: Path) -> None:
    """Of RoCEv2's port, two flows by each leg, from the bond and to it; a leg is one leaf's, which is one VTEP."""
    files = {leg: tmp_path / f"{leg}.pcap" for leg in ("eth1", "eth2")}
    with ExitStack() as stack:
        for leg, file in files.items():
            stack.enter_context(captured("rl-multihomed.h1", leg, file, "udp"))
        for source, target in (("h1", "h3"), ("h3", "h1")):
            said(source, "python3", "-c", "import socket\nfor port in range(50000, 50016):\n"
                 " s = socket.socket(type=2); s.bind(('', port));"
                 f" s.sendto(b'x', ('{ADDRESS[target]}', 4791))")  # fmt: skip
    for source, target in (("h1", "h3"), ("h3", "h1")):
        shown = f"udp.dstport == 4791 && ip.src == {ADDRESS[source]}"
        ports = {leg: [port for (port,) in fields(file, shown, "udp.srcport")] for leg, file in files.items()}
        assert sorted(int(port) for each in ports.values() for port in each) == list(range(50000, 50016)), ports
        assert min(map(len, ports.values())) > 1, ports
        for leg, own in ports.items():
            leaf = f"leaf{leg[-1]}"
            out = [f"h1:{leg}", f"{leaf}:swp1", "spine1:swp3", "leaf3:swp2"]
            back = ["h3:eth1", "leaf3:swp1", f"spine1:swp{leg[-1]}", f"{leaf}:swp2"]
            for port in own[:2]:
                told = rocelab_json("path", source, target, "--sport", port)
                assert told["paths"] == [out if source == "h1" else back], port
    assert len(rocelab_json("path", "h1", "h3")["paths"]) == len(rocelab_json("path", "h3", "h1")["paths"]) == 2


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("h3", {"eth1": SENT, "eth2": 0}),  # the designated forwarder's leg
        ("h2", {"eth1": SENT, "eth2": 0}),  # local bias of leaf1, and the horizon of leaf2
        ("h1", {"eth1": 0, "eth2": 0}),  # and nothing comes back
    ],
)
def test_what_is_flooded_comes_once(tmp_path: Path, source: str, wanted: dict[str, int]) -> None:
    assert flooded(tmp_path, source) == wanted


def test_a_leg_that_fails_is_left_at_once_and_the_other_leaf_forwards(tmp_path: Path) -> None:
    """Its leaf tells that it has the segment no more: mass withdrawal (RFC 7432 section 8.2)."""
    gap = silence(tmp_path, lambda: said("leaf1", "ip", "link", "set", "swp2", "down"))
    assert ways_to_h1() == {VTEP["leaf2"]}
    assert gap < 0.5, gap
    until(lambda: forwarders() == {"leaf1": False, "leaf2": True}, "leaf2 does not forward")
    assert flooded(tmp_path, "h3") == {"eth1": 0, "eth2": SENT}
    assert "2 received" in said(
        "h2", "ping", "-nqc2", "-i.3", "-W2", ADDRESS["h1"]
    )  # a host of the leaf that lost it
    assert rocelab_json("path", "h2", "h1")["paths"] == [["h2:eth1", "leaf1:swp1", "spine1:swp2", "leaf2:swp2"]]
    assert [way[0] for way in rocelab_json("path", "h1", "h3")["paths"]] == ["h1:eth2"]
    told = rocelab("status", "--evpn", expect=1).stdout
    assert "leaf1: bond1 has no member swp2" in told
    assert "leaf2: bond1 has no leaf 10.252.0.1" in told
    said("leaf1", "ip", "link", "set", "swp2", "up")
    until(lambda: forwarders() == {"leaf1": True, "leaf2": False}, "leaf1 does not forward again")
    until(lambda: ways_to_h1() == {VTEP["leaf1"], VTEP["leaf2"]}, "leaf3 has not both ways to h1 again")
    until(lambda: "Number of ports: 2" in said("h1", "cat", "/proc/net/bonding/bond1"), "LACP has one leg")
    until(lambda: is_used("leaf1", "swp2"), "leaf1 does not use its leg")
    assert rocelab_json("status", "--evpn")["healthy"]
    assert flooded(tmp_path, "h3") == {"eth1": SENT, "eth2": 0}


def test_a_leaf_that_dies_takes_the_host_with_one_leg_alone(tmp_path: Path) -> None:
    """Last: it breaks the fabric. The other ends of its links lose their carrier: nobody waits for BFD's 3 s."""

    def die() -> None:
        for port in ("swp1", "swp2", "swp3"):
            said("leaf1", "ip", "link", "set", port, "down")

    gap = silence(tmp_path, die)
    assert gap < 1, gap
    assert ways_to_h1() == {VTEP["leaf2"]}
    assert flooded(tmp_path, "h3") == {"eth1": 0, "eth2": SENT}
    assert "0 received" in said("h3", "ping", "-nqc2", "-i.3", "-W2", ADDRESS["h2"], check=False)
    (found,) = json.loads(rocelab("diagnose", "--seconds", "1", "--json", expect=1).stdout)["causes"]
    assert (found["cause"], found["places"]) == ("leaf-dies", ["leaf1"])
