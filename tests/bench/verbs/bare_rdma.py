"""The throughput of ``ib_write_bw`` alone, over three routers in namespaces that ``ip`` and ``tc`` have made."""

from __future__ import annotations

import contextlib
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed
from lab.kernel.process import netns, process
from lab.kernel.process.netns import Namespace
from lab.model.shaping import shaper_limit
from lab.rdma import rxe, sysfs
from lab.units import WIRE_OVERHEAD
from tests.inside import entered

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NODES: Final = tuple(Namespace(f"bare-{name}") for name in ("h1", "leaf1", "spine", "leaf2", "h2"))
DEVICES: Final = ("bare.h1", "bare.h2")
_PORT: Final = 18515
_LISTENING: Final = f":{_PORT:04X} 00000000:0000 0A"
_ADDRESSES: Final = (IPv4Address("10.9.0.0"), IPv4Address(f"10.9.{len(NODES) - 2}.1"))
"""Addresses of the first and the last node. Link N joins nodes N and N + 1 as 10.9.N.0/31."""


@contextlib.contextmanager
def chain(rate: int, mtu: int) -> Iterator[None]:
    """The namespaces, their links of ``rate`` bit/s and ``mtu`` bytes, and an rxe device at either end."""
    netns.create([node.name for node in NODES])
    try:
        for number in range(len(NODES) - 1):
            _join(number, rate, mtu)
        for place, node in enumerate(NODES):
            node.run(["ip", "-batch", "-"], stdin="".join(_routes(place)))
            node.run(["sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"])
        for node, device, interface in zip((NODES[0], NODES[-1]), DEVICES, ("right", "left"), strict=True):
            rxe.create(node, device, interface)
        yield
    finally:
        for device in DEVICES:
            rxe.delete(device)
        netns.delete([node.name for node in NODES])


def _join(number: int, rate: int, mtu: int) -> None:
    """Veth ``right`` of a node to ``left`` of the next, shaped as rocelab shapes its links."""
    a, b = NODES[number : number + 2]
    peer = ["peer", "name", "left", "mtu", str(mtu), "netns", b.name]
    a.run(["ip", "link", "add", "right", "mtu", str(mtu), "type", "veth", *peer])
    burst, limit = 2 * max(rate // 8000, mtu + WIRE_OVERHEAD), shaper_limit(rate, mtu)
    shaper = [
        "tbf",
        "rate",
        f"{rate}bit",
        "burst",
        f"{burst}",
        "limit",
        f"{limit}",
        "overhead",
        f"{WIRE_OVERHEAD}",
    ]
    for node, interface, address in ((a, "right", f"10.9.{number}.0/31"), (b, "left", f"10.9.{number}.1/31")):
        node.run(["ip", "address", "add", address, "dev", interface])
        node.run(["ip", "link", "set", interface, "up"])
        node.run(["tc", "qdisc", "add", "dev", interface, "root", *shaper])


def _routes(place: int) -> list[str]:
    """To either end, by the neighbour on that side."""
    left = [f"route add 10.9.0.0/31 via 10.9.{place - 1}.0\n"] if place > 1 else []
    last = len(NODES) - 2
    right = [f"route add 10.9.{last}.0/31 via 10.9.{place}.1\n"] if place < last else []
    return left + right


def goodput(options: Sequence[str]) -> float:
    """Payload bit/s that ``ib_write_bw`` with these options reports."""
    tool = process.find_tool("ib_write_bw", "perftest")
    sides = []
    for device, address in zip(DEVICES, _ADDRESSES, strict=True):
        place = ["--ib-dev", device, "--gid-index", str(sysfs.gid_index(device, address)), "--port", str(_PORT)]
        sides.append([tool, *options, *place, "--report_gbits"])
    client, server = sides
    running = NODES[-1].start(server)
    try:
        if not sysfs.until(_listening, 60):
            raise OperationFailed("the bare ib_write_bw server does not listen")
        said = NODES[0].run([*client, str(_ADDRESSES[1])], timeout=120).stdout
        running.wait(60)
    finally:
        process.stop(running)
    return _average(said)


def _listening() -> bool:
    with entered(NODES[-1]):
        table = Path("/proc/thread-self/net/tcp").read_text(encoding="ascii")
    return _LISTENING in table


def _average(said: str) -> float:
    """The column ``BW average[Gb/sec]`` of perftest's table: size, iterations, peak, average, message rate."""
    for line in said.splitlines():
        words = line.split()
        if len(words) == 5 and words[0].isdigit():
            return float(words[3]) * 1e9
    raise OperationFailed(f"ib_write_bw printed no table: {said.strip()[-200:]}")
