"""Trees of pauses on counters made by hand: what leads where, and what must not be put down to anybody."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from lab.dataplane import counters, events
from lab.dataplane.numbering import drained_interface, number_ports
from lab.dataplane.pause_graph import Observation, PortPause, Root, trees
from lab.dataplane.port_layout import EventKind
from lab.model.qos.resolve import resolve
from lab.model.topology import Endpoint
from tests.unit.dataplane.made_maps import configured, log_event
from tests.unit.model.qos.fabrics import fabric

if TYPE_CHECKING:
    from lab.dataplane.port_maps import PortMaps
    from lab.model.qos.port import NodeQos

TOPOLOGY = fabric("pfc-ecn")
NUMBERING = number_ports(TOPOLOGY)
PEERS = {end: link.other(end) for link in TOPOLOGY.links for end in link.ends}


def end(text: str) -> Endpoint:
    node, _, interface = text.partition(":")
    return Endpoint(node, interface)


def id_of(text: str) -> int:
    return NUMBERING.nodes[end(text).node].port(end(text).interface)


def device_id(text: str) -> int:
    """The id of a port or a drain."""
    node = NUMBERING.nodes[end(text).node]
    return node.first + 1 + node.devices.index(end(text).interface)


@dataclass
class Story:
    """What happens between two readings that are a second apart."""

    monkeypatch: pytest.MonkeyPatch
    maps: PortMaps = field(default_factory=lambda: configured(TOPOLOGY))
    full: dict[str, int] = field(default_factory=dict)
    stopped: dict[str, tuple[int, float]] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    queues: dict[str, int] = field(default_factory=dict)
    """The queue of priority 3 at a port; 3 where it is not given."""

    def pauses(self, by: str, xoffs: int, share: float) -> None:
        self.sent[by] = xoffs
        self.stopped[str(PEERS[end(by)])] = (xoffs, share)

    def seen(self) -> Observation:
        """The queues are full at the first reading alone, as pauses make them."""
        for name, depth in self.full.items():
            self.maps.counters["queue"]["depth_bytes"][device_id(name), self.queues.get(name, 3)] = depth
        before = self._read(10_000_000_000)
        self.maps.counters["queue"]["depth_bytes"] = 0
        for name, xoffs in self.sent.items():
            self.maps.counters["priority"]["tx_pause"][id_of(name), 3] += xoffs
        for name, (xoffs, share) in self.stopped.items():
            self.maps.counters["priority"]["rx_pause"][id_of(name), 3] += xoffs
            self.maps.counters["priority"]["paused_ns"][id_of(name), 3] += int(share * 1e9)
        after = self._read(11_000_000_000)
        told = events.read_events(self.maps, NUMBERING.names)
        return Observation([before, after], told, self._qos(), PEERS)

    def _qos(self) -> dict[str, NodeQos]:
        qos = dict(resolve(TOPOLOGY))
        for name, queue in self.queues.items():
            node, interface = end(name).node, drained_interface(end(name).interface)
            port = qos[node].ports[interface]
            mapped = tuple(queue if priority == 3 else of for priority, of in enumerate(port.priority_to_queue))
            ports = {**qos[node].ports, interface: replace(port, priority_to_queue=mapped)}
            qos[node] = replace(qos[node], ports=ports)
        return qos

    def _read(self, ns: int) -> dict[str, counters.CounterReading]:
        self.monkeypatch.setattr("lab.dataplane.counters.time.monotonic_ns", lambda: ns)
        return {name: counters.read(self.maps, node) for name, node in NUMBERING.nodes.items()}


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> Story:
    return Story(monkeypatch)


def edges(root: Root) -> list[tuple[int, str, str]]:
    """Depth in the tree, who pauses, and whom."""

    def walk(pauses: tuple[PortPause, ...], depth: int) -> list[tuple[int, str, str]]:
        found = []
        for pause in pauses:
            found += [(depth, str(pause.end), str(pause.peer)), *walk(pause.behind, depth + 1)]
        return found

    return walk(root.pauses, 1)


def test_nobody_was_paused(story: Story) -> None:
    story.full = {"leaf1:swp4": 400_000}  # a queue that is full and stops nobody is no congestion to tell of
    assert trees(story.seen(), range(8)) == []


def test_a_pause_travels_from_the_full_queue_to_the_host(story: Story) -> None:
    """h1 writes to h3 over spine1, and h4 too: leaf2's port to h3 is full; leaf2 stops h4 and spine1, that leaf1."""
    story.full = {"leaf2:swp3": 455_000, "spine1:swp2": 90_000, "leaf1:swp1": 80_000, "h1:eth1": 70_000}
    story.pauses("leaf2:swp1", 60, 0.5)
    story.pauses("leaf2:swp4", 61, 0.6)
    story.pauses("spine1:swp1", 40, 0.4)
    story.pauses("leaf1:swp3", 30, 0.3)
    (root,) = trees(story.seen(), range(8))
    assert (root.priority, str(root.end), root.depth) == (3, "leaf2:swp3", 455_000)
    assert sorted(edges(root)) == [
        (1, "leaf2:swp1", "spine1:swp2"),
        (1, "leaf2:swp4", "h4:eth1"),
        (2, "spine1:swp1", "leaf1:swp1"),
        (3, "leaf1:swp3", "h1:eth1"),
    ]
    first = next(pause for pause in root.pauses if str(pause.end) == "leaf2:swp1")
    assert (first.xoffs, first.forged) == (60, False)
    assert first.share == pytest.approx(0.5)


@pytest.mark.parametrize("queues", [{"leaf2:swp3": 5}, {"leaf2:swp1": 0}, {"leaf2:swp3": 1, "leaf2:swp4": 6}])
def test_each_port_s_own_map_says_which_queue_a_priority_waits_in(story: Story, queues: dict[str, int]) -> None:
    """The ports of a switch may differ: leaf2's port to h3 holds the packets, whatever queue they are in there."""
    story.queues = queues
    story.full = {"leaf2:swp3": 455_000, "leaf2:swp1": 1000}
    story.pauses("leaf2:swp4", 61, 0.6)
    (root,) = trees(story.seen(), [3])
    assert (str(root.end), root.depth) == ("leaf2:swp3", 455_000)


def test_a_slow_host_s_own_map_says_in_which_queue_its_packets_wait(story: Story) -> None:
    """The drain behind a NIC has the NIC's map."""
    story.queues = {"h3:rx-eth1": 6}
    story.full = {"h3:rx-eth1": 200_000}
    story.pauses("h3:eth1", 9, 0.9)
    (root,) = trees(story.seen(), [3])
    assert (str(root.end), root.depth) == ("h3:rx-eth1", 200_000)


def test_two_full_queues_are_two_trees(story: Story) -> None:
    story.full = {"leaf1:swp3": 300_000, "leaf2:swp3": 455_000}
    story.pauses("leaf1:swp4", 1, 0.1)
    story.pauses("leaf2:swp4", 1, 0.1)
    assert [str(root.end) for root in trees(story.seen(), [3])] == ["leaf2:swp3", "leaf1:swp3"]
    assert trees(story.seen(), [4]) == []


def test_a_pause_that_no_port_sent_is_told_as_such(story: Story) -> None:
    """Crafted frames: leaf1 stops, and h1's port knows nothing of it."""
    story.stopped = {"leaf1:swp3": (1000, 1.0)}
    (root,) = trees(story.seen(), [3])
    assert root.end is None
    (pause,) = root.pauses
    assert (str(pause.end), str(pause.peer), pause.forged, pause.xoffs) == ("h1:eth1", "leaf1:swp3", True, 0)


def test_pauses_in_a_circle_have_no_root_and_an_end(story: Story) -> None:
    """A deadlock: each of four switches waits for the next."""
    circle = ("leaf1:swp1", "spine1:swp2", "leaf2:swp2", "spine2:swp1")
    story.full = dict.fromkeys(circle, 300_000)
    for name in circle:
        story.pauses(str(PEERS[end(name)]), 5, 1.0)
    (root,) = trees(story.seen(), [3])
    assert root.end is None
    assert [depth for depth, _, _ in edges(root)] == [1, 2, 3, 4]
    assert len({by for _, by, _ in edges(root)}) == 4


def test_since_is_the_first_of_the_xoffs_that_follow_each_other(story: Story) -> None:
    port = id_of("leaf1:swp3")
    for ns in (1_000_000_000, 8_000_000_000, 8_900_000_000, 9_800_000_000):  # the first is 7 s before the others
        log_event(story.maps, ns, 0, port, EventKind.XOFF_SENT, 3)
    story.full = {"leaf1:swp4": 1}
    story.pauses("leaf1:swp3", 3, 0.9)
    (root,) = trees(story.seen(), [3])
    assert root.pauses[0].since == 8.0


def test_one_long_pause_shows_without_another_frame(story: Story) -> None:
    story.full = {"leaf1:swp4": 300_000}
    story.maps.counters["group"]["xoff"][id_of("leaf1:swp3"), 3] = 1
    story.stopped = {"h1:eth1": (0, 1.0)}
    (root,) = trees(story.seen(), [3])
    assert edges(root) == [(1, "leaf1:swp3", "h1:eth1")]
