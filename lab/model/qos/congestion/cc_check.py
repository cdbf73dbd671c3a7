"""Check the congestion control of a host's port: contradictions, and registers that cannot work at the lab's rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from lab.model.qos.congestion.cc_registers import RATES, CcAlgorithm
from lab.model.qos.port import Trust, members
from lab.model.qos.presets import ROCE_DSCP
from lab.units import WIRE_OVERHEAD, format_rate, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.model.qos.congestion.cc_registers import CcQos, CcRegisters
    from lab.model.qos.port import PortQos

FEWEST_PACKETS: Final = 8
"""Packets that must fit between two increases at the line rate.

With fewer, a QP is back at its rate before its receiver has seen enough packets to answer. Published NICs leave room
for hundreds: 300 us at 25 Gb/s are 801 packets of 1,146 bytes.
"""


class CcFault(NamedTuple):
    """An error, the settings of ``nic.cc`` that may cause it, other fields of a profile that may, and the remedy."""

    registers: tuple[str, ...]
    others: tuple[tuple[str, ...], ...]
    message: str
    remedy: str


def cc_faults(port: PortQos, frame: int) -> Iterator[CcFault]:
    """Yield the faults of a port's congestion control; ``frame`` is its largest RoCE frame in bytes."""
    if port.cc is None:
        return
    here = port.cc.registers
    yield from _rates_fit(port, port.cc, here)
    if port.cc.algorithm is CcAlgorithm.DCQCN:
        yield from _dcqcn(port, port.cc, here, frame)
    else:
        yield from _timely(port, port.cc, here, frame)
    if port.cc.np:
        yield from _cnps_arrive(port, here)


def _rates_fit(port: PortQos, cc: CcQos, here: CcRegisters) -> Iterator[CcFault]:
    for name in (name for name in RATES if name in cc.names):
        rate, published = getattr(here, name), getattr(cc.published, name)
        if rate > port.rate:
            why = _quotient(cc, published, rate)
            message = f"{name} is {format_rate(rate)}{why}, above the link's {format_rate(port.rate)}"
            yield CcFault((name, "real_rate", "preset"), (), message, "lower it, or raise real_rate")


def _dcqcn(port: PortQos, cc: CcQos, here: CcRegisters, frame: int) -> Iterator[CcFault]:
    if here.rpg_hai_rate < here.rpg_ai_rate:
        both = (
            f"{format_rate(cc.published.rpg_hai_rate)} is below rpg_ai_rate {format_rate(cc.published.rpg_ai_rate)}"
        )
        remedy = "hyper increase is the faster one: raise rpg_hai_rate"
        yield CcFault(("rpg_hai_rate", "rpg_ai_rate"), (), f"rpg_hai_rate {both}", remedy)
    yield from _increases_are_far_apart(port, cc, here, frame)


def _quotient(cc: CcQos, published: int, rate: int) -> str:
    if rate == cc.floor:
        return ", the floor of one packet in a quarter of the QP timeout"
    return f" ({format_rate(published)} / {float(cc.scale):g})" if cc.scale != 1 else ""


def _timely(port: PortQos, cc: CcQos, here: CcRegisters, frame: int) -> Iterator[CcFault]:
    """Refuse thresholds that contradict each other, or below which no RTT of a slow link can be."""
    if here.timely_t_high <= here.timely_t_low:
        both = f"{format_time(cc.published.timely_t_high)} is not above {format_time(cc.published.timely_t_low)}"
        remedy = "the gradient decides between the two: raise timely_t_high"
        names = ("timely_t_high", "timely_t_low")
        yield CcFault(names, (), f"timely_t_high {both} of timely_t_low", remedy)
    bits = 8 * (frame + WIRE_OVERHEAD)
    packets = here.timely_t_low * port.rate / bits
    if not cc.rp or packets >= FEWEST_PACKETS:
        return
    message = (
        f"timely_t_low is {format_time(here.timely_t_low)}{_product(cc, cc.published.timely_t_low)}: {packets:.2g}"
        f" packets of {format_size(frame)} at {format_rate(port.rate)}, so no RTT is below it"
    )
    yield CcFault(
        ("timely_t_low", "real_rate", "preset"), (), message, _raised(port, cc, bits, cc.published.timely_t_low)
    )


def _increases_are_far_apart(port: PortQos, cc: CcQos, here: CcRegisters, frame: int) -> Iterator[CcFault]:
    """Refuse registers whose timer leaves no time for feedback: those of a fast NIC on a slow link, unscaled."""
    bits = 8 * (frame + WIRE_OVERHEAD)
    packets = here.rpg_time_reset * port.rate / bits
    if not cc.rp or packets >= FEWEST_PACKETS:
        return
    message = (
        f"rpg_time_reset is {format_time(here.rpg_time_reset)}{_product(cc, cc.published.rpg_time_reset)}:"
        f" {packets:.2g} packets of {format_size(frame)} at {format_rate(port.rate)},"
        " so a rate is back before a queue can be marked"
    )
    remedy = _raised(port, cc, bits, cc.published.rpg_time_reset)
    yield CcFault(("rpg_time_reset", "real_rate", "preset"), (), message, remedy)


def _raised(port: PortQos, cc: CcQos, bits: int, published: float) -> str:
    """Return how to scale a time so that the fewest packets, of so many bits each, fit in it."""
    least = format_rate(FEWEST_PACKETS * bits / port.rate / published * cc.lab_rate)
    return f"raise real_rate to {least} ({FEWEST_PACKETS} packets), or better to the rate of the real NIC"


def _product(cc: CcQos, published: float) -> str:
    return f" ({format_time(published)} x {float(cc.scale):g})" if cc.scale != 1 else ", unscaled"


def _cnps_arrive(port: PortQos, here: CcRegisters) -> Iterator[CcFault]:
    """Check the class of CNPs: no pause may hold them back, and no bulk traffic may crowd them out."""
    dscp = port.trust is Trust.DSCP
    name, value = ("cnp_dscp", here.cnp_dscp) if dscp else ("cnp_802p_prio", here.cnp_802p_prio)
    priority = port.dscp_to_priority[value] if dscp else port.pcp_to_priority[value]
    table = "dscp" if dscp else "pcp"
    mapped = (("map", table, str(value)), ("map", "queue", str(priority)))
    if priority in members(port.pfc.priorities):
        message = f"{name} {value} has priority {priority}, which is lossless: a pause would hold CNPs back"
        yield CcFault((name,), (*mapped, ("pfc", "priorities")), message, "choose a lossy priority for CNPs")
        return
    queue = port.priority_to_queue[priority]
    sharers = [each for each in range(len(port.priority_to_queue)) if port.priority_to_queue[each] == queue]
    others = dict.fromkeys(members(port.pfc.priorities), "lossless priority")
    if dscp:
        others.setdefault(port.dscp_to_priority[ROCE_DSCP], "RoCE, priority")
    others.setdefault(port.dscp_to_priority[0] if dscp else port.pcp_to_priority[0], "best effort, priority")
    if found := [each for each in others if each in sharers]:
        other, which = found[0], others[found[0]]
        message = (
            f"{name} {value} has priority {priority} in queue {queue}, shared with {which} {other}: CNPs would wait"
        )
        yield CcFault((name,), mapped, message, "map CNPs to a queue of their own, like DSCP 48 to priority 6")
