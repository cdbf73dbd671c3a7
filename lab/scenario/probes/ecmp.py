"""ECMP decisions of switches, for running flows (by their source ports) and for hypothetical ones."""

from __future__ import annotations

import re
import time
from itertools import count
from math import sqrt
from typing import TYPE_CHECKING, Final

from lab.model.hosts import parse_pair
from lab.rdma.nic_choice import find_nic
from lab.scenario.traffic.workload import said
from lab.wire.udp_ports import ROCEV2_PORT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence, Sized

    from lab.faults.ledger import Entry
    from lab.kernel.process.process import Completed
    from lab.scenario.stage import Stage
    from lab.telemetry.read.recording import Recording

_SEEN: Final = 100
"""Packets captured at a time to find the source ports of a host's QPs."""
_FIRST: Final = 1000
"""The number of hash seeds of a run, before those of the next run begin."""
_SIGMAS: Final = 5
_ASKED: Final = ("ip", "-batch", "-")
_WAY: Final = re.compile(r" dev (\S+)")


def source_ports(stage: Stage, host: str, qps: int) -> list[int]:
    """Return the UDP source ports of all QPs of a writing host or NIC, as captured by tcpdump(8).

    Raises OperationFailed if there are fewer than ``qps``: two QPs may share one by chance.
    """
    nic = find_nic(stage.fabric, host)
    words = (
        "tcpdump",
        "-i",
        nic.interface,
        "-c",
        str(_SEEN),
        "-n",
        "-Q",
        "out",
        f"src host {nic.address} and udp dst port {ROCEV2_PORT}",
    )
    found: set[int] = set()

    def all_seen() -> bool:
        shown = nic.namespace.run(words).stdout
        found.update(int(port) for port in re.findall(rf"{re.escape(str(nic.address))}\.(\d+) > ", shown))
        return len(found) >= qps

    stage.until(all_seen, f"{qps} source ports of {host}")
    return sorted(found)


def ways(stage: Stage, pair: str, came: str, ports: Iterable[int]) -> dict[int, str]:
    """Return, by source port, the interface by which a switch would send a pair's RoCEv2 packets. Not recorded.

    The packets enter by the port ``came``, for example ``leaf1:swp3``. The switch's kernel decides (``ip route
    get``).
    """
    asked = list(ports)
    return _read(asked, _ask(stage, pair, came, asked).stdout)


def show_ways(stage: Stage, pair: str, came: str, ports: Iterable[int]) -> None:
    """Record the interface by which a switch would send a pair's RoCEv2 packets, a line for each source port."""
    began = time.monotonic_ns()
    stage.recorder.command(came.partition(":")[0], _ASKED, _ask(stage, pair, came, ports), began=began)


def ways_shown(rec: Recording, phase: str, ports: Iterable[int]) -> Mapping[int, str]:
    """Return the result of a phase's ``show_ways`` by source port. Raises UsageError if there was none."""
    return _read(list(ports), said(rec, phase, "ip"))


def moved(before: Mapping[int, str], after: Mapping[int, str]) -> set[int]:
    """Return the source ports of flows that changed their path."""
    return {port for port, way in before.items() if after.get(port) != way}


def moves_shown(
    rec: Recording, before: str, after: str, ports: Sequence[int], lost: str
) -> tuple[set[int], set[int]]:
    """Return the flows that changed their path between two phases, and those that used the port ``lost`` before."""
    had, have = (ways_shown(rec, phase, ports) for phase in (before, after))
    return moved(had, have), {port for port, way in had.items() if way == way_of(lost)}


def is_share(found: Sized, share: float, of: Sized) -> bool:
    """Return whether a number of flows is within 5 sigma of an expected share (binomial distribution)."""
    return abs(len(found) / len(of) - share) < _SIGMAS * sqrt(share * (1 - share) / len(of))


def way_of(port: str) -> str:
    """Return the interface of a port: ``swp1`` of ``leaf1:swp1``."""
    return port.partition(":")[2]


def draw(stage: Stage, node: str, fits: Callable[[], bool]) -> Entry:
    """Set a switch's hash seed to one value after the other until ``fits`` returns True. Heal the returned entry."""
    drawn = stage.inject("ecmp-hash", node, seed=_FIRST * stage.seed)
    for seed in count(_FIRST * stage.seed):
        stage.run(node, "sysctl", "-qw", f"net.ipv4.fib_multipath_hash_seed={seed}")
        if fits():
            break
    return drawn


def _ask(stage: Stage, pair: str, came: str, ports: Iterable[int]) -> Completed:
    src, dst = (find_nic(stage.fabric, name).address for name in parse_pair(pair))
    node, _, interface = came.partition(":")
    lines = [
        f"route get {dst} from {src} iif {interface} ipproto udp sport {port} dport {ROCEV2_PORT}\n" for port in ports
    ]
    return stage.fabric.namespace(node).run(_ASKED, stdin="".join(lines))


def _read(ports: list[int], shown: str) -> dict[int, str]:
    """Parse the answers of ip. Each begins with the address; continuation lines are indented."""
    answers = [line for line in shown.splitlines() if line and not line.startswith(" ")]
    found = [match.group(1) for line in answers if (match := _WAY.search(line))]
    return dict(zip(ports, found, strict=True))
