"""How many packets a switch forwards, bare or with emulated ports: a generator before it and a counter behind.

    pktgen, CPU 0 -- veth -- swp1 [switch, the last CPU] swp2 -- veth -- packets received

The generator is the kernel's own (pktgen), which no program of user space keeps up with: it is never the bottleneck,
and what the switch has no time for is dropped before it. The packets are addressed to another host, so that the
receiver's stack counts them and drops them at once.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.dataplane import attach
from lab.dataplane.numbering import NodePorts
from lab.kernel.netlink import links
from lab.kernel.netlink.rtnl import NetlinkBatch
from lab.kernel.process import netns, process, threads, tuning
from lab.kernel.process.netns import Namespace
from tests.inside import entered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.dataplane.port_maps import Programs
    from lab.model.qos.port import NodeQos

PORTS: Final = NodePorts("s1", 0, 1, ("swp1", "swp2"), host=False)
MAC: Final = "02:00:00:00:00:11"
_NODES: Final = ("sender", "switch", "receiver")
_MTU: Final = 1500
_FAR: Final = 1000
"""Index of the far ends, each in its own namespace."""
_SWITCH: Final = """
addr add 10.9.0.0/31 dev swp1
addr add 10.9.0.2/31 dev swp2
neigh replace 10.9.0.3 lladdr 02:00:00:00:00:99 dev swp2
"""
_GENERATE: Final = (
    "count 0;pkt_size 60;dst 10.9.0.3;src_min 10.9.0.1;src_max 10.9.0.1;udp_dst_min 4791;udp_dst_max 4791;"
    f"dst_mac {MAC}"
)
"""A port takes the packets for RoCEv2, by their UDP port. pktgen's own words are in place of the BTH."""
_SETTLE: Final = 0.5
_PKTGEN: Final = Path("/proc/thread-self/net/pktgen")


@dataclass(frozen=True, slots=True)
class Line:
    """The three namespaces of one switch."""

    sender: Namespace
    switch: Namespace
    receiver: Namespace

    def packets_per_second(self, seconds: float, tos: int) -> float:
        """Return the packets received while the generator floods the switch; ``tos`` is the IPv4 octet."""
        with ThreadPoolExecutor(1) as pool:
            generator = pool.submit(self._generate, tos)
            try:
                time.sleep(_SETTLE)
                began, before = time.monotonic(), self._received()
                time.sleep(seconds)
                rate = (self._received() - before) / (time.monotonic() - began)
            finally:
                with entered(self.sender):
                    (_PKTGEN / "pgctrl").write_text("stop")
            generator.result()
        return rate

    def _generate(self, tos: int) -> None:
        with entered(self.sender):
            (_PKTGEN / "eth1").write_text(f"tos {tos:x}")
            (_PKTGEN / "pgctrl").write_text("start")

    def _received(self) -> int:
        with entered(self.receiver):
            lines = Path("/proc/thread-self/net/dev").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[2]) for line in lines if line.split()[0] == "eth1:")


@contextmanager
def line(name: str, qos: NodeQos | None, programs: Programs | None) -> Iterator[Line]:
    """A switch between two hosts; its interfaces are emulated ports where there are ``programs``."""
    made = Line(*(Namespace(f"bench-{name}-{node}") for node in _NODES))
    with ExitStack() as stack:
        stack.callback(netns.delete, [made.sender.name, made.switch.name, made.receiver.name])
        netns.create([made.sender.name, made.switch.name, made.receiver.name])
        for namespace in (made.sender, made.switch, made.receiver):
            with entered(namespace):
                tuning.write_sysctls({"net/ipv6/conf/all/disable_ipv6": 1, "net/ipv6/conf/default/disable_ipv6": 1})
        _cable(made.sender, made.switch, "swp1")
        _cable(made.receiver, made.switch, "swp2")
        with entered(made.switch):
            batch = NetlinkBatch()
            if qos is not None and programs is not None:
                links.set_up(batch, links.LOOPBACK_INDEX, "lo")
                attach.attach(batch, PORTS, qos, programs)
            for interface in PORTS.interfaces:
                links.set_up(batch, PORTS.index(PORTS.port(interface)), interface)
            batch.commit()
            tuning.write_sysctls({"net/ipv4/ip_forward": 1})
            process.run(["ip", "-batch", "-"], stdin=_SWITCH)
        threads.in_thread(lambda: _steer(made))
        with entered(made.sender):
            (_PKTGEN / "kpktgend_0").write_text("add_device eth1")
            for command in _GENERATE.split(";"):
                (_PKTGEN / "eth1").write_text(command)
        yield made


def _cable(host: Namespace, switch: Namespace, interface: str) -> None:
    with host.path.open() as far, switch.path.open() as near:
        batch = NetlinkBatch()
        links.add_veth(
            batch,
            links.VethEnd(near.fileno(), interface, PORTS.index(PORTS.port(interface)), MAC, _MTU),
            links.VethEnd(far.fileno(), "eth1", _FAR, "02:00:00:00:00:22", _MTU),
        )
        batch.commit()
    with entered(host):
        links.set_up(batch, _FAR, "eth1")
        batch.commit()


def _steer(made: Line) -> None:
    """The switch has a CPU that is not the generator's, where there are two."""
    tuning.own_mounts()
    last = max(os.sched_getaffinity(0))
    for namespace, interface in ((made.switch, "swp1"), (made.receiver, "eth1")):
        with entered(namespace):
            tuning.steer_receive({interface: last})
