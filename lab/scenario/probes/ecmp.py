"""By which of its equal ways a switch sends flows: those that run, by their source ports, and those that might."""

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
"""Packets of a host that are looked at in one go for the source ports of its QPs."""
_FIRST: Final = 1000
"""Seeds that a run may try before it comes to those of the next."""
_SIGMAS: Final = 5
_ASKED: Final = ("ip", "-batch", "-")
_WAY: Final = re.compile(r" dev (\S+)")


def source_ports(stage: Stage, host: str, qps: int) -> list[int]:
    """The UDP source ports of all QPs of a host or one of its NICs, which writes, as tcpdump(8) sees them.

    OperationFailed when there are not so many: two QPs may have one by chance.
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
    """By which interface a switch would send RoCEv2 of a pair now, by source port; to look at, and not recorded.

    The packets come in by ``came``, ``leaf1:swp3``. It is the switch's kernel that says so (``ip route get``).
    """
    asked = list(ports)
    return _read(asked, _ask(stage, pair, came, asked).stdout)


def show_ways(stage: Stage, pair: str, came: str, ports: Iterable[int]) -> None:
    """Record by which interface a switch would send RoCEv2 of a pair, a line for each source port in turn."""
    began = time.monotonic_ns()
    stage.recorder.command(came.partition(":")[0], _ASKED, _ask(stage, pair, came, ports), began=began)


def ways_shown(rec: Recording, phase: str, ports: Iterable[int]) -> Mapping[int, str]:
    """By which interface, by source port, as ``show_ways`` of a phase had it; UsageError when there was none."""
    return _read(list(ports), said(rec, phase, "ip"))


def moved(before: Mapping[int, str], after: Mapping[int, str]) -> set[int]:
    """The source ports of the flows that take another way than before."""
    return {port for port, way in before.items() if after.get(port) != way}


def moves_shown(
    rec: Recording, before: str, after: str, ports: Sequence[int], lost: str
) -> tuple[set[int], set[int]]:
    """The flows that take another way in a second phase, and those that were on the port ``lost`` in the first."""
    had, have = (ways_shown(rec, phase, ports) for phase in (before, after))
    return moved(had, have), {port for port, way in had.items() if way == way_of(lost)}


def is_share(found: Sized, share: float, of: Sized) -> bool:
    """Whether that many of so many are a share that chance allows: 5 sigma of the binomial distribution."""
    return abs(len(found) / len(of) - share) < _SIGMAS * sqrt(share * (1 - share) / len(of))


def way_of(port: str) -> str:
    """The interface of a port: ``swp1`` of ``leaf1:swp1``."""
    return port.partition(":")[2]


def draw(stage: Stage, node: str, fits: Callable[[], bool]) -> Entry:
    """Seeds of a switch's hash, one after the other from the run's own on, until ``fits`` says so; to be healed."""
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
    """Each answer begins with the address asked for; what belongs to it is indented."""
    answers = [line for line in shown.splitlines() if line and not line.startswith(" ")]
    found = [match.group(1) for line in answers if (match := _WAY.search(line))]
    return dict(zip(ports, found, strict=True))
