"""``rocelab counters`` and ``qos`` on running ports: what they count, and what a change does to traffic under way.

    h1 --4M-- leaf1 --4M-- h2      slow: a packet takes 3 ms, so that a loaded CPU still fills the queues

Judges: the kernel's own counters of the veths and qdiscs, the sequence numbers of the packets that arrive, and time.
"""

import itertools
import json
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typer.testing import CliRunner

from lab.backends import lifecycle, registry
from lab.backends.backend import Fabric
from lab.cli.app import app
from lab.dataplane import counters, port_maps
from lab.kernel.bpf import pins
from lab.kernel.process import netns
from lab.model.load import load_topology
from tests import backend
from tests.inside import entered

pytestmark = [pytest.mark.vm, pytest.mark.backends, pytest.mark.timeout(300)]
RATE = 4_000_000
SIZE = 1400
FRAME = SIZE + 8 + 20 + 14
"""Octets of one datagram on the wire, without FCS: UDP, IP and Ethernet around it."""
TOS = 26 << 2 | 2
"""DSCP 26 and ECT(0): priority 3, which is lossless."""
PORT = 7000
_SO_RCVBUFFORCE = 33
"""Python has no name for it: as root, a buffer for all that comes while the interpreter does something else."""
TOPOLOGY = f"""
name: qos-live
defaults: {{rate: {RATE}, mtu: 1500}}
qos: pfc-ecn
nodes: {{leaf1: {{role: leaf}}, h1: {{role: host, rdma: false}}, h2: {{role: host, rdma: false}}}}
links: [{{ends: [h1, leaf1]}}, {{ends: [h2, leaf1]}}]
"""


@pytest.fixture(scope="module")
def fabric() -> Iterator[Fabric]:
    topology = load_topology(TOPOLOGY)
    built, _ = lifecycle.up(topology, registry.backend(backend.chosen()))
    yield built
    lifecycle.down(built.state)
    assert not built.state.directory.exists()
    assert not pins.folder_of(built.name).exists()


def rocelab(*words: str, expect: int = 0) -> str:
    """In this process: only the first command of a test run pays for imports."""
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == expect, f"{words}: {result.output} {result.exception!r}"
    return result.stdout


def counted(end: str) -> dict[str, int]:
    node, _, interface = end.partition(":")
    known: dict[str, int] = json.loads(rocelab("counters", end, "--json", "--all"))["nodes"][node]["interfaces"][
        interface
    ]
    return known


def grown(end: str, before: dict[str, int]) -> dict[str, int]:
    return {name: value - before[name] for name, value in counted(end).items() if value != before[name]}


def address(fabric: Fabric, host: str) -> str:
    nic = fabric.plan[host].interfaces["eth1"].address
    assert nic is not None
    return str(nic.ip)


class Flow:
    """Numbered datagrams from h1 to h2, as fast as the link takes them: the socket's buffer waits for the port."""

    def __init__(self, fabric: Fabric) -> None:
        self._receiver, self._sender = (self._socket(fabric, host) for host in ("h2", "h1"))
        self._receiver.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 1 << 26)
        self._receiver.bind((address(fabric, "h2"), PORT))
        self._receiver.settimeout(20)
        self._sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, TOS)
        self._sender.connect((address(fabric, "h2"), PORT))
        self._numbers = itertools.count()

    @staticmethod
    def _socket(fabric: Fabric, host: str) -> socket.socket:
        with entered(fabric.namespace(host)):
            return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def send(self) -> int:
        """One, and its number."""
        number = next(self._numbers)
        self._sender.send(struct.pack("!I", number).ljust(SIZE))
        return number

    def receive(self, count: int) -> list[int]:
        """The numbers of so many; TimeoutError when fewer come."""
        return [struct.unpack_from("!I", self._receiver.recv(SIZE))[0] for _ in range(count)]

    def close(self) -> None:
        self._sender.close()
        self._receiver.close()


@pytest.fixture
def flow(fabric: Fabric) -> Iterator[Flow]:
    made = Flow(fabric)
    made.send()  # ARP
    made.receive(1)
    yield made
    made.close()


@contextmanager
def under_way(flow: Flow, at_least: int = 0) -> Iterator[list[int]]:
    """Datagrams are being sent meanwhile, and ``at_least`` so many; then all have arrived, once and in order."""
    sent: list[int] = []
    ended = threading.Event()

    def send() -> None:
        while len(sent) < at_least or not ended.is_set():
            sent.append(flow.send())

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield sent
    finally:
        ended.set()
        sender.join()
    assert flow.receive(len(sent)) == sent


def kernels(fabric: Fabric, node: str, *argv: str) -> Any:
    name = fabric.namespace(node).name
    said = subprocess.run(
        ["ip", "netns", "exec", name, *argv], capture_output=True, text=True, timeout=60, check=True
    )
    return json.loads(said.stdout)


def test_counters_agree_with_the_kernels(fabric: Fabric, flow: Flow) -> None:
    ends = ("h1:eth1", "leaf1:swp1", "leaf1:swp2", "h2:eth1")
    before = {end: counted(end) for end in ends}
    with under_way(flow, 200) as sent:
        pass
    for end, way in zip(ends, ("tx", "rx", "tx", "rx"), strict=True):
        moved = grown(end, before[end])
        assert moved[f"{way}_prio3_packets"] == len(sent) >= 200, end
        assert moved[f"{way}_prio3_bytes"] == len(sent) * FRAME, end
    maps = port_maps.open_maps(fabric.name)
    port = counters.read(maps, fabric.numbering.nodes["h2"]).port("eth1")
    (link,) = kernels(fabric, "h2", "ip", "-json", "-statistics", "link", "show", "eth1")
    received = int(port["priority"]["rx_packets"].sum()) + int(port["rx_pfc"])
    assert link["stats64"]["rx"]["packets"] - received in range(3), "IPv6 of the kernel's own may come in between"
    port = counters.read(maps, fabric.numbering.nodes["leaf1"]).port("swp2")
    (root,) = [
        entry
        for entry in kernels(fabric, "leaf1", "tc", "-json", "-s", "qdisc", "show", "dev", "swp2")
        if "root" in entry
    ]
    assert root["kind"] == port_maps.qdisc_kind(fabric.name)
    assert root["bytes"] - int(port["queue"]["sent_bytes"].sum()) - int(port["tx_pfc_bytes"]) in range(3 * 200)
    assert root["drops"] == int(port["queue"]["drop_packets"].sum()) == 0


def test_a_change_is_made_under_traffic_and_seen_by_all(fabric: Fabric, flow: Flow) -> None:
    with under_way(flow):
        rocelab("qos", "set", "leaf1:swp2,leaf1:swp1", "h1", "ecn.3.kmin=0", "ecn.3.kmax=1", "pfc.quanta=2000")
        rocelab("qos", "set", "h1", "rate=1Mbit")
        shown = json.loads(rocelab("qos", "show", "--json"))["nodes"]
    for end in ("leaf1:swp1", "leaf1:swp2", "h1:eth1", "h2:eth1"):
        node, _, interface = end.partition(":")
        assert shown[node]["ports"][interface]["kernel_differs"] == [], end
        assert (shown[node]["ports"][interface]["pfc"]["quanta"] == 2000) is (node != "h2")
    before = counted("h1:eth1")
    with under_way(flow, 100):
        pass
    moved = grown("h1:eth1", before)
    assert moved.get("queue3_ecn_marked", 0) > 50, f"what meets a queue is marked now: {moved}"
    rocelab("qos", "set", "h1", f"rate={RATE}")
    rocelab("qos", "set", "--all", "--profile", "pfc-ecn")
    assert fabric.state.load_qos()["h1"] == fabric.qos["h1"], "as built"


def test_a_lower_rate_holds_at_once(fabric: Fabric, flow: Flow) -> None:
    """1 Mb/s carries a frame of 1442 + 24 octets in 11.7 ms; late timers make up for little (schedule.h)."""
    node = fabric.numbering.nodes["h1"]
    maps = port_maps.open_maps(fabric.name)
    with under_way(flow):
        rocelab("qos", "set", "h1", "rate=1Mbit")
        started, earlier = time.monotonic(), counters.read(maps, node)
        frames = 0
        while frames < 80:
            time.sleep(0.01)
            moved = counters.moved(counters.read(maps, node), earlier)
            frames = int(moved.port("eth1")["queue"]["sent_packets"][3])
        seconds = time.monotonic() - started
    assert seconds >= (frames - 1) * (FRAME + 24) * 8 / 1e6 - 0.251, "1 ms of burst, 250 ms of debt"
    shown = json.loads(rocelab("qos", "show", "leaf1:swp1", "--json"))
    assert shown["nodes"]["leaf1"]["ports"]["swp1"]["rate"] == 1_000_000, "the link's other end too"
    rocelab("qos", "set", "h1", f"rate={RATE}")


def test_a_slow_receiver_pauses_its_leaf_and_loses_nothing(fabric: Fabric, flow: Flow) -> None:
    with under_way(flow):
        rocelab("qos", "set", "h2", "nic.drain=1Mbit")
        assert kernels(fabric, "h2", "ip", "-json", "link", "show", "rx-eth1")
        before = len(json.loads(rocelab("qos", "events", "--json", "--limit", "65536")))
        pauses = port_maps.open_maps(fabric.name).counters["priority"]["rx_pause"][
            fabric.numbering.nodes["leaf1"].port("swp2")
        ]
        deadline = time.monotonic() + 60
        while pauses[3] == 0:
            assert time.monotonic() < deadline, "the leaf is never paused"
            time.sleep(0.01)
        rocelab("qos", "set", "h2", "nic.drain=unlimited")
    names = [link["ifname"] for link in kernels(fabric, "h2", "ip", "-json", "link")]
    assert "rx-eth1" not in names
    events = json.loads(rocelab("qos", "events", "--json", "--limit", "65536"))
    assert len(events) > before
    told = [(event["node"], event["kind"], event["number"]) for event in events]
    assert told.index(("h2", "xoff_sent", 3)) < told.index(("leaf1", "paused", 3))
    received = counted("h2:eth1")
    assert not any(value for name, value in received.items() if name.startswith("queue3_drop"))


def test_what_cannot_be_changes_nothing(fabric: Fabric) -> None:
    maps = port_maps.open_maps(fabric.name)
    before = maps.config.copy()
    for words in (["leaf1", "ecn.3.kmin=1MB"], ["leaf1:swp9", "rate=5Mbit"], ["--all", "nic.drain=5Mbit"]):
        rocelab("qos", "set", *words, expect=1)  # main() makes exit code 2 of it
    assert (maps.config == before).all()


def test_the_netlink_half_leaves_nothing_when_it_fails(fabric: Fabric) -> None:
    """A name that is taken in the host stands for whatever the kernel may refuse."""
    maps = port_maps.open_maps(fabric.name)
    before = maps.config.copy()
    subprocess.run(["ip", "-n", fabric.namespace("h2").name, "link", "add", "rx-eth1", "type", "ifb"], check=True)
    rocelab("qos", "set", "host", "nic.drain=5Mbit", expect=1)
    subprocess.run(["ip", "-n", fabric.namespace("h2").name, "link", "del", "rx-eth1"], check=True)
    assert (maps.config == before).all()
    assert "rx-eth1" not in [link["ifname"] for link in kernels(fabric, "h1", "ip", "-json", "link")]
    assert netns.Namespace(fabric.namespace("h1").name).exists()


def test_a_port_that_somebody_took_off_is_noticed(fabric: Fabric, flow: Flow) -> None:
    def differs() -> list[str]:
        data = json.loads(rocelab("qos", "show", "h1", "--json"))
        found: list[str] = data["nodes"]["h1"]["ports"]["eth1"]["kernel_differs"]
        return found

    root = ["tc", "qdisc", "replace", "dev", "eth1", "root"]
    major = fabric.numbering.nodes["h1"].port("eth1")
    namespace = fabric.namespace("h1")
    assert differs() == []
    namespace.run(["tc", "qdisc", "del", "dev", "eth1", "root"])
    assert differs() == ["root qdisc noqueue"]
    namespace.run([*root, "handle", f"{major:x}:", port_maps.qdisc_kind(fabric.name)])
    assert differs() == []
    with under_way(flow, 20):
        pass
