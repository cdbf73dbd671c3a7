"""Packets of a sweep through a router in namespaces: which come, by size and flow; nothing is left behind."""

import os
import socket
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address

import pytest

from lab.kernel.packets.sweep import SMALL, SweepFlow, Tally, sweep
from lab.kernel.process import netns
from lab.kernel.process.netns import Namespace
from lab.wire.udp_ports import IPV4_TYPE
from tests.fabric import snapshot
from tests.inside import entered

pytestmark = pytest.mark.fabric
HERE, THERE, NOWHERE = map(IPv4Address, ("10.1.0.1", "10.2.0.1", "10.3.0.1"))
ROUNDS, EVERY, LARGE = 20, 5, 9000


@pytest.fixture
def spaces() -> Iterator[tuple[Namespace, Namespace, Namespace]]:
    """One who sends, a router that has a black hole as well, and one who receives."""
    names = [f"rv-{os.getpid()}-{name}" for name in ("src", "mid", "dst")]
    netns.create(names)
    try:
        src, mid, dst = map(Namespace, names)
        for space, name, address in ((src, "a", HERE), (dst, "b", THERE)):
            mid.run(["ip", "link", "add", "name", name, "mtu", "9000", "type", "veth", "peer", "name", "eth1",
                     "netns", space.name])  # fmt: skip
            mid.run(["ip", "address", "add", f"{address + 1}/24", "dev", name])
            mid.run(["ip", "link", "set", "dev", name, "up"])
            space.run(["ip", "address", "add", f"{address}/24", "dev", "eth1"])
            space.run(["ip", "link", "set", "eth1", "mtu", "9000", "up"])
            space.run(["ip", "route", "add", "default", "via", str(address + 1)])
        mid.run(["ip", "route", "add", "blackhole", f"{NOWHERE}/32"])
        mid.run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])
        yield src, mid, dst
    finally:
        netns.delete(names)


def flow(spaces: tuple[Namespace, Namespace, Namespace], dst: IPv4Address, port: int) -> SweepFlow:
    return SweepFlow(spaces[0], spaces[2], "eth1", HERE, dst, port)


def swept(*flows: SweepFlow) -> list[Tally]:
    found = sweep(flows, LARGE, ROUNDS, EVERY, 0.001)
    assert found is not None
    return found


def test_all_of_a_flow_comes_and_nothing_of_one_to_nowhere(spaces: tuple[Namespace, Namespace, Namespace]) -> None:
    before = snapshot.take()
    there, nowhere = swept(flow(spaces, THERE, 61000), flow(spaces, NOWHERE, 61001))
    assert there == Tally(20, 20, 4, 4)
    assert (nowhere.sent, nowhere.came, nowhere.large_came) == (20, 0, 0)
    assert before.differences(snapshot.take()) == []


def test_packets_to_the_port_of_a_bridge_are_those_that_the_ip_stack_receives(
    spaces: tuple[Namespace, Namespace, Namespace],
) -> None:
    """The host's address is that of the bridge. A disabled port discards packets, which do not arrive."""
    host = spaces[2]
    for line in ("link add br0 type bridge", "link set br0 mtu 9000 up", f"address del {THERE}/24 dev eth1",
                 "link set eth1 master br0", f"address add {THERE}/24 dev br0",
                 f"route add default via {THERE + 1}"):  # fmt: skip
        host.run(["ip", *line.split()])
    spaces[0].run(["ping", "-c1", "-w30", str(THERE)])
    assert swept(flow(spaces, THERE, 61000)) == [Tally(20, 20, 4, 4)]
    host.run(["bridge", "link", "set", "dev", "eth1", "state", "0"])
    (disabled,) = swept(flow(spaces, THERE, 61000))
    assert (disabled.sent, disabled.came) == (20, 0)


def test_packets_of_ipv6_are_counted_and_timed(spaces: tuple[Namespace, Namespace, Namespace]) -> None:
    here, there, nowhere = map(IPv6Address, ("fd01::1", "fd02::1", "fd03::1"))
    for space, name, address in ((spaces[0], "a", here), (spaces[2], "b", there)):
        spaces[1].run(["ip", "-6", "address", "add", f"{address + 1}/64", "dev", name, "nodad"])
        space.run(["ip", "-6", "address", "add", f"{address}/64", "dev", "eth1", "nodad"])
        space.run(["ip", "-6", "route", "add", "default", "via", str(address + 1)])
    spaces[1].run(["sysctl", "-qw", "net.ipv6.conf.all.forwarding=1"])
    # A router asks for neighbours from its link-local address, which a new link has only after a second (RFC 4862).
    spaces[0].run(["ping", "-6", "-c1", "-w30", str(there)])
    found = swept(*(SweepFlow(spaces[0], spaces[2], "eth1", here, dst, 61000) for dst in (there, nowhere)))
    assert (found[0], found[1].came) == (Tally(20, 20, 4, 4), 0)
    assert len(found[0].delays) == ROUNDS


@pytest.mark.parametrize("end", [(1, "b"), (2, "eth1")], ids=["sends", "receives"])
def test_large_ones_do_not_pass_a_smaller_mtu(
    spaces: tuple[Namespace, Namespace, Namespace], end: tuple[int, str]
) -> None:
    """At the sending end the router reports it by ICMP, at the receiving end none does: the sweep finds the same."""
    spaces[end[0]].run(["ip", "link", "set", "dev", end[1], "mtu", "1500"])
    for _ in range(2):  # ICMP has come by then, and the sender goes on all the same
        assert swept(flow(spaces, THERE, 61000)) == [Tally(20, 20, 4, 0)]


def test_what_the_sender_cannot_send_was_not_sent(spaces: tuple[Namespace, Namespace, Namespace]) -> None:
    spaces[0].run(["ip", "link", "set", "eth1", "mtu", "1500"])
    assert swept(flow(spaces, THERE, 61000)) == [Tally(20, 20, 0, 0)]


@pytest.mark.timeout(60)
def test_a_sweep_ends_where_the_sender_s_port_sends_nothing(
    spaces: tuple[Namespace, Namespace, Namespace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port has 100 bytes per second, like one that a peer pauses: the socket's buffer is full of waiting packets.

    What no longer fits into it was not sent.
    """
    slow = ["tbf", "rate", "800bit", "burst", "9100", "limit", "10mb"]
    spaces[0].run(["tc", "qdisc", "add", "dev", "eth1", "root", *slow])
    monkeypatch.setattr("lab.kernel.packets.sweep._PATIENCE", 0.1)
    found = sweep([flow(spaces, THERE, 61000)], LARGE, 100, 1, 0.0)
    assert found is not None
    assert 0 < found[0].large_sent < 100
    assert found[0].large_came < found[0].large_sent


def test_a_source_port_in_use_is_an_error(spaces: tuple[Namespace, Namespace, Namespace]) -> None:
    with entered(spaces[0]), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind((str(HERE), 61000))
        with pytest.raises(OSError, match="in use"):
            sweep([flow(spaces, THERE, 61000)], LARGE, ROUNDS, EVERY, 0.0)


def test_nothing_comes_where_the_receiver_s_link_is_down(spaces: tuple[Namespace, Namespace, Namespace]) -> None:
    spaces[2].run(["ip", "link", "set", "eth1", "down"])
    (tally,) = swept(flow(spaces, THERE, 61000))
    assert (tally.sent, tally.came, tally.large_came) == (20, 0, 0)


@pytest.mark.parametrize("change", [("set", "eth1", "down"), ("del", "eth1")], ids=" ".join)
def test_what_came_until_the_receiver_s_link_went_down_counts(
    spaces: tuple[Namespace, Namespace, Namespace], change: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes after the first round, in which a packet of each size came.

    The kernel delivers a packet to the newest socket first: what the older witness has, the sweep's receiver has too.
    """
    changed: list[str] = []

    def pause(_seconds: float) -> None:
        if not changed:
            changed.extend(change)
            assert sorted(len(witness.recv(LARGE + 14)) for _ in range(2)) == [SMALL + 14, LARGE + 14]
            spaces[2].run(["ip", "link", *change])

    monkeypatch.setattr("lab.kernel.packets.sweep.time.sleep", pause)
    monkeypatch.setattr("lab.kernel.packets.sweep._PATIENCE", 0.1)
    with spaces[2].inside(ipv4_frames) as witness:
        (tally,) = swept(flow(spaces, THERE, 61000))
    assert (tally.sent, tally.came, tally.large_came) == (20, 1, 1)


def ipv4_frames() -> socket.socket:
    """A socket that receives the IPv4 packets of eth1."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    made.settimeout(60)
    made.bind(("eth1", IPV4_TYPE))
    return made
