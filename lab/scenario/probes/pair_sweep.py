"""The pair sweep: a few small packets from each NIC to every other that it can reach, counted and timed on arrival.

It sends in the class of RoCE, and proves for each direction of each pair that packets pass. It does not choose paths.
"""

from __future__ import annotations

from itertools import permutations
from statistics import median
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed
from lab.kernel.packets.sweep import SweepFlow, Tally, sweep
from lab.model.hosts import address_of
from lab.scenario.probes.nic_rings import host_of, nic_pairs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from ipaddress import IPv4Address, IPv6Address

    from lab.scenario.stage import Stage

_PORT: Final = 61300
"""The UDP source port: above those of the path sweep."""
_ROUNDS: Final = 3
LONGEST_OF_PAIRS: Final = 3
"""Seconds: the rounds, and a second for what is late, twice."""
_PAUSE: Final = 0.01
"""Seconds between rounds."""
_LATE: Final = 150_000
"""Nanoseconds above twice the median delay from which the rounds are repeated."""
MOST: Final = 20_000
"""The maximum number of directed pairs: those of 141 NICs."""
_WHAT: Final = "a sweep between all pairs of NICs"


def sweep_pairs(stage: Stage, absent: Collection[str] = ()) -> None:
    """Sweep between all NICs that can reach each other, and record what was sent and received, in one note.

    NICs without an address, and those of ``absent`` hosts, are left out. Beyond ``MOST`` pairs nothing is sent.
    Then, and if a receiver's buffer overflows, the note says so.
    """
    flows = dict(_flows(stage, absent))
    if not flows:
        return
    if len(flows) > MOST:
        stage.recorder.note("held back", said=f"{_WHAT}: {len(flows)} directed pairs, of {MOST} at most")
        return
    try:
        tallies = _swept(list(flows.values()))
    except (OSError, OperationFailed) as error:
        stage.recorder.note("gave up", said=f"no sweep between all pairs: {error}")
        return
    if tallies is None:
        stage.recorder.note("held back", said=f"{_WHAT}: a receiver's buffer overflowed")
        return
    stage.recorder.note(
        "swept pairs",
        pairs=[
            [src, dst, each.sent, each.came, min(each.delays, default=None)]
            for (src, dst), each in zip(flows, tallies, strict=True)
        ],
    )


def _swept(flows: Sequence[SweepFlow]) -> list[Tally] | None:
    """Return the packets of all rounds; None if a receiver's buffer overflowed.

    A busy machine delays all packets of a NIC for some milliseconds, or the first packets of each round. So late ones
    are confirmed by as many more rounds in the reverse order: a link that is slow is slow again.
    """
    tallies = sweep(flows, 0, _ROUNDS, 0, _PAUSE)
    least = [min(each.delays) for each in tallies or () if each.delays]
    if tallies is None or not least or max(least) <= 2 * median(least) + _LATE:
        return tallies
    again = sweep(flows[::-1], 0, _ROUNDS, 0, _PAUSE)
    if again is None:
        return None
    return [
        Tally(one.sent + other.sent, one.came + other.came, delays=one.delays + other.delays)
        for one, other in zip(tallies, reversed(again), strict=True)
    ]


def _flows(stage: Stage, absent: Collection[str]) -> Iterator[tuple[tuple[str, str], SweepFlow]]:
    fabric = stage.fabric
    pairs = [pair for pair in nic_pairs(fabric.topology) if not {host_of(nic) for nic in pair} & set(absent)]
    ends = {
        nic: (label, address)
        for nic in dict.fromkeys(nic for pair in pairs for nic in pair)
        for label, address in [_addressed(stage, nic)]
    }
    for pair in pairs:
        for src, dst in permutations(pair):
            (_, source), (interface, target) = ends[src], ends[dst]
            if source is not None and target is not None and source.version == target.version:
                yield (src, dst), SweepFlow(
                    sender=fabric.namespace(host_of(src)), receiver=fabric.namespace(host_of(dst)),
                    interface=interface, src=source, dst=target, port=_PORT,
                )  # fmt: skip


def _addressed(stage: Stage, nic: str) -> tuple[str, IPv4Address | IPv6Address | None]:
    """Return the interface of a NIC that has its address, and the address."""
    host, _, interface = nic.partition(":")
    plan = stage.fabric.plan
    for label, known in plan[host].interfaces.items():
        if known.address is not None and interface in {"", label}:
            return label, address_of(plan, f"{host}:{label}")
    return "", None
