"""The promise of congestion control (SIGCOMM 2015, section 6): an incast needs far fewer pauses, and a short queue.

The hosts' NICs have DCQCN or not; the switch, which marks, is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

import pytest

from lab.dataplane.limited_qps import limited_qps
from lab.rdma.measure import BandwidthTest, Pair
from lab.rdma.perftest import measure_bandwidth
from tests.vm.one_switch import OVERHEAD, SWITCH, Star, ports, sampled, settle, star
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
    """What an incast did: XOFFs of groups, pauses on wires, median bytes in the sink's queue, marks, drops, bit/s in
    all, CNPs (sent, obeyed, for a QP that is gone), QPs limited."""

    xoffs: int
    pauses: int
    depth: float
    marked: int
    dropped: int
    goodput: float
    cnps_sent: int
    cnps_handled: int
    cnps_ignored: int
    limited: int


@pytest.fixture(scope="module")
def fabric() -> Iterator[Star]:
    """A switch with hosts that have RDMA devices, and DCQCN by the paper's registers."""
    with with_rdma(star(SENDERS + 1, f"{RATE}bit", 1500, "paper")) as built:
        yield built


def incast(fabric: Star, *assignments: str, traffic: BandwidthTest = TRAFFIC) -> Incast:
    """The senders write to the sink, with ``assignments`` at all hosts."""
    hosts = [host for host in fabric.namespaces if host != SWITCH]
    for host in hosts:
        fabric.configure(host, *assignments)
    old = ports(fabric)
    with sampled(lambda: int(fabric.live(SWITCH, SINK_PORT)["queue"]["depth_bytes"][PRIORITY]), 0.005) as depths:
        results = measure_bandwidth(
            [Pair(nic(fabric, f"h{number + 1}"), nic(fabric, SINK)) for number in range(SENDERS)], traffic
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
        pauses=int(
            sum((now[place]["priority"]["tx_pause"] - old[place]["priority"]["tx_pause"]).sum() for place in now)
        ),
        depth=median(depth for depth in depths if depth),
        marked=int((sink["ecn_marked"] - before["ecn_marked"]).sum()),
        dropped=int(
            sum((now[place]["queue"]["drop_packets"] - old[place]["queue"]["drop_packets"]).sum() for place in now)
        ),
        goodput=sum(result.goodput_bps for result in results),
        cnps_sent=grown(SINK, "np_cnp_sent"),
        cnps_handled=sum(grown(host, "rp_cnp_handled") for host in hosts),
        cnps_ignored=sum(grown(host, "rp_cnp_ignored") for host in hosts),
        limited=limited,
    )


def test_an_incast_needs_a_tenth_of_the_pauses(fabric: Star) -> None:
    """With and without, turned off while the fabric runs."""
    on, off = incast(fabric), incast(fabric, "nic.cc.algorithm=off")
    print(on, off, sep="\n")
    assert on.dropped == off.dropped == 0
    assert (off.cnps_sent, off.cnps_handled) == (0, 0)
    assert on.cnps_sent == on.cnps_handled > 0
    assert on.cnps_ignored == 0
    assert off.xoffs >= 10
    assert on.xoffs <= off.xoffs / 10
    assert on.depth < off.depth / 2
    assert off.goodput == pytest.approx(RATE * PAYLOAD, rel=0.03)
    assert on.goodput > 0.9 * off.goodput


@pytest.mark.long
def test_without_pfc_only_senders_that_slow_down_save_the_buffer() -> None:
    """In CI, the test above has the effect, test_port_incast.py the drops and test_bad_cnps.py the ignored CNPs.

    With packets of 4096 bytes, 12 QPs have more under way than the buffer holds.

    The queue's depth is no measure here: it empties while senders that have lost packets wait for timeouts.

    A packet that was resent may still be in the queue when its QP has been acknowledged and is gone: a CNP for it
    finds no QP. The queue drains in less than 0.2 s, so these are few.

    Losses come in a burst each time that the senders restart, three to five times in a run. In ten runs, senders that
    slow down lost 24 % to 49 % of what the others lost.
    """
    traffic = BandwidthTest(duration=2, qps=4)
    with with_rdma(star(SENDERS + 1, f"{RATE}bit", 9000, "lossy")) as fabric:
        on = incast(fabric, traffic=traffic)
        off = incast(fabric, "nic.cc.algorithm=off", traffic=traffic)
    print(on, off, sep="\n")
    for each in (on, off):
        assert each.xoffs == each.pauses == 0
        assert each.dropped > 0
    assert on.cnps_sent == on.cnps_handled + on.cnps_ignored
    assert on.cnps_handled > 10 * on.cnps_ignored
    assert off.cnps_handled == 0
    assert on.dropped < 0.75 * off.dropped
