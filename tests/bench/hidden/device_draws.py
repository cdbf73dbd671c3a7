"""Faults of interfaces and RDMA devices: MTUs, addresses, MACs, GIDs, carriers, queues in place of the port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.rdma.rxe import device_name
from tests.bench.hidden.hidden_fault import Command, Harm, HiddenFault, Injected

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.bench.hidden.ground import Ground


def mtu(ground: Ground, chance: random.Random) -> HiddenFault:
    """One end of a link, or both, have a smaller MTU."""
    port, size = chance.choice((*ground.used_ports, *ground.nics)), chance.choice((1400, 2000, 3000, 4000))
    changed = Injected("link-mtu", port, {"mtu": str(size)})
    pairs = ground.pairs_through(port, chance)
    return HiddenFault("mtu", frozenset({"mtu"}), (ground.link(port),), (changed,), Harm.LOSS, pairs)


def mac(ground: Ground, chance: random.Random) -> HiddenFault:
    """A NIC or a switch port does not resolve addresses: ARP is off, established traffic goes on for a while."""
    port = chance.choice((*ground.nics, *(() if ground.overlay else map(ground.peers.__getitem__, ground.nics))))
    node, _, interface = port.partition(":")
    at = ("ip", "link", "set", "dev", interface, "arp")
    changed = Command(node, (*at, "off"), (*at, "on"))
    pairs = ground.pairs_through(port, chance)
    return HiddenFault("arp-off", frozenset({"neighbour"}), (port,), (changed,), Harm.LOSS, pairs)


def another_address(ground: Ground, chance: random.Random) -> HiddenFault:
    """A NIC has one address more, in a network that no switch has: its GID table has one entry more."""
    nic = chance.choice(ground.nics)
    host, _, interface = nic.partition(":")
    words = (f"10.77.{chance.randrange(256)}.{chance.randrange(1, 255)}/24", "dev", interface)
    changed = Command(host, ("ip", "address", "add", *words), ("ip", "address", "del", *words))
    pairs = ground.pairs_through(nic, chance)
    return HiddenFault("another-address", frozenset({"address"}), (nic,), (changed,), Harm.NOTHING, pairs)


def shared_address(ground: Ground, chance: random.Random) -> HiddenFault:
    """A host has the address of another host on its loopback, and so accepts packets for that host."""
    one, other = chance.sample(ground.nics, 2)
    host = one.partition(":")[0]
    words = (f"{ground.address(other)}/32", "dev", "lo")
    changed = Command(host, ("ip", "address", "add", *words), ("ip", "address", "del", *words))
    pairs = ground.pairs_through(other, chance)
    return HiddenFault("shared-address", frozenset({"address"}), (host,), (changed,), Harm.NOTHING, pairs)


def rdma_device(ground: Ground, chance: random.Random) -> HiddenFault:
    """The RDMA device of a NIC that no transfer uses is deleted."""
    pairs = ground.pairs_through(chance.choice(ground.nics), chance, count=1)
    idle = [nic for nic in ground.nics if not any(nic in pair for pair in pairs)]
    nic = chance.choice(idle)
    host, _, interface = nic.partition(":")
    device = device_name(ground.topology.name, host, interface)
    add = ("rdma", "link", "add", device, "type", "rxe", "netdev", interface)
    changed = Command(host, ("rdma", "link", "delete", device), add)
    return HiddenFault("rdma-device", frozenset({"rdma-device"}), (nic,), (changed,), Harm.LOSS, pairs)


def carrier(ground: Ground, chance: random.Random) -> HiddenFault:
    """A port between switches is shut for the whole observation."""
    port = chance.choice([end for end in ground.switch_ports if ground.peers[end] in ground.switch_ports])
    changed = Injected("link-down", port, {})
    pairs = ground.pairs_through(port, chance)
    return HiddenFault("carrier", frozenset({"link-down"}), (ground.link(port),), (changed,), Harm.SLOW, pairs)


def another_queue(ground: Ground, chance: random.Random) -> HiddenFault:
    """A queueing discipline of Linux stands in place of a port's queues."""
    port = chance.choice((*ground.used_ports, *ground.nics))
    node, _, interface = port.partition(":")
    tbf = ("tbf", "rate", f"{chance.choice((5, 20, 50))}mbit", "burst", "20kb", "latency", "40ms")
    late = ("netem", "delay", f"{chance.choice((2, 10))}ms")
    lossy = ("netem", "loss", f"{chance.choice((1, 5, 20))}%")
    queue = chance.choice((tbf, late, lossy, ("pfifo", "limit", "5")))
    changed = Command(node, ("tc", "qdisc", "replace", "dev", interface, "root", *queue))
    families = frozenset({"queue", "rate" if queue is tbf else "delay" if queue is late else "loss"})
    pairs = ground.pairs_through(port, chance)
    return HiddenFault("another-queue", families, (port, ground.link(port)), (changed,), Harm.LOSS, pairs)


DEVICE_DRAWS: Final[tuple[Callable[[Ground, random.Random], HiddenFault], ...]] = (
    mtu, mac, another_address, shared_address, rdma_device, carrier, another_queue,
)  # fmt: skip
