"""What looks wrong on the way of packets: MTUs, and what routers and hosts report by ICMP."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from lab.analysis.facts import Finding
from lab.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.analysis.facts import Facts, IcmpError

_EXAMPLES: Final = 10
_MEANINGS: Final = {
    "port unreachable": "nothing takes UDP port 4791 there: no RDMA device is up, or the address is wrong",
    "host unreachable": "the router has no neighbour with that address: the host is down, or its ARP or ND fails",
    "network unreachable": "the router has no route there",
    "prohibited": "an access list rejects it",
    "fragmentation needed": "a link behind this router has an MTU smaller than the packets",
    "time exceeded": "the TTL was used up on the way: a routing loop, or a TTL that is too small",
}


def path_findings(facts: Facts) -> Iterator[Finding]:
    """Losses by size, then ICMP."""
    yield from _sizes(facts)
    yield from _icmp(facts)


def _sizes(facts: Facts) -> Iterator[Finding]:
    if not facts.size_losses:
        return
    first = facts.size_losses[0]
    names = tuple(
        dict.fromkeys(f"{loss.src} to {loss.dst} QP {loss.qp:#x} at {loss.link}" for loss in facts.size_losses)
    )
    whose = names[0] if len(names) == 1 else f"{len(names)} flows, the first {names[0]}"
    yield Finding(
        f"{whose}: {counted(first.losses, 'loss', 'losses')}, all of frames of {first.least} bytes or more, "
        f"while those of up to {first.delivered} bytes arrive",
        "a link or tunnel on the path has an MTU that is too small for the QP's path MTU",
        count=len(names),
        examples=names[:_EXAMPLES],
    )


def _icmp(facts: Facts) -> Iterator[Finding]:
    groups: dict[tuple[str, str], list[IcmpError]] = defaultdict(list)
    for error in facts.icmp_errors:
        groups[error.kind, error.what].append(error)
    for (kind, what), errors in groups.items():
        first = errors[0]
        names = tuple(dict.fromkeys(f"{e.sender}, of {e.src} to {e.dst}" for e in errors))
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        mtus = sorted({error.mtu for error in errors if error.mtu})
        mtu = f", MTU {mtus[0]}" if mtus else ""
        yield Finding(
            f"{counted(sum(error.packets for error in errors), 'ICMP report')} of {kind}{mtu}, about {what} "
            f"from {first.src} to {first.dst}, by {first.sender}{more}",
            _MEANINGS[kind],
            count=len(names),
            examples=names[:_EXAMPLES],
        )
