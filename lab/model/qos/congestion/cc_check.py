"""Check the congestion control of a host's port: contradictions, and registers that cannot work at the lab's rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from lab.model.qos.port import Trust, members
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
    yield from _increases_are_far_apart(port, port.cc, here, frame)
    if port.cc.np:
        yield from _cnps_arrive(port, here)


def _rates_fit(port: PortQos, cc: CcQos, here: CcRegisters) -> Iterator[CcFault]:
    for name in ("rpg_min_rate", "rpg_ai_rate", "rpg_hai_rate", "rate_to_set_on_first_cnp"):
        rate, published = getattr(here, name), getattr(cc.published, name)
        if rate > port.rate:
            why = _quotient(cc, published, rate)
            message = f"{name} is {format_rate(rate)}{why}, above the link's {format_rate(port.rate)}"
            yield CcFault((name, "real_rate", "preset"), (), message, "lower it, or raise real_rate")
    if here.rpg_hai_rate < here.rpg_ai_rate:
        both = (
            f"{format_rate(cc.published.rpg_hai_rate)} is below rpg_ai_rate {format_rate(cc.published.rpg_ai_rate)}"
        )
        remedy = "hyper increase is the faster one: raise rpg_hai_rate"
        yield CcFault(("rpg_hai_rate", "rpg_ai_rate"), (), f"rpg_hai_rate {both}", remedy)


def _quotient(cc: CcQos, published: int, rate: int) -> str:
    if rate == cc.floor:
        return ", the floor of one packet in a quarter of the QP timeout"
    return f" ({format_rate(published)} / {float(cc.scale):g})" if cc.scale != 1 else ""


def _increases_are_far_apart(port: PortQos, cc: CcQos, here: CcRegisters, frame: int) -> Iterator[CcFault]:
    """Refuse registers whose timer leaves no time for feedback: those of a fast NIC on a slow link, unscaled."""
    bits = 8 * (frame + WIRE_OVERHEAD)
    packets = here.rpg_time_reset * port.rate / bits
    if not cc.rp or packets >= FEWEST_PACKETS:
        return
    message = (
        f"rpg_time_reset is {format_time(here.rpg_time_reset)}{_product(cc)}: {packets:.2g} packets of"
        f" {format_size(frame)} at {format_rate(port.rate)}, so a rate is back before a queue can be marked"
    )
    needed = FEWEST_PACKETS * bits / port.rate / cc.published.rpg_time_reset
    least = format_rate(needed * cc.lab_rate)
    remedy = f"raise real_rate to {least} ({FEWEST_PACKETS} packets), or better to the rate of the real NIC"
    yield CcFault(("rpg_time_reset", "real_rate", "preset"), (), message, remedy)


def _product(cc: CcQos) -> str:
    return f" ({format_time(cc.published.rpg_time_reset)} x {float(cc.scale):g})" if cc.scale != 1 else ", unscaled"


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
    lossless = [each for each in sharers if each in members(port.pfc.priorities)]
    ordinary = port.dscp_to_priority[0] if dscp else port.pcp_to_priority[0]
    if lossless or ordinary in sharers:
        other = lossless[0] if lossless else ordinary
        which = "lossless priority" if lossless else "best effort, priority"
        message = (
            f"{name} {value} has priority {priority} in queue {queue}, shared with {which} {other}: CNPs would wait"
        )
        yield CcFault((name,), mapped, message, "map CNPs to a queue of their own, like DSCP 48 to priority 6")
