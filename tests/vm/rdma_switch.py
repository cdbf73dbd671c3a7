"""One switch whose hosts have RDMA devices, as ``lab.rdma`` takes them."""

from __future__ import annotations

from contextlib import contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING

from lab.dataplane import qp_pairs
from lab.rdma import rxe
from lab.rdma.measure import Nic
from tests.vm.one_switch import SWITCH, Star, build

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def with_rdma(text: str) -> Iterator[Star]:
    """The fabric of a topology's text, with a device on each host."""
    rxe.check()
    with build(text) as built:
        qp_pairs.learn(built.topology.name)
        hosts = [host for host in built.namespaces if host != SWITCH]
        try:
            for host in hosts:
                rxe.create(built.namespaces[host], device(built, host), "eth1")
            yield built
        finally:
            for host in hosts:
                rxe.delete(device(built, host))


def device(fabric: Star, host: str) -> str:
    return rxe.device_name(fabric.topology.name, host, "eth1")


def nic(fabric: Star, host: str) -> Nic:
    return Nic(host, "eth1", fabric.namespaces[host], device(fabric, host), ip_address(fabric.address(host)))
