"""TCP through a bridge with emulated ports: what waits there is sent, what is dropped there is dropped once."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from lab.dataplane.port_layout import Drop
from tests.vm.one_switch import SWITCH, Star, balanced, build, pfc, settle, star, waited

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.vm, pytest.mark.timeout(300)]

LOSSLESS: Final = 26 << 2
PRIORITY: Final = 3
WINDOW: Final = 10
"""Segments that TCP sends before the first ACK (RFC 6928)."""
SIZE: Final = 40_000
"""Bytes of a stream: more than its first window."""
LONGEST: Final = 0xFFFF
"""Quanta of a pause: 3.4 s at 10 Mb/s, longer than TCP waits before it sends again."""
_HOSTS: Final = {"h1": "192.0.2.1", "h2": "192.0.2.2"}
_TCP_MAXSEG: Final = 1000


@pytest.fixture(scope="module")
def fabric() -> Iterator[Star]:
    """A switch that bridges: a router would take a packet from its sender's socket by itself."""
    with build(star(2, "10Mbit", 1500)) as built:
        switch = ["link add br0 type bridge", "link set br0 up", *(f"link set swp{n} master br0" for n in (1, 2))]
        built.namespaces[SWITCH].run(["ip", "-batch", "-"], stdin="\n".join(switch))
        for host, peer in (("h1", "h2"), ("h2", "h1")):
            mac = built.plan[peer].interfaces["eth1"].mac
            neighbour = f"neigh replace {_HOSTS[peer]} lladdr {mac} dev eth1 nud permanent"
            lines = [f"address add {_HOSTS[host]}/24 dev eth1", neighbour]
            built.namespaces[host].run(["ip", "-batch", "-"], stdin="\n".join(lines))
        yield built


@contextmanager
def connected(fabric: Star) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection in the lossless class: the sockets of h1 and of h2."""
    with (
        fabric.open_socket("h2", socket.AF_INET, socket.SOCK_STREAM) as listener,
        fabric.open_socket("h1", socket.AF_INET, socket.SOCK_STREAM) as source,
    ):
        listener.bind((_HOSTS["h2"], 0))
        listener.listen()
        source.setsockopt(socket.SOL_IP, socket.IP_TOS, LOSSLESS)
        source.setsockopt(socket.SOL_TCP, socket.TCP_MAXSEG, _TCP_MAXSEG)
        source.settimeout(20)
        source.connect(listener.getsockname())
        target, _ = listener.accept()
        with target:
            target.settimeout(20)
            yield source, target


def pause(fabric: Star, quanta: int) -> None:
    """h2 pauses the class of the connection, or lets it go on (0); the switch has heard it."""
    count = fabric.live(SWITCH, "swp2")["priority"]["rx_pause" if quanta else "rx_resume"]
    heard = int(count[PRIORITY])
    with fabric.wire("h2") as wire:
        wire.send(pfc({PRIORITY: quanta}))
    waited(lambda: int(count[PRIORITY]) > heard, "the PFC frame")


def received(target: socket.socket) -> int:
    """Read until the stream has come whole, and return its bytes."""
    count = 0
    while count < SIZE:
        count += len(target.recv(SIZE - count))
    return count


def test_what_waits_in_a_bridge_is_no_longer_unsent(fabric: Star) -> None:
    """TCP has two packets in a NIC, and the rest of its window in the network (tcp_small_queue_check)."""
    waiting = fabric.live(SWITCH, "swp2")["queue"]["depth_packets"]
    with connected(fabric) as (source, target):
        pause(fabric, LONGEST)
        source.sendall(bytes(SIZE))
        waited(lambda: int(waiting[PRIORITY]) >= WINDOW, "a window in the queue")
        pause(fabric, 0)
        assert received(target) == SIZE
    settle(fabric)


def test_what_a_full_bridge_drops_is_dropped_once(fabric: Star) -> None:
    """Each packet of the sender is offered to the queue once: a packet is not sent again for its clone."""
    room = "buffer.groups.3.xoff=3KB", "buffer.groups.3.headroom=2KB"
    fabric.configure(SWITCH, "pfc.tx=false", *room)
    before, came = fabric.counters(SWITCH, "swp2")["queue"][PRIORITY], fabric.counters("h1")["queue"][PRIORITY]
    with connected(fabric) as (source, target):
        pause(fabric, LONGEST)
        source.sendall(bytes(SIZE))
        drops = fabric.live(SWITCH, "swp2")["queue"]["drop_packets"]
        waited(lambda: int(drops[PRIORITY][Drop.HEADROOM]) > int(before["drop_packets"][Drop.HEADROOM]), "drops")
        pause(fabric, 0)
        assert received(target) == SIZE
    settle(fabric)
    fabric.configure(SWITCH)
    after, sent = fabric.counters(SWITCH, "swp2"), fabric.counters("h1")["queue"][PRIORITY]
    assert balanced(after)
    offered = int(after["queue"][PRIORITY]["offered_packets"] - before["offered_packets"])
    assert offered == int(sent["sent_packets"] - came["sent_packets"])
