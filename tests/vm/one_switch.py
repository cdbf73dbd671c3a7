"""One switch and its hosts with emulated ports and nothing else: no router, no RDMA, every number set by the test."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from lab.backends.plumbing import Blueprint, plumb
from lab.dataplane import configure, port_maps, slot_budget
from lab.dataplane.numbering import Numbering, number_ports
from lab.kernel.bpf import pins
from lab.kernel.process import netns, time_source
from lab.kernel.process.netns import Namespace
from lab.model.addressing import plan_addresses
from lab.model.load import load_topology
from lab.model.qos.change import change
from lab.model.qos.resolve import resolve
from tests.inside import entered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lab.dataplane.port_layout import EventKind
    from lab.dataplane.port_maps import PortMaps
    from lab.model.addressing import NodePlan
    from lab.model.qos.port import NodeQos, PortQos
    from lab.model.topology import Topology

OVERHEAD: Final = 24
"""FCS, preamble and inter-frame gap: bytes on the wire that the kernel does not count (IEEE 802.3)."""
SWITCH: Final = "s1"
_serial = itertools.count()
_BLAST: Final = Path(__file__).with_name("blast.py")
_ETH_P_ALL: Final = 3
_PACKET_QDISC_BYPASS: Final = 20
_SOL_PACKET: Final = 263
T = TypeVar("T")


def star(hosts: int, rate: str, mtu: int, qos: str = "pfc-ecn") -> str:
    """The topology file of a switch with ``hosts`` hosts."""
    names = [f"h{number}" for number in range(1, hosts + 1)]
    nodes = "".join(f"  {name}: {{role: host, rdma: false}}\n" for name in names)
    links = "".join(f"  - ends: [{name}, {SWITCH}]\n" for name in names)
    return (
        f"name: one-{os.getpid()}-{next(_serial)}\ndefaults: {{rate: {rate}, mtu: {mtu}}}\nqos: {qos}\n"
        f"nodes:\n  {SWITCH}: {{role: leaf}}\n{nodes}links:\n{links}"
    )


@dataclass
class Star:
    """Hosts ``h1``.. on interfaces ``swp1``.. of the switch."""

    topology: Topology
    plan: Mapping[str, NodePlan]
    numbering: Numbering
    namespaces: Mapping[str, Namespace]
    maps: PortMaps
    built: Mapping[str, NodeQos]

    def address(self, host: str) -> str:
        """The IPv4 address of a host."""
        address = self.plan[host].interfaces["eth1"].address
        assert address is not None
        return str(address.ip)

    def id(self, node: str, interface: str = "eth1") -> int:
        """The id of a port."""
        return self.numbering.nodes[node].port(interface)

    def counters(self, node: str, interface: str = "eth1") -> Any:
        """The counters of a port as they are at this moment."""
        return self.maps.counters[self.id(node, interface)].copy()

    def live(self, node: str, interface: str = "eth1") -> Any:
        """The counters of a port, changing."""
        return self.maps.counters[self.id(node, interface)]

    def configure(self, node: str, *assignments: str, interfaces: tuple[str, ...] = ()) -> NodeQos:
        """Give a node's interfaces (all of them) what it was built with, and ``assignments`` over it."""
        role = self.topology.node(node).role
        names = interfaces or tuple(self.built[node].ports)
        qos = change(self.built[node], role, names, assignments) if assignments else self.built[node]
        ports = self.numbering.nodes[node]
        record = configure.node_record(qos, ports)
        for name in ("pool_bytes", "drain_rate"):
            self.maps.nodes[name][ports.number] = record[name]
        for name in names:
            mac = self.plan[node].interfaces[name].mac
            self.maps.config[ports.port(name)] = configure.port_record(qos.ports[name], ports, name, mac)
        return qos

    def port(self, node: str, interface: str = "eth1") -> PortQos:
        """What a port was built with."""
        return self.built[node].ports[interface]

    def open_socket(self, host: str, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """A socket that lives in a host's (or the switch's) namespace."""
        with entered(self.namespaces[host]):
            return socket.socket(family, kind, protocol)

    def introduce(self) -> None:
        """Add permanent neighbours for the switch and its hosts.

        When the kernel has resolved an address, new packets overtake those that waited for it. On a busy machine,
        neighbours that are not permanent fail when no answer comes for seconds.
        """
        known: dict[str, list[str]] = {node: [] for node in self.namespaces}
        for host in self.namespaces.keys() - {SWITCH}:
            own, port = self.plan[host].interfaces["eth1"], f"swp{host.removeprefix('h')}"
            mac = self.plan[SWITCH].interfaces[port].mac
            known[host].append(f"neigh replace {own.gateway} lladdr {mac} dev eth1 nud permanent")
            known[SWITCH].append(f"neigh replace {self.address(host)} lladdr {own.mac} dev {port} nud permanent")
        for node, lines in known.items():
            self.namespaces[node].run(["ip", "-batch", "-"], stdin="\n".join(lines))

    def wire(self, node: str, interface: str = "eth1") -> socket.socket:
        """A raw socket whose frames go straight to the wire, past the port's own queues."""
        raw = self.open_socket(node, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        raw.setsockopt(_SOL_PACKET, _PACKET_QDISC_BYPASS, 1)
        with entered(self.namespaces[node]):
            raw.bind((interface, 0))
        return raw

    def arrived(self, host: str) -> tuple[float, int]:
        """The moment to 2 ms, and the bytes on the wire that had by then brought a host what it has received.

        By the kernel's own count. ``ip`` says the same, but takes half a second to start on a busy emulated machine.
        """
        with entered(self.namespaces[host]):
            for _ in range(1000):
                began = time.monotonic()
                lines = Path("/proc/thread-self/net/dev").read_text(encoding="ascii").splitlines()
                if (ended := time.monotonic()) - began < 0.002:
                    break
            else:
                raise AssertionError("no 2 ms without an interruption")
        (figures,) = (line.split() for line in lines if line.lstrip().startswith("eth1:"))
        return ended, int(figures[1]) + OVERHEAD * int(figures[2])

    def events(self, since: int) -> list[Any]:
        """Events after the first ``since``, in order."""
        count = int(self.maps.event_count[0])
        return [self.maps.events[number % len(self.maps.events)].copy() for number in range(since, count)]

    @property
    def event_count(self) -> int:
        """How many events there have been."""
        return int(self.maps.event_count[0])


def waited(condition: Callable[[], Any], what: str, timeout: float = 20.0) -> Any:
    """What ``condition`` returns once that is true."""
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {timeout:g} s for {what}"
        time.sleep(0.001)
    return found


@contextmanager
def sampled(look: Callable[[], T], interval: float) -> Iterator[list[T]]:
    """Call ``look`` every ``interval`` seconds in a thread. Yield the list to which its results are added."""
    found: list[T] = []
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(interval):
            found.append(look())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def pfc(classes: Mapping[int, int]) -> bytes:
    """A PFC frame that sets the timers of ``classes`` (quanta), as IEEE 802.1Q clause 36 and 802.3 31D have it."""
    vector = sum(1 << priority for priority in classes)
    timers = b"".join(classes.get(priority, 0).to_bytes(2, "big") for priority in range(8))
    frame = bytes.fromhex("0180c2000001 020000000001 8808 0101") + vector.to_bytes(2, "big") + timers
    return frame.ljust(60, b"\0")


def named(events: list[Any], kind: EventKind, port: int) -> list[Any]:
    """The events of one kind at one port."""
    return [event for event in events if event["kind"] == kind and event["port"] == port]


def bounds(trials: int, probability: float, tests: int, confidence: float = 0.999) -> tuple[float, float]:
    """Successes that ``tests`` binomial variables stay between, all of them, with the given confidence.

    Each gets its share of what may go wrong (Bonferroni); the tails are summed exactly.
    """
    tail = (1 - confidence) / tests / 2
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, trials + 1)))])
    successes = np.arange(trials + 1)
    if probability in {0.0, 1.0}:
        return trials * probability, trials * probability
    logs = log_factorials[-1] - log_factorials[successes] - log_factorials[trials - successes]
    mass = np.exp(logs + successes * np.log(probability) + (trials - successes) * np.log1p(-probability))
    low = int(np.searchsorted(np.cumsum(mass), tail))
    high = trials - int(np.searchsorted(np.cumsum(mass[::-1]), tail))
    return low, high


def settle(fabric: Star) -> None:
    """Wait until nothing is queued anywhere and no group is paused: what was sent has arrived or is dropped."""

    def settled() -> bool:
        depth = sum(int(port["queue"]["depth_packets"].sum()) for port in ports(fabric).values())
        return not depth and not fabric.maps.nodes["paused"].any()

    waited(settled, "all queues to empty")
    before = None
    while before != (now := [int(port["queue"]["sent_packets"].sum()) for port in ports(fabric).values()]):
        before = now
        time.sleep(0.01)


def ports(fabric: Star) -> dict[tuple[str, str], Any]:
    """The counters of all ports, by node and interface."""
    return {place: fabric.maps.counters[port].copy() for port, place in fabric.numbering.names.items()}


def balanced(port: Any) -> bool:
    """Every packet that was offered to a queue was sent, dropped for a reason, or is still there."""
    queue = port["queue"]
    packets = queue["sent_packets"] + queue["drop_packets"].sum(axis=1) + queue["depth_packets"]
    octets = queue["sent_bytes"] + queue["drop_bytes"].sum(axis=1) + queue["depth_bytes"]
    return bool((queue["offered_packets"] == packets).all() and (queue["offered_bytes"] == octets).all())


@contextmanager
def build(text: str) -> Iterator[Star]:
    """The star of a topology file, for as long as it is needed; nothing is left of it."""
    topology = load_topology(text)
    name = topology.name
    namespaces = {node.name: Namespace(f"rv-{name}-{node.name}") for node in topology.nodes}
    numbering, plan, qos = number_ports(topology), plan_addresses(topology), resolve(topology, time_source.reaction())
    with ExitStack() as stack:
        stack.callback(pins.unpin, pins.folder_of(name))
        port_maps.load(
            name, numbering, "vmtest", slot_budget.per_port(numbering, qos, slot_budget.available_memory())
        )
        maps = port_maps.open_maps(name, writable=True)
        port_maps.write(maps, numbering, qos, plan)
        stack.callback(netns.delete, [namespace.name for namespace in namespaces.values()])
        with port_maps.programs(name) as programs:
            netns.create([namespace.name for namespace in namespaces.values()])
            plumb(Blueprint(topology, plan, namespaces, numbering, qos, programs))
        star = Star(topology, plan, numbering, namespaces, maps, qos)
        star.introduce()
        yield star


@contextmanager
def blasting(star: Star, source: str, target: str, tos: int, size: int) -> Iterator[None]:
    """``source`` sends frames of ``size`` bytes to ``target`` meanwhile, as fast as its link takes them."""
    argv = [sys.executable, str(_BLAST), star.address(target), "9", str(tos), str(size)]
    with entered(star.namespaces[source]):
        sender = subprocess.Popen(argv, stdin=subprocess.PIPE)
    try:
        yield
    finally:
        assert sender.poll() is None, "the sender ended by itself"
        sender.kill()
        sender.wait()
        assert sender.stdin is not None
        sender.stdin.close()


@contextmanager
def listening(star: Star, host: str) -> Iterator[socket.socket]:
    """A socket of ``host`` that takes what ``blasting`` sends, so that no ICMP goes back."""
    sink = star.open_socket(host, socket.AF_INET, socket.SOCK_DGRAM)
    with sink:
        sink.bind(("0.0.0.0", 9))  # noqa: S104 - of a namespace
        yield sink
