"""Every kind of fault that needs no VM, on a live fabric: it does what it says, and healing leaves nothing behind.

Judges: what ip, tc and vtysh print of every node before and after, ping, and captured frames.
"""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import pytest

from lab.backends import lifecycle
from lab.backends.fabric_state import FabricState
from lab.faults import fault_engine
from lab.faults.fault_request import FaultRequest, parse_words, understand
from lab.faults.ledger import Entry, Ledger
from lab.kernel.netlink import links
from lab.kernel.process import tuning
from lab.kernel.process.netns import Namespace
from tests.fabric import snapshot
from tests.fabric.command import TOPOLOGIES, hosts, rocelab, rocelab_json, running
from tests.patience import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.fabric, pytest.mark.backends]

NAME: Final = "faulty"
SWITCHES: Final = ("spine1", "spine2", "leaf1", "leaf2")
SERVERS: Final = ("h1", "h2", "h3", "h4")
_SHOWN: Final = f"""
ip -o link | sed 's/ promiscuity.*//'
ip -o addr | sed 's/valid_lft.*//'
ip rule; ip -6 rule
ip route show table all
ip -6 route show table all | sed 's/ expires [0-9a-z]*//'
ip neigh show nud permanent; tc qdisc
{snapshot.TC_FILTERS}
sysctl net.ipv4.fib_multipath_hash_policy net.ipv6.fib_multipath_hash_policy
"""


@pytest.fixture(scope="module")
def whole() -> Iterator[dict[str, str]]:
    """A fabric's state before anything has been broken."""
    rocelab("up", TOPOLOGIES / "clos-2x2.yaml", "--name", NAME, "--no-rdma")
    yield state()
    rocelab("down", "--fabric", NAME)
    assert not FabricState(NAME).faults.exists()


@pytest.fixture(autouse=True)
def healed(whole: dict[str, str]) -> Iterator[None]:
    """A daemon that is started again has yet to learn its routes: the next test is not to begin before."""
    yield
    fault_engine.heal(lifecycle.open_fabric(NAME))
    until_state(whole)


def node(name: str) -> Namespace:
    return Namespace(f"rl-{NAME}.{name}", FabricState(NAME).groups / name)


def state() -> dict[str, str]:
    """All of every node that a fault could have changed."""
    with ThreadPoolExecutor() as readers:
        return dict(zip((*SWITCHES, *SERVERS), readers.map(_state, (*SWITCHES, *SERVERS)), strict=True))


def _state(name: str) -> str:
    shown = said(name, "sh", "-c", _SHOWN)
    if name in SWITCHES:
        shown += said(
            name, "vtysh", "--vty_socket", str(FabricState(NAME).node_directory(name)), "-c", "show running"
        )
    return "\n".join(sorted(shown.splitlines()))


def until_state(expected: dict[str, str]) -> None:
    found: dict[str, str] = {}

    def same() -> bool:
        found.update(state())
        return found == expected

    try:
        until(same)
    finally:
        assert found == expected


def pings(source: str, target: str) -> bool:
    return node(source).run(["ping", "-c", "1", "-W", "1", target], check=False).returncode == 0


H3: Final = "10.0.0.5"
CAPTURE: Final = ("timeout", "5", "tcpdump", "-c3", "-eni", "swp3", "ether[12:2]=0x8808")
BEHIND_LEAF1: Final = (("spine1", "swp1"), ("spine2", "swp1"), ("h1", "eth1"), ("h2", "eth1"))
KINDS: Final = {
    "link-down leaf1:swp1": lambda: not interface("leaf1", "swp1", "UP"),
    "link-down h1": lambda: not pings("h1", H3),
    "link-cut h1": lambda: not pings("h1", H3),
    "link-cut leaf1--spine1": lambda: not session("spine1", "swp1"),
    "link-loss h1 probability=100%": lambda: not pings("h1", H3),
    "link-corrupt h1--leaf1 probability=100%": lambda: not pings("h1", H3),
    "link-mtu leaf1--spine1 mtu=1500": lambda: "mtu 1500" in said("spine1", "ip", "link", "show", "swp1"),
    "cable-swapped leaf1:swp3,leaf1:swp4": lambda: not pings("h1", H3) and at_far_end("leaf1", "swp3") == "h2",
    "cable-swapped leaf1:swp1,leaf1:swp2": lambda: pings("h1", H3) and at_far_end("leaf1", "swp1") == "spine2",
    "power-lost leaf1": lambda: not any(interface(node, port, "LOWER_UP") for node, port in BEHIND_LEAF1),
    "daemon-killed leaf1": lambda: not session("spine1", "swp1"),
    "daemon-killed leaf1 daemon=bfdd": lambda: "bfdd" not in comms("leaf1"),
    "daemon-killed leaf1 daemon=zebra": lambda: "zebra" not in comms("leaf1"),
    "daemon-stopped leaf1": lambda: not session("spine1", "swp1"),
    "frr-config leaf1 'lines=router bgp; no neighbor swp1 interface peer-group FABRIC'": lambda: (
        not session("spine1", "swp1")
    ),
    "one-path leaf1": lambda: "nexthop" not in said("leaf1", "ip", "route", "show", "10.0.0.4/31"),
    "ecmp-hash leaf1 policy=l3": lambda: said("leaf1", "sysctl", "-n", "net.ipv4.fib_multipath_hash_policy") == "0\n",
    "static-route leaf1 to=h3": lambda: not pings("h1", H3) and pings("h2", "10.0.0.7"),
    "static-route spine1 to=h3 via=leaf1": lambda: "inet6 fe80:" in said("spine1", "ip", "route", "get", H3),
    "static-route leaf1 to=h3 via=spine1,spine2": lambda: (
        said("leaf1", "ip", "route", "show", H3).count("nexthop") == 2
    ),
    "static-route leaf1 to=h3 via=spine1,spine2 buckets=8": lambda: (
        said("leaf1", "ip", "nexthop", "bucket").count(" index ") == 8 and pings("h1", H3)
    ),
    "routing-loop leaf1--spine1 to=h3": lambda: (
        "inet6 fe80:" in said("leaf1", "ip", "route", "get", H3)
        and "inet6 fe80:" in said("spine1", "ip", "route", "get", H3)
        and not pings("h1", H3)
    ),
    "wrong-address h1 address=10.0.0.9/31": lambda: not pings("h3", "10.0.0.1"),
    "wrong-gateway h1 gateway=10.0.0.7": lambda: not pings("h1", H3),
    "default-route-lost h1": lambda: not pings("h1", H3) and pings("h1", "10.0.0.0"),
    "stale-neighbour leaf1:swp3 of=10.0.0.1": lambda: not pings("h3", "10.0.0.1"),
    "global-pause h1 every=5ms": lambda: "0x8808" in said("leaf1", *CAPTURE),
    "malformed-pfc h1 what=vector": lambda: "0x8808" in said("leaf1", *CAPTURE),
    "broadcast-storm h1 size=1000": lambda: "> ff:ff:ff" in said("leaf1", *CAPTURE[:-1], "ether[12:2]=0x88b5"),
}  # fmt: skip
AGAIN: Final = {
    "link-cut h1", "link-down h1", "link-mtu leaf1--spine1 mtu=1500", "daemon-killed leaf1 daemon=bfdd",
    "daemon-killed leaf1 daemon=zebra", "static-route spine1 to=h3 via=leaf1",
    "static-route leaf1 to=h3 via=spine1,spine2", "malformed-pfc h1 what=vector",
}  # fmt: skip
"""Faults that CI leaves to the ``long`` tests: it tries these kinds at another place, or tries a similar kind."""


def said(name: str, *words: str) -> str:
    return node(name).run(list(words), check=False).stdout


def interface(name: str, what: str, flag: str) -> bool:
    return f"{flag}," in said(name, "ip", "-o", "link", "show", what) or f",{flag}>" in said(
        name, "ip", "-o", "link", "show", what
    )


def at_far_end(name: str, what: str) -> str:
    """The node at the other end of an interface's veth pair."""
    (shown,) = json.loads(said(name, "ip", "-d", "-j", "link", "show", what))
    with_peer = {each: json.loads(said(each, "ip", "-j", "link")) for each in (*SWITCHES, *SERVERS)}
    return next(each for each, links in with_peer.items() if shown["link_index"] in {one["ifindex"] for one in links})


def session(name: str, what: str) -> bool:
    """Whether a switch has a BGP session there."""
    folder = str(FabricState(NAME).node_directory(name))
    shown = json.loads(said(name, "vtysh", "--vty_socket", folder, "-c", "show bgp summary json"))
    return bool(shown["ipv4Unicast"]["peers"].get(what, {}).get("state") == "Established")


def comms(name: str) -> str:
    return said(name, "sh", "-c", f"ps -o comm= -p $(ip netns pids rl-{NAME}.{name} | tr '\n' ,)1")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=[pytest.mark.long] * (fault in AGAIN)) for fault in KINDS]
)
def test_a_fault_is_seen_and_its_healing_leaves_no_difference(fault: str, whole: dict[str, str]) -> None:
    kind, place, *words = shlex.split(fault)
    entry = fault_engine.inject(lifecycle.open_fabric(NAME), FaultRequest(kind, place, parse_words(words)))
    until(KINDS[fault])
    assert fault_engine.running(lifecycle.open_fabric(NAME)) == (entry,)
    assert fault_engine.heal(lifecycle.open_fabric(NAME), [entry.number]) == [entry]
    until_state(whole)


@pytest.mark.parametrize("moves", range(4))
def test_cables_whose_swap_or_healing_is_interrupted_are_put_back(
    moves: int, whole: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The swap ends after each of its four moves of an interface, and the healing after its first one."""
    fabric = lifecycle.open_fabric(NAME)
    left = moves

    def some(*args: object, **named: object) -> None:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        move(*args, **named)  # type: ignore[arg-type]

    move = links.move
    request = FaultRequest("cable-swapped", "leaf1:swp1,leaf1:swp3", {})
    fault = understand(fabric, request)
    before = fault.look()
    entry = Ledger.of(fabric.state).begin(
        Entry(number=0, kind=request.kind, place=request.place, parameters={}, before=before)
    )
    with monkeypatch.context() as broken:
        broken.setattr(links, "move", some)
        with pytest.raises(KeyboardInterrupt):
            fault.inject(before)
        left = 1
        with pytest.raises(KeyboardInterrupt):
            fault.heal(before)
    assert fault_engine.heal(lifecycle.open_fabric(NAME), [entry.number]) == [entry]
    until_state(whole)


def test_swapped_cables_keep_the_sysctls_of_their_ports() -> None:
    """The kernel gives an interface the defaults of the namespace that it enters."""
    values = {"net/ipv4/conf/swp3/rp_filter": "2", "net/ipv4/neigh/swp3/mcast_solicit": "5"}
    leaf = node("leaf1")
    before = leaf.inside(lambda: tuning.read_sysctls(values))
    leaf.inside(lambda: tuning.write_sysctls(values))
    request = FaultRequest("cable-swapped", "leaf1:swp3,leaf1:swp4", {})
    entry = fault_engine.inject(lifecycle.open_fabric(NAME), request)
    assert leaf.inside(lambda: tuning.read_sysctls(values)) == values
    fault_engine.heal(lifecycle.open_fabric(NAME), [entry.number])
    assert leaf.inside(lambda: tuning.read_sysctls(values)) == values
    leaf.inside(lambda: tuning.write_sysctls(before))


def test_what_hosts_were_told_of_a_smaller_mtu_is_forgotten_with_its_healing() -> None:
    """The kernel would keep it for ten minutes (net.ipv4.route.mtu_expires), and large packets would find no way."""

    def passes() -> bool:
        return node("h3").run(["ping", "-c1", "-W1", "-Mdo", "-s4000", "10.0.0.1"], check=False).returncode == 0

    assert passes()
    fault_engine.inject(lifecycle.open_fabric(NAME), FaultRequest("link-mtu", "h1--leaf1", {"mtu": "1500"}))
    until(lambda: not passes() and "mtu 1500" in said("h3", "ip", "route", "get", "10.0.0.1"))
    fault_engine.heal(lifecycle.open_fabric(NAME))
    assert "mtu" not in said("h3", "ip", "route", "get", "10.0.0.1")
    until(passes)


def test_a_fabric_whose_daemon_has_died_is_recorded_and_diagnosed() -> None:
    fault_engine.inject(lifecycle.open_fabric(NAME), FaultRequest("daemon-killed", "leaf1", {}))
    until(lambda: "bgpd" not in comms("leaf1"))
    said = rocelab("diagnose", "--fabric", NAME, "--seconds", "1", "--json", expect=1).stdout
    found = json.loads(said)["causes"]
    assert [(each["cause"], each["places"]) for each in found] == [("daemon-killed", ["leaf1"])]


def test_a_link_flaps_by_the_clock_and_is_up_at_the_end(whole: dict[str, str]) -> None:
    done = rocelab_json("fault", "inject", "link-down", "h1", "--every", "300ms", "--for", "100ms", "--times", "3")
    assert (done["came"], done["interrupted"]) == (3, False)
    downs = node("leaf1").run(["ip", "-j", "-d", "-s", "-s", "link", "show", "swp3"]).stdout
    assert json.loads(downs)[0]["stats64"]["tx"]["carrier_changes"] >= 6
    until_state(whole)


def test_ctrl_c_heals(whole: dict[str, str]) -> None:
    with running("fault", "inject", "link-cut", "h1", "--for", "600s", "--json") as command:
        until(lambda: len(rocelab_json("fault", "ls")) == 2)
        command.send_signal(signal.SIGINT)
        assert command.wait(PATIENCE) == 0
    assert rocelab_json("fault", "ls") == []
    assert state() == whole


def test_the_next_command_heals_what_a_killed_one_left(whole: dict[str, str]) -> None:
    with running("fault", "inject", "link-cut", "h1", "--for", "600s") as command:
        until(lambda: len(Ledger.of(FabricState(NAME)).entries()) == 2)
        command.kill()
        command.wait(PATIENCE)
    assert "healed link-cut at h1, whose command was killed" in rocelab("status").stderr
    assert state() == whole


def test_what_runs_in_the_background_is_ended_by_healing(whole: dict[str, str]) -> None:
    rocelab("fault", "inject", "link-cut", "h1", "--every", "300ms", "--for", "200ms", "--background")
    until(lambda: any(each["timing"] for each in rocelab_json("fault", "ls")))
    rocelab("fault", "heal", "--all")
    assert rocelab_json("fault", "ls") == []
    assert state() == whole


def senders() -> list[str]:
    found = subprocess.run(["pgrep", "-f", "lab.faults.sender"], capture_output=True, text=True, check=False)
    return found.stdout.split()


def test_nothing_of_a_fabric_outlives_it_with_its_faults(tmp_path: Path) -> None:
    name = "short"
    rocelab("up", hosts(tmp_path, name, "h1", "h2"))
    try:
        rocelab("fault", "inject", "global-pause", "h1", "--fabric", name)
        rocelab("fault", "inject", "link-loss", "h2", "probability=50%", "--fabric", name)
        senders = subprocess.run(
            ["pgrep", "-f", "lab.faults.sender"], capture_output=True, text=True, check=False
        ).stdout
        assert len(senders.split()) == 1
    finally:
        rocelab("down", "--fabric", name)
    assert not subprocess.run(
        ["pgrep", "-f", "lab.faults.sender"], capture_output=True, text=True, check=False
    ).stdout
    assert not FabricState(name).directory.exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("link-dawn", "h1"), "there is no kind of fault 'link-dawn': did you mean 'link-down'?"),
        (("link-down", "h9"), "link-down: no node or tier 'h9'"),
        (("link-down", "h1", "--for", "x"), "--for: 'x' is not a time"),
        (("link-rate", "h1", "rate=25Mbit"), "has no lossless ports"),
        (("link-down", "h1", "--background"), "--background needs --after or --for"),
        (("cable-swapped", "leaf1:swp3"), "leaf1:swp3 is not two ports of one switch"),
        (("cable-swapped", "leaf1:swp3,leaf2:swp3"), "is not two ports of one switch"),
        (("process-stopped", "h1"), "no program ib_... runs in h1"),
        (("pause-storm", "h1"), "has no lossless ports: write `qos: lab` into its topology"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_broken(words: tuple[str, ...], told: str) -> None:
    done = rocelab("fault", "inject", *words, expect=2)
    assert told in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert Ledger.of(FabricState(NAME)).entries() == ()
