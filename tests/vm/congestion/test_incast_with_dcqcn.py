"""The promise of congestion control (SIGCOMM 2015, section 6): an incast needs far fewer pauses, and a short queue.

The hosts' NICs have DCQCN or not; the switch, which marks, is the same.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

import pytest

from lab.dataplane.limited_qps import limited_qps
from lab.rdma.measure import BandwidthTest, Pair
from lab.rdma.perftest import measure_bandwidth
from tests.vm.one_switch import OVERHEAD, SWITCH, Star, ports, settle, star
from tests.vm.rdma_switch import nic, with_rdma

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.vm, pytest.mark.timeout(600)]

RATE: Final = 100_000_000
SENDERS: Final = 3
SINK: Final = f"h{SENDERS + 1}"
SINK_PORT: Final = f"swp{SENDERS + 1}"
PRIORITY: Final = 3
TRAFFIC: Final = BandwidthTest(duration=4, qps=4)
PAYLOAD: Final = 1024 / (1024 + 58 + OVERHEAD)
"""The share of the wire's bits that is payload, with an IB MTU of 1024."""


@dataclass(frozen=True)
class Incast:
    """What an incast did: XOFFs, median bytes in the sink's queue, marks, drops, bit/s in all, CNPs, QPs limited."""

    xoffs: int
    depth: float
    marked: int
    dropped: int
    goodput: float
    cnps_sent: int
    cnps_handled: int
    limited: int


@pytest.fixture(scope="module")
def fabric() -> Iterator[Star]:
    """A switch with hosts that have RDMA devices, and DCQCN by the paper's registers."""
    with with_rdma(star(SENDERS + 1, f"{RATE}bit", 1500, "paper")) as built:
        yield built


def incast(fabric: Star, *assignments: str) -> Incast:
    """The senders write to the sink, with ``assignments`` at all hosts."""

    hosts = [host for host in fabric.namespaces if host != SWITCH]
    for host in hosts:
        fabric.configure(host, *assignments)
    old = ports(fabric)
    with depths(fabric) as seen:
        results = measure_bandwidth(
            [Pair(nic(fabric, f"h{number + 1}"), nic(fabric, SINK)) for number in range(SENDERS)], TRAFFIC
        )
    limited = sum(len(list(limited_qps(fabric.maps, node))) for node in fabric.numbering.nodes.values())
    settle(fabric)
    now = ports(fabric)

    def grown(host: str, counter: str) -> int:
        return int(now[host, "eth1"][counter] - old[host, "eth1"][counter])

    groups = [(now[place]["group"], old[place]["group"]) for place in now if place[0] == SWITCH]
    sink, before = now[SWITCH, SINK_PORT]["queue"], old[SWITCH, SINK_PORT]["queue"]
    return Incast(
        xoffs=int(sum(int((new["xoff"] - past["xoff"]).sum()) for new, past in groups)),
        depth=median(depth for depth in seen if depth),
        marked=int((sink["ecn_marked"] - before["ecn_marked"]).sum()),
        dropped=int(
            sum((now[place]["queue"]["drop_packets"] - old[place]["queue"]["drop_packets"]).sum() for place in now)
        ),
        goodput=sum(result.goodput_bps for result in results),
        cnps_sent=grown(SINK, "np_cnp_sent"),
        cnps_handled=sum(grown(host, "rp_cnp_handled") for host in hosts),
        limited=limited,
    )


@contextmanager
def depths(fabric: Star) -> Iterator[list[int]]:
    """Bytes in the sink's queue, every 5 ms."""
    found: list[int] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.005):
            found.append(int(fabric.live(SWITCH, SINK_PORT)["queue"]["depth_bytes"][PRIORITY]))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield found
    finally:
        ended.set()
        looking.join()


def test_an_incast_needs_a_tenth_of_the_pauses(fabric: Star) -> None:
    """With and without, turned off while the fabric runs."""
    on, off = incast(fabric), incast(fabric, "nic.cc.algorithm=off")
    print(on, off, sep="\n")
    assert on.dropped == off.dropped == 0
    assert (off.cnps_sent, off.cnps_handled) == (0, 0)
    assert on.cnps_sent == on.cnps_handled > 0
    assert off.xoffs >= 10
    assert on.xoffs <= off.xoffs / 10
    assert on.depth < off.depth / 2
    assert off.goodput == pytest.approx(RATE * PAYLOAD, rel=0.03)
    assert on.goodput > 0.9 * off.goodput
