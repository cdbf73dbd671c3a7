"""Who is sent first, and how much: strict priority, DWRR, and the link's rate, against arithmetic."""

from __future__ import annotations

import re
import statistics
import subprocess
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.dataplane import port_maps
from lab.dataplane.port_layout import Drop
from tests.inside import entered
from tests.vm.one_switch import OVERHEAD, SWITCH, Star, balanced, blasting, build, listening, star, waited

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.vm, pytest.mark.timeout(300)]

RATE: Final = 20_000_000
SIZE: Final = 8000
STRICT_DSCP: Final = 48
ROCE_DSCP: Final = 26
ROOMY: Final = ("buffer.pool=16MB", *(f"buffer.queues.{queue}=2MB" for queue in range(3)))
"""A second of the link in each queue: a sender that gets no CPU for a while does not leave it empty."""
_RTT = re.compile(r"time=([0-9.]+) ms")


@pytest.fixture(scope="module")
def fabric() -> Iterator[Star]:
    with build(star(4, f"{RATE}bit", 9000)) as built, listening(built, "h4"):
        yield built


@pytest.fixture
def queues(fabric: Star) -> Iterator[Any]:
    """The queues towards h4, empty, and everything as it was afterwards."""
    live = fabric.live(SWITCH, "swp4")["queue"]
    waited(lambda: not live["depth_packets"].any(), "what an earlier test queued to leave")
    yield live
    fabric.configure(SWITCH)


def mapped(fabric: Star, *assignments: str) -> None:
    """DSCP 8 is priority 1 and DSCP 16 priority 2 at the switch, and ``assignments``."""
    fabric.configure(SWITCH, "map.dscp.8=1", "map.dscp.16=2", *ROOMY, *assignments)


@pytest.mark.parametrize(
    "weights",
    [
        (10, 20, 30),
        pytest.param((1, 1, 1), marks=pytest.mark.long),
        pytest.param((14, 15, 100), marks=pytest.mark.long),
    ],
)
def test_weights_divide_a_saturated_link(fabric: Star, queues: Any, weights: tuple[int, int, int]) -> None:
    """Three hosts offer twice the link each, in three classes; shares are those of the weights within 2%."""
    mapped(fabric, *(f"scheduler.{queue}={weight}" for queue, weight in enumerate(weights)))
    with ExitStack() as senders:
        for number, dscp in enumerate((0, 8, 16), start=1):
            fabric.maps.config["rate"][fabric.id(f"h{number}")] = 2 * RATE
            senders.enter_context(blasting(fabric, f"h{number}", "h4", dscp << 2, SIZE))
        waited(lambda: all(queues[queue]["depth_packets"] > 200 for queue in range(3)), "three queues to fill")
        before = queues.copy()
        least = [200] * 3
        while queues["sent_bytes"].sum() - before["sent_bytes"].sum() < 6_000_000:
            least = [min(seen, int(queue["depth_packets"])) for seen, queue in zip(least, queues, strict=False)]
        after = queues.copy()
        assert min(least) > 0, "a sender did not keep up"
    for number in (1, 2, 3):
        fabric.configure(f"h{number}")
    sent = (after["sent_bytes"] - before["sent_bytes"])[:3]
    for share, weight in zip(sent / sent.sum(), weights, strict=True):
        assert share == pytest.approx(weight / sum(weights), rel=0.02)


def round_trip(fabric: Star, dscp: int) -> float:
    """Median of 20 pings from h3 to h4 in a class, in seconds."""
    argv = ["ping", "-n", "-c20", "-i0.05", f"-Q{dscp << 2}", fabric.address("h4")]
    with entered(fabric.namespaces["h3"]):
        said = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout
    return statistics.median(float(match) for match in _RTT.findall(said)) / 1000


def test_bulk_does_not_delay_the_strict_class(fabric: Star, queues: Any) -> None:
    """It waits for the frame that is being sent, and for no queue; best effort waits for all of the queue."""
    mapped(fabric)
    round_trip(fabric, STRICT_DSCP)  # neighbours are found
    alone = round_trip(fabric, STRICT_DSCP)
    with blasting(fabric, "h1", "h4", 0, SIZE), blasting(fabric, "h2", "h4", 0, SIZE):
        waited(lambda: queues[0]["depth_packets"] > 50, "a queue")
        queued = int(queues[0]["depth_bytes"]) * 8 / RATE
        bulk, strict = (
            round_trip(fabric, 0),
            round_trip(fabric, STRICT_DSCP),
        )  # in this order: a full queue drops pings
    frame = (SIZE + OVERHEAD) * 8 / RATE
    assert strict < alone + frame + 0.004  # one frame, and a tick of the scheduler's
    assert bulk > queued > 0.01


@pytest.mark.usefixtures("queues")
def test_a_cable_delays_what_it_carries(fabric: Star) -> None:
    """Its delay once on the way there, for it is one port's; and packets are on it together, not one by one."""
    alone = round_trip(fabric, 0)
    fabric.maps.config["delay_ns"][fabric.id(SWITCH, "swp4")] = 60_000_000
    argv = ["ping", "-n", "-c20", "-i0.01", "-Q0", fabric.address("h4")]
    with entered(fabric.namespaces["h3"]):
        said = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout
    fabric.configure(SWITCH)
    times = [float(match) / 1000 for match in _RTT.findall(said)]
    assert len(times) == 20
    assert alone / 2 < min(times) - 0.06 < alone + 0.004


def test_a_port_taken_off_under_load_lets_traffic_go_on(fabric: Star, queues: Any) -> None:
    """What it held is dropped and counted as such; what comes afterwards passes by the kernel's own qdisc."""
    switch = fabric.namespaces[SWITCH]
    before = fabric.counters(SWITCH, "swp4")
    with blasting(fabric, "h1", "h4", 0, SIZE), blasting(fabric, "h2", "h4", 0, SIZE):
        enough = int(queues[0]["offered_packets"]) + 500
        waited(lambda: queues[0]["offered_packets"] > enough and queues[0]["depth_packets"] > 10, "a lasting queue")
        switch.run(["tc", "qdisc", "del", "dev", "swp4", "root"])
        after = fabric.counters(SWITCH, "swp4")
        first = int(fabric.live("h4")["priority"][0]["rx_packets"])
        waited(lambda: fabric.live("h4")["priority"][0]["rx_packets"] > first + 100, "traffic")
        assert queues[0]["sent_packets"] == after["queue"][0]["sent_packets"], "the port is off"
        handle = f"{fabric.id(SWITCH, 'swp4'):x}:"
        kind = port_maps.qdisc_kind(fabric.topology.name)
        switch.run(["tc", "qdisc", "add", "dev", "swp4", "root", "handle", handle, kind])
        sent = int(queues[0]["sent_packets"])
        waited(lambda: queues[0]["sent_packets"] > sent + 10, "traffic by the port")
    flushed = after["queue"]["drop_packets"][0][Drop.FLUSH] - before["queue"]["drop_packets"][0][Drop.FLUSH]
    assert flushed > 5
    assert not after["queue"]["depth_packets"].any()
    assert balanced(after)


@pytest.mark.parametrize("rate", [pytest.param(20_000_000, marks=pytest.mark.long), 100_000_000])
def test_a_port_carries_its_rate(rate: int) -> None:
    """TCP, lossless so that it always has something queued. The port's rate is set while it runs."""
    with build(star(2, f"{4 * rate}bit", 9000)) as fabric:
        fabric.maps.config["rate"][fabric.id(SWITCH, "swp2")] = rate
        assert transferred(fabric, rate) == pytest.approx(rate, rel=0.01)


def transferred(fabric: Star, rate: int) -> float:
    """Bits per second on the wire to h2 in four seconds, with FCS, preamble and gap."""
    with entered(fabric.namespaces["h2"]):
        server = subprocess.Popen(["iperf3", "-s", "-1", "--forceflush"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    while "listening" not in server.stdout.readline():
        assert server.poll() is None
    argv = ["iperf3", "-c", fabric.address("h2"), "-t", "8", "-S", str(ROCE_DSCP << 2), "-J"]
    with entered(fabric.namespaces["h1"]):
        client = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    queue = fabric.live(SWITCH, "swp2")["queue"][3]
    enough = int(queue["sent_bytes"]) + rate / 8
    waited(lambda: queue["sent_bytes"] > enough, "a second of traffic")
    began, first = fabric.arrived("h2")
    waited(lambda: time.monotonic() - began > 4, "four seconds")
    ended, last = fabric.arrived("h2")
    client.communicate(timeout=30)
    server.communicate(timeout=30)
    assert (client.returncode, server.returncode) == (0, 0)
    return (last - first) * 8 / (ended - began)
