"""A slow receiver: not the network is congested but the host, whose full NIC pauses its switch."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

import pytest

from lab.rdma import device_counters, rxe
from lab.rdma.measure import BandwidthTest, Nic, Pair
from lab.rdma.perftest import measure_bandwidth
from tests.vm.one_switch import OVERHEAD, SWITCH, Star, balanced, build, ports, settle, star

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.vm, pytest.mark.timeout(300)]

RATE: Final = 40_000_000
DRAIN: Final = 10_000_000
QOS: Final = (
    "{fabric: [pfc-ecn, roomy], interfaces: {'h2:eth1': slow},"
    " profiles: {slow: {nic: {drain: 10Mbit}}, roomy: {buffer: {groups: {3: {headroom: 600KB}}}}}}"
)


@pytest.fixture
def fabric() -> Iterator[Star]:
    with build(star(2, f"{RATE}bit", 4500, QOS)) as built:
        try:
            for host in ("h1", "h2"):
                rxe.create(built.namespaces[host], device(built, host), "eth1")
            yield built
        finally:
            for host in ("h1", "h2"):
                rxe.delete(device(built, host))


def device(fabric: Star, host: str) -> str:
    return rxe.device_name(fabric.topology.name, host, "eth1")


def nic(fabric: Star, host: str) -> Nic:
    return Nic(host, "eth1", fabric.namespaces[host], device(fabric, host), ip_address(fabric.address(host)))


def test_a_slow_receiver_pauses_its_switch_and_nothing_is_lost(fabric: Star) -> None:
    before = device_counters.snapshot([device(fabric, host) for host in ("h1", "h2")])
    (result,) = measure_bandwidth([Pair(nic(fabric, "h1"), nic(fabric, "h2"))], BandwidthTest(duration=4))
    settle(fabric)
    now = ports(fabric)
    assert result.goodput_bps == pytest.approx(DRAIN * 4096 / (4096 + 58 + OVERHEAD), rel=0.03)
    assert now["h2", "eth1"]["priority"][3]["tx_pause"] > 0
    assert now[SWITCH, "swp2"]["priority"][3]["rx_pause"] == now["h2", "eth1"]["priority"][3]["tx_pause"]
    assert now[SWITCH, "swp1"]["priority"][3]["tx_pause"] > 0, "the switch passes the pressure on"
    assert not any(port["queue"]["drop_packets"].sum() for port in now.values())
    assert all(balanced(port) for port in now.values())
    for name, old in before.items():
        moved = device_counters.moved(old, device_counters.read(name))
        assert not [counter for counter in moved if device_counters.meaning(counter).trouble]
