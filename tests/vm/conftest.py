"""Two hosts with RDMA and a router between them, made with plain ``ip``, shaped so that theory gives the figures."""

from __future__ import annotations

import itertools
import os
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

import pytest

from lab.kernel.process import netns, process
from lab.kernel.process.netns import Namespace
from lab.rdma import rxe, sysfs
from lab.rdma.measure import Nic, Pair

from .queue_pair import Verbs
from .shared_fabric import SharedFabric

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.backends.backend import Fabric

RATE: Final = 20_000_000
"""Bits per second of each direction of each link: what a software-emulated machine still carries when its two CPUs
have six times the work that they can do."""
MTU: Final = 4300
_SETUP: Final = """
link add eth1 netns {a} mtu {mtu} type veth peer name swp1 netns {r} mtu {mtu}
link add eth1 netns {b} mtu {mtu} type veth peer name swp2 netns {r} mtu {mtu}
-n {r} addr add 10.9.0.0/31 dev swp1
-n {a} addr add 10.9.0.1/31 dev eth1
-n {r} addr add 10.9.0.2/31 dev swp2
-n {b} addr add 10.9.0.3/31 dev eth1
-n {r} addr add fdc9:1::1/64 dev swp1 nodad
-n {a} addr add fdc9:1::2/64 dev eth1 nodad
-n {r} addr add fdc9:2::1/64 dev swp2 nodad
-n {b} addr add fdc9:2::2/64 dev eth1 nodad
-n {a} link set eth1 up
-n {b} link set eth1 up
-n {r} link set swp1 up
-n {r} link set swp2 up
-n {a} route add default via 10.9.0.0
-n {b} route add default via 10.9.0.2
-n {a} route add default via fdc9:1::1
-n {b} route add default via fdc9:2::1
"""
_PINNED: Final = "echo {mask} > /sys/class/net/{interface}/queues/rx-0/rps_cpus"


@dataclass(frozen=True)
class Path:
    """h1 -- router -- h2."""

    a: Namespace
    router: Namespace
    b: Namespace

    def nic(self, host: str, address: str) -> Nic:
        """The interface of ``h1`` or ``h2``, meant by one of its addresses."""
        namespace = {"h1": self.a, "h2": self.b}[host]
        return Nic(host, "eth1", namespace, self.device(host), ip_address(address))

    def device(self, host: str) -> str:
        """The RDMA device of ``h1`` or ``h2``."""
        return rxe.device_name("vmtest", f"{host}-{os.getpid()}", "eth1")

    @property
    def pair(self) -> Pair:
        """h1 -> h2 over IPv4."""
        return Pair(self.nic("h1", "10.9.0.1"), self.nic("h2", "10.9.0.3"))

    @property
    def back(self) -> Pair:
        """h2 -> h1 over IPv4."""
        return Pair(self.pair.dst, self.pair.src)

    @property
    def pair6(self) -> Pair:
        """h1 -> h2 over IPv6."""
        return Pair(self.nic("h1", "fdc9:1::2"), self.nic("h2", "fdc9:2::2"))

    def shape(self, *extra: str) -> None:
        """Give each direction of each link its rate; ``extra`` is for netem on the router's side towards h2."""
        for namespace, interface in (
            (self.a, "eth1"),
            (self.b, "eth1"),
            (self.router, "swp1"),
            (self.router, "swp2"),
        ):
            words = ["netem", "limit", "4000", "rate", f"{RATE}bit", *(extra if interface == "swp2" else ())]
            namespace.run(["tc", "qdisc", "replace", "dev", interface, "root", *words])


@contextmanager
def two_hosts() -> Iterator[Path]:
    """The path, for as long as it is needed."""
    names = {key: f"rv-{os.getpid()}-{key}" for key in "arb"}
    path = Path(*(Namespace(names[key]) for key in "arb"))
    rxe.check()
    netns.create(list(names.values()))
    try:
        for line in _SETUP.format(**names, mtu=MTU).strip().splitlines():
            process.run(["ip", *line.split()])
        path.router.run(["sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"])
        # veth hands packets over on the CPU that sends them; one CPU per receiver keeps them in order.
        ends = ((path.a, "eth1"), (path.router, "swp1"), (path.router, "swp2"), (path.b, "eth1"))
        cpus = itertools.cycle(sorted(os.sched_getaffinity(0)))
        for (namespace, interface), cpu in zip(ends, cpus, strict=False):
            script = _PINNED.format(mask=f"{1 << cpu:x}", interface=interface)
            process.run(["ip", "netns", "exec", namespace.name, "sh", "-c", script])
        for host, namespace in (("h1", path.a), ("h2", path.b)):
            rxe.create(namespace, path.device(host), "eth1")
        yield path
    finally:
        for host in ("h1", "h2"):
            rxe.delete(path.device(host))
        netns.delete(names.values())
        assert not any(sysfs.exists(path.device(host)) for host in ("h1", "h2"))


@pytest.fixture(scope="module")
def built() -> Iterator[Path]:
    """The path, once for a module."""
    with two_hosts() as path:
        yield path


@pytest.fixture(scope="module")
def verbs(built: Path) -> Iterator[Verbs]:
    """A process at h2 that makes queue pairs: one for all, because it takes seconds to start without KVM."""
    with Verbs(built.b) as verbs:
        yield verbs


@pytest.fixture
def path(built: Path) -> Path:
    """The path, clean: only its rate limits it."""
    built.shape()
    return built


@pytest.fixture(scope="session")
def shared_fabric() -> Iterator[SharedFabric]:
    """The fabric that is up, for all files of the session."""
    shared = SharedFabric()
    yield shared
    shared.turn_to("")


@pytest.fixture(scope="module")
def incast(shared_fabric: SharedFabric) -> Iterator[Fabric]:
    """topologies/incast.yaml, which each file leaves as it found it."""
    yield shared_fabric.up("incast")
    shared_fabric.settle()
