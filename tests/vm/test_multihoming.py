"""A host on two leaves by LACP and an Ethernet segment: who tells what, what comes twice, and what fails over.

The judges are FRR's own show commands, the kernel's tables, ping and tshark. One fabric, since each takes a while.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.kernel.probe import load_bonding
from tests.fabric import snapshot
from tests.fabric.command import TOPOLOGIES, rocelab, rocelab_json

from .on_the_wire import captured, fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.vm, pytest.mark.long]

LEAVES: Final = ("leaf1", "leaf2", "leaf3")
ADDRESS: Final = {"h1": "10.1.10.1", "h2": "10.1.10.2", "h3": "10.1.10.3"}
MAC: Final = {"h1": "02:1a:00:05:00:01", "h2": "02:1a:00:06:00:01", "h3": "02:1a:00:07:00:01"}
VTEP: Final = {leaf: f"10.252.0.{leaf[-1]}" for leaf in LEAVES}
ESI: Final = "03:02:1a:00:00:00:02:00:00:01"
MTU: Final = 4300
ALL: Final = "10.1.10.255"
SENT: Final = 5


@pytest.fixture(scope="module", autouse=True)
def fabric() -> Iterator[None]:
    load_bonding()  # a module stays, and brings tls with it
    before = snapshot.take()
    rocelab("up", TOPOLOGIES / "multihomed.yaml")
    for host, other in (("h1", "h3"), ("h2", "h1"), ("h3", "h2")):  # a leaf tells the MAC of a host that has spoken
        said(host, "ping", "-nqc1", "-W2", ADDRESS[other], check=False)
    yield
    rocelab("down", "--fabric", "multihomed")
    assert before.differences(snapshot.take()) == []


def said(node: str, *argv: str, check: bool = True) -> str:
    words = ["ip", "netns", "exec", f"rl-multihomed.{node}", *argv]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done.stdout


def frr(leaf: str, command: str) -> Any:
    sockets = f"/run/rocelab/fabrics/multihomed/nodes/{leaf}"
    return json.loads(said(leaf, "vtysh", "--vty_socket", sockets, "-c", command))


def until(true: Callable[[], bool], what: str, patience: float = 60) -> None:
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, what


def forwarders() -> dict[str, bool]:
    """Whether each leaf of the segment says that it forwards what is flooded."""
    found = {}
    for leaf in ("leaf1", "leaf2"):
        (segment,) = frr(leaf, "show evpn es json")
        assert segment["esi"] == ESI
        found[leaf] = "nonDF" not in segment["flags"]
    return found


def is_used(leaf: str, leg: str) -> bool:
    """Whether LACP has agreed with a partner, and not come back to its defaults, to send by a leg."""
    (port,) = json.loads(said(leaf, "ip", "-json", "-details", "link", "show", leg))
    state = port["linkinfo"]["info_slave_data"]["ad_actor_oper_port_state_str"]
    return "distributing" in state and "defaulted" not in state


def ways_to_h1() -> set[str]:
    """The VTEPs by which leaf3's kernel sends to h1: those of the group that h1's MAC has, or none."""
    database = json.loads(said("leaf3", "bridge", "-json", "fdb", "show", "dev", "vni10010"))
    groups = {entry["nhid"] for entry in database if entry["mac"] == MAC["h1"] and "nhid" in entry}
    hops = {hop["id"]: hop for hop in json.loads(said("leaf3", "ip", "-json", "nexthop", "show"))}
    return {hops[member["id"]]["gateway"] for group in groups for member in hops[group].get("group", ())}


def flooded(tmp_path: Path, source: str) -> dict[str, int]:
    """How many of ``SENT`` broadcasts from ``source`` come to each leg of h1; what h1 sends itself is left out."""
    with ExitStack() as stack:
        for leg in ("eth1", "eth2"):
            stack.enter_context(captured("rl-multihomed.h1", leg, tmp_path / f"{leg}.pcap", "-Q", "in"))
        said(source, "ping", "-bnqc", str(SENT), "-i.2", "-W1", ALL, check=False)
    shown = f"icmp.type == 8 && ip.dst == {ALL} && ip.src == {ADDRESS[source]}"
    return {leg: len(fields(tmp_path / f"{leg}.pcap", shown, "ip.src")) for leg in ("eth1", "eth2")}


def silence(tmp_path: Path, begin: Callable[[], object]) -> float:
    """The longest time, in seconds, without an answer of h1 to h3, while something begins."""
    file = tmp_path / "answers.pcap"
    with captured("rl-multihomed.h3", "eth1", file, "icmp"):
        argv = ["ip", "netns", "exec", "rl-multihomed.h3", "ping", "-nqi.01", "-W1", ADDRESS["h1"]]
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as ping:
            time.sleep(1)  # of answers before
            begin()
            time.sleep(8)  # and after: more than BFD takes
            ping.terminate()
    times = [float(at) for (at,) in fields(file, "icmp.type == 0", "frame.time_epoch")]
    assert len(times) > SENT
    return max(later - earlier for earlier, later in itertools.pairwise(times))


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


def test_each_leaf_tells_of_its_segments_and_macs_and_nothing_else() -> None:
    """RFC 7432: type 1 of the segment and of the network, 2 of MACs, 3, and 4; each by its teller and segment."""
    wanted = {(3, leaf, "") for leaf in LEAVES}
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
    assert kinds == {(1, ESI), (2, ESI), (2, ""), (3, ""), (4, ESI)}


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
