"""Invariants that no load may change, where they are hardest: ports on two CPUs at once, in the host's time.

Only invariants are judged: how long anything takes depends on what else the host does.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

from lab.dataplane.port_layout import LIMITERS, Drop
from lab.rdma import device_counters
from lab.rdma.measure import BandwidthTest, Pair
from lab.rdma.perftest import measure_bandwidth
from tests.vm.one_switch import SWITCH, Star, balanced, ports, settle, star
from tests.vm.rdma_switch import device, nic, with_rdma

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.stress, pytest.mark.timeout(600)]

RATE: Final = 40_000_000
HOSTS: Final = 5
PRIORITY: Final = 3
ROOMY: Final = (
    "buffer.pool=8MB",
    "buffer.groups.3.xoff=60KB",
    "buffer.groups.3.xon=30KB",
    "buffer.groups.3.headroom=600KB",
)
DEEP: Final = ("buffer.pool=8MB", "buffer.groups.3.headroom=600KB")
"""Headroom for more than rxe lets a queue pair have under way (128 packets): no stall of a CPU overflows it."""
MARKING: Final = ("ecn.3.kmin=1KB", "ecn.3.kmax=2KB", "ecn.3.pmax=100%")
"""Every packet that finds two others in its queue is marked, however little a busy machine sends."""
RECOVERING: Final = (
    f"nic.cc.real_rate={RATE}bit",
    "nic.cc.rpg_time_reset=2ms",
    f"nic.cc.rpg_ai_rate={RATE}bit",
    f"nic.cc.rpg_hai_rate={RATE}bit",
)
"""A QP is back at the line rate within some 50 ms, and no longer limited. So limiters start and end all the time."""
LATE: Final = 24
"""The QP timeout: 68 s. The time until an ACK depends on the load of the host."""


@pytest.fixture(scope="module")
def fabric() -> Iterator[Star]:
    assert len(os.sched_getaffinity(0)) > 1, "one CPU stresses nothing"
    with with_rdma(star(HOSTS, f"{RATE}bit", 4500)) as built:
        built.configure(SWITCH, *ROOMY)
        yield built


@pytest.fixture(scope="module")
def slowed() -> Iterator[Star]:
    """The same with DCQCN in the hosts' NICs."""
    with with_rdma(star(HOSTS, f"{RATE}bit", 1500, "connectx")) as built:
        built.configure(SWITCH, *DEEP, *MARKING)
        for host in built.namespaces.keys() - {SWITCH}:
            built.configure(host, *RECOVERING)
        yield built


def overtaken(fabric: Star) -> int:
    """Packets that came too early at a receiver, of all hosts: something was lost or overtaken."""
    hosts = (device(fabric, host) for host in fabric.namespaces if host != SWITCH)
    return sum(device_counters.read(host)["out_of_seq_request"] for host in hosts)


def write(fabric: Star, pairs: list[tuple[int, int]]) -> None:
    """Hosts write to hosts, all at once, until nothing is under way."""
    measure_bandwidth(
        [Pair(nic(fabric, f"h{src}"), nic(fabric, f"h{dst}")) for src, dst in pairs],
        BandwidthTest(duration=3, timeout=LATE),
    )
    settle(fabric)


@pytest.mark.parametrize("pairs", [[(1, 5), (2, 5), (3, 5), (4, 5)], [(1, 2), (3, 4)]], ids=["incast", "apart"])
def test_nothing_is_lost_or_overtaken_and_every_sum_comes_out(fabric: Star, pairs: list[tuple[int, int]]) -> None:
    before, early = ports(fabric), overtaken(fabric)
    write(fabric, pairs)
    now = ports(fabric)
    assert all(balanced(port) for port in now.values())
    for place, port in now.items():
        grown = port["queue"]["drop_packets"] - before[place]["queue"]["drop_packets"]
        assert not grown[PRIORITY].any(), f"{place} dropped {grown[PRIORITY].tolist()} of {list(Drop)}"
    assert overtaken(fabric) == early
    groups = [port["group"][PRIORITY] for port in now.values()]
    assert all(group["xoff"] == group["xon"] and not group["bytes"] for group in groups)


def test_no_clock_has_stopped(fabric: Star) -> None:
    """After an incast every pause is over, and another one pauses and lets go again."""
    for _ in range(2):
        before = ports(fabric)[SWITCH, "swp1"]["group"][PRIORITY]
        write(fabric, [(1, 5), (2, 5), (3, 5)])
        now = ports(fabric)[SWITCH, "swp1"]["group"][PRIORITY]
        assert now["xoff"] > before["xoff"]
        assert now["xoff"] == now["xon"]


def test_limiters_are_whole_after_incasts(slowed: Star) -> None:
    """CNPs come in on one CPU while packets leave on the other: no FIFO loses one, every count is right."""
    early = overtaken(slowed)
    for _ in range(2):
        write(slowed, [(1, 5), (2, 5), (3, 5), (4, 5)])
    maps = slowed.maps
    assert overtaken(slowed) == early
    assert maps.counters["rp_cnp_handled"].sum() > 0
    assert not maps.counters["rp_cnp_failed"].any()
    assert not maps.counters["queue"]["drop_packets"][:, PRIORITY].any()
    for node in slowed.numbering.nodes.values():
        for interface in node.interfaces[: node.nics]:
            limiters = maps.limiters[node.nic(interface) * LIMITERS :][:LIMITERS]
            assert limiters["started"].sum() == maps.ports["state"]["limited"][node.port(interface)]
            assert not (limiters["waiting"] | limiters["in_queue"]).any()
