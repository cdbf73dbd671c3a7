"""Symptoms of ACKs that arrive too late: packets are retransmitted although nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.diagnose.symptom import Evidence, Sign, not_sending
from lab.diagnose.symptoms.pause_symptoms import FOREVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.diagnose.facts import Lane, WindowFacts

_TWICE: Final = 20
"""Packets that a NIC receives twice, from which on they are no chance."""
_PAUSED: Final = 0.2
"""Share of the time that a class must be paused to hold ACKs back."""
_LOSSES: Final = ("out_of_seq_request", "rcvd_seq_err")
"""Counters of RDMA devices that report a missing packet."""
_TIMEOUTS: Final = "completer_retry_err"
_AGAIN: Final = "duplicate_request"


def acks_wait_behind_a_pause(facts: WindowFacts) -> Iterator[Sign]:
    """A NIC's QPs time out, its receivers get packets twice, nothing is lost, and the receivers' class is paused."""
    lost = any(lane.dropped for lane in facts.lanes.values())
    if lost or any(device.get(name) for device in facts.devices.values() for name in _LOSSES):
        return
    for nic, counters in facts.devices.items():
        late = [
            (other, held, device.get(_AGAIN, 0))
            for other, device in facts.devices.items()
            if other != nic and device.get(_AGAIN, 0) >= _TWICE and _may_write(facts, nic, other)
            for held in [_held(facts, other)]
            if held is not None
        ]
        if late and counters.get(_TIMEOUTS, 0):
            yield Sign(nic, tuple(_evidence(facts, nic, late)), weight=0.9, priority=late[0][1].priority)


def _evidence(facts: WindowFacts, nic: str, late: list[tuple[str, Lane, int]]) -> Iterator[Evidence]:
    timeouts = facts.devices[nic][_TIMEOUTS]
    yield Evidence(says="ACK timeouts; no packet is lost", of=nic, source=_TIMEOUTS, value=timeouts, at=facts.end)
    for other, held, twice in late[:2]:
        yield Evidence(says="packets received twice", of=other, source=_AGAIN, value=twice, at=facts.end)
        yield not_sending(facts, held)


def _may_write(facts: WindowFacts, src: str, dst: str) -> bool:
    """Whether a NIC writes to another, as far as transfers are known."""
    return not facts.transfers or any((each.src, each.dst) == (src, dst) for each in facts.transfers)


def _held(facts: WindowFacts, nic: str) -> Lane | None:
    """Return the lossless lane by which a NIC sends, if it is paused for a good part of the time."""
    lanes = [facts.lane(port.name, n) for port in facts.links_of(nic) for n in facts.lossless(port.name)]
    return next((lane for lane in lanes if _PAUSED < lane.paused < FOREVER), None)
