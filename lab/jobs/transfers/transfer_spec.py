"""The requests of a transfer: their hosts, sizes and times; validated on creation."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from lab.errors import UsageError
from lab.jobs.job_spec import MAX_JOB_SIZE
from lab.jobs.rank_program import ELEMENT_OCTETS
from lab.rdma.measure import DEFAULT_TCLASS, check_tclass
from lab.units import format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.rdma.measure import Nic

MAX_REQUESTS: Final = 1000
"""Requests of a host."""
MAX_INTERVAL: Final = 60.0
"""Seconds between two requests of a host."""
MAX_HELD: Final = 256 * 2**20
"""Bytes of all requests at one host. Each request has memory of its own."""


class TransferVerb(StrEnum):
    """The direction of the data, seen from the host that makes the request."""

    WRITE = "write"
    """To the target: a KV cache goes to its decode host, a checkpoint to storage."""
    READ = "read"
    """From the target: a dataset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSpec:
    """Requests without their hosts. UsageError if a value is not possible."""

    size: int
    """Bytes of a request."""
    requests: int = 10
    """Requests of each host."""
    interval: float = 0.0
    """Mean seconds between two requests of a host; with 0, a request begins when the one before is complete."""
    seed: int | None = None
    """The seed of exponential intervals, as those of independent users; None for equal intervals."""
    verb: TransferVerb = TransferVerb.WRITE
    tclass: int = DEFAULT_TCLASS
    """IP traffic class of the RDMA packets: DSCP * 4 + ECN."""

    def __post_init__(self) -> None:
        if self.size < ELEMENT_OCTETS:
            raise UsageError(f"a size of {self.size} bytes is too small", f"use at least {ELEMENT_OCTETS} bytes")
        if self.size > MAX_JOB_SIZE:
            raise UsageError(
                f"size {format_size(self.size)} is too large", f"use at most {format_size(MAX_JOB_SIZE)}"
            )
        if not 1 <= self.requests <= MAX_REQUESTS:
            raise UsageError(f"{self.requests} requests are out of range", f"use 1 to {MAX_REQUESTS}")
        if not 0 <= self.interval <= MAX_INTERVAL:
            raise UsageError(
                f"an interval of {format_time(self.interval)} is out of range", f"use 0s to {MAX_INTERVAL:g}s"
            )
        if self.seed is not None and not self.interval:
            raise UsageError("random arrivals need an interval", "add --interval, or leave out --seed")
        check_tclass(self.tclass)

    @property
    def octets(self) -> int:
        """Bytes of a request in whole elements, which is what is transferred."""
        return self.size - self.size % ELEMENT_OCTETS

    def arrivals(self, initiator: int) -> list[int | None]:
        """Return when each request of a host begins, in ns after the start; None after the request before."""
        if not self.interval:
            return [None] * self.requests
        if self.seed is None:
            return [round(number * self.interval * 1e9) for number in range(self.requests)]
        draws = random.Random(f"{self.seed} {initiator}")  # noqa: S311 - not a secret
        found, now = list[int | None](), 0.0
        for _ in range(self.requests):
            now += draws.expovariate(1 / self.interval)
            found.append(round(now * 1e9))
        return found


def target_of(initiator: int, number: int, targets: int) -> int:
    """Return the target of a host's request: each host uses all targets in turn, beginning at its own number."""
    return (initiator + number) % targets


def plans(spec: TransferSpec, initiators: Sequence[Nic], targets: Sequence[Nic]) -> list[bytes]:
    """Return the plan of each host for ``transfer_program``: first those that make requests, then their targets.

    UsageError if the requests of a host need more memory than it may use.
    """
    ours: list[list[dict[str, Any]]] = [[] for _ in initiators]
    held: list[list[int]] = [[] for _ in (*initiators, *targets)]
    arrivals = [spec.arrivals(initiator) for initiator in range(len(initiators))]
    for number in range(spec.requests):
        for initiator, requests in enumerate(ours):
            target = len(initiators) + target_of(initiator, number, len(targets))
            scale = 1 + number * len(initiators) + initiator
            arrival = arrivals[initiator][number]
            requests.append({"target": target, "slot": len(held[target]), "arrival_ns": arrival})
            held[initiator].append(scale)
            held[target].append(scale)
    for nic, scales in zip((*initiators, *targets), held, strict=True):
        if len(scales) * spec.octets > MAX_HELD:
            raise UsageError(
                f"{len(scales)} requests of {format_size(spec.size)} at {nic} are more than {format_size(MAX_HELD)}",
                "use a smaller --size, or fewer --requests",
            )
    writes = spec.verb is TransferVerb.WRITE
    return [
        json.dumps(
            {
                "address": str(nic.address),
                "device": nic.device,
                "size": spec.octets,
                "verb": spec.verb,
                "scales": held[rank],
                "filled": writes == (rank < len(initiators)),
                "requests": ours[rank] if rank < len(initiators) else [],
                "targets": sorted({each["target"] for each in ours[rank]}) if rank < len(initiators) else [],
            }
        ).encode()
        for rank, nic in enumerate((*initiators, *targets))
    ]
