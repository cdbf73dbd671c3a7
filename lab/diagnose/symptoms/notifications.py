"""Symptoms of congestion control: marks without answers, CNPs that get lost or are late, and NICs that differ."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from lab.diagnose.symptom import Evidence, Sign, counted
from lab.model.qos.presets import CNP_DSCP
from lab.telemetry.read import measures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.diagnose.facts import Lane, PortFacts, WindowFacts
    from lab.model.qos.congestion.cc_registers import CcQos, CcRegisters
    from lab.telemetry.read.window_measure import Measure

_MARKS: Final = 100
"""Marked packets that a NIC must answer at least once."""
_CNPS: Final = 5
"""CNPs from which on a NIC's reaction, or their loss, is judged."""
_LOST: Final = 0.2
"""Share of the CNPs sent. If fewer are missing, they may be under way."""
_LATE: Final = 0.01
"""Seconds that a packet waits in a queue which is too long for CNPs."""
_FASTER: Final = 2.5
"""A NIC sends by this factor more than any other that obeys CNPs, if it recovers faster."""


def _nics(facts: WindowFacts) -> Iterator[PortFacts]:
    return (port for port in facts.ports.values() if port.host and port.peer)


def _cc(facts: WindowFacts, port: PortFacts) -> CcQos | None:
    """Return the congestion control that a port is configured with; None if it is off or not known."""
    config = facts.config(port.name)
    return config.cc if config else None


def _counted(facts: WindowFacts, port: PortFacts, says: str, measure: Measure, value: float) -> Evidence:
    return Evidence(says=says, of=port.name, source=measure.series(None), value=value, at=facts.end)


def answers_no_marks(facts: WindowFacts) -> Iterator[Sign]:
    """Marked packets go to a NIC that answers none, while another NIC is a notification point."""
    for nic in _nics(facts):
        lanes = facts.by_port.get(nic.peer, ())
        marked = sum(lane.marked for lane in lanes)
        others = [each for each in _nics(facts) if each.name != nic.name]
        if marked < _MARKS or nic.ce_rx or nic.cnps_sent or not any(_notifies(facts, each) for each in others):
            continue
        most = max(lanes, key=lambda lane: lane.marked)
        yield Sign(
            nic.name,
            (
                Evidence(
                    says="packets to it marked",
                    of=most.port,
                    source=measures.ECN_MARKED.series(most.priority),
                    value=most.marked,
                    at=facts.end,
                ),
                _counted(facts, nic, "CNPs sent", measures.CNP_SENT, 0),
            ),
            weight=0.9,
            priority=most.priority,
        )


def _notifies(facts: WindowFacts, nic: PortFacts) -> bool:
    """Whether a NIC is a notification point: by its configuration, or by its counters if that is not known."""
    cc = _cc(facts, nic)
    return bool((cc and cc.np) or (not _is_known(facts, nic) and (nic.ce_rx or nic.cnps_sent)))


def _reacts(facts: WindowFacts, nic: PortFacts) -> bool:
    """Whether a NIC is a reaction point: by its configuration, or by its counters if that is not known."""
    cc = _cc(facts, nic)
    return bool((cc and cc.rp) or (not _is_known(facts, nic) and nic.cnps_handled))


def _is_known(facts: WindowFacts, nic: PortFacts) -> bool:
    """Whether the configuration at the end of the window is known. Counters may be those of an earlier one."""
    return facts.current and facts.config(nic.name) is not None


def notification_point_off(facts: WindowFacts) -> Iterator[Sign]:
    """The configuration of a NIC has no notification point, and that of another NIC has one."""
    yield from _role_off(facts, "np")


def reaction_point_off(facts: WindowFacts) -> Iterator[Sign]:
    """The configuration of a NIC has no reaction point, and that of another NIC has one."""
    yield from _role_off(facts, "rp")


def _role_off(facts: WindowFacts, role: str) -> Iterator[Sign]:
    nics = [nic for nic in _nics(facts) if facts.current and facts.config(nic.name)]
    has = {nic.name: (cc := _cc(facts, nic)) is not None and bool(getattr(cc, role)) for nic in nics}
    if any(has.values()):
        for name in (name for name, on in has.items() if not on):
            seen = Evidence(
                says="is off; other NICs have it", of=name, source=f"qos nic.cc.{role}", value=0, at=facts.end
            )
            yield Sign(name, (seen,), weight=0.8)


def ignores_cnps(facts: WindowFacts) -> Iterator[Sign]:
    """A NIC receives CNPs and handles none, while another NIC is a reaction point.

    A NIC whose configuration has a reaction point is left out: it ignores CNPs that no QP of its own belongs to.
    """
    for nic in _nics(facts):
        own = _cc(facts, nic) if facts.current else None
        others = [each for each in _nics(facts) if each.name != nic.name]
        if nic.cnps_rx < _CNPS or nic.cnps_handled or (own and own.rp):
            continue
        if not any(_reacts(facts, each) for each in others):
            continue
        yield Sign(
            nic.name,
            (
                _counted(facts, nic, "CNPs received", measures.CNP_RX, nic.cnps_rx),
                _counted(facts, nic, "of them slowed a QP down", measures.CNP_HANDLED, 0),
                *(
                    _counted(facts, each, "CNPs slowed a QP down", measures.CNP_HANDLED, each.cnps_handled)
                    for each in others
                    if each.cnps_handled
                ),
            )[:4],
            weight=0.9,
        )


def cnps_vanish(facts: WindowFacts) -> Iterator[Sign]:
    """NICs send CNPs, and many do not arrive: they end on the link of a NIC, or in a switch."""
    sent, arrived = sum(nic.cnps_sent for nic in _nics(facts)), sum(nic.cnps_rx for nic in _nics(facts))
    if sent - arrived < max(_CNPS, _LOST * sent):
        return
    for nic in _nics(facts):
        first = facts.ports.get(nic.peer)
        if first is not None and nic.cnps_sent - first.cnps_rx >= _CNPS:
            yield Sign(
                f"{nic.name}--{nic.peer}",
                (
                    _counted(facts, nic, "CNPs sent", measures.CNP_SENT, nic.cnps_sent),
                    _counted(facts, first, "CNPs received", measures.CNP_RX, first.cnps_rx),
                ),
                weight=0.9,
            )
    for switch in facts.switches:
        ports = [port for port in facts.ports_of(switch) if port.peer in facts.ports]
        left = [facts.ports[port.peer] for port in ports]
        came, gone = sum(port.cnps_rx for port in ports), sum(port.cnps_rx for port in left)
        if came - gone >= _CNPS:
            most = max(ports, key=lambda port: port.cnps_rx)
            yield Sign(
                switch,
                (
                    _counted(facts, most, "CNPs came in", measures.CNP_RX, most.cnps_rx),
                    Evidence(
                        says=f"CNPs came to it, and {gone} left it",
                        of=switch,
                        source=measures.CNP_RX.series(None),
                        value=came,
                        at=facts.end,
                    ),
                ),
                weight=0.95,
            )


def cnps_wait_with_others(facts: WindowFacts) -> Iterator[Sign]:
    """A NIC's CNPs reach its switch in another class than that of CNPs, and a queue of that class is long or full."""
    for nic in _nics(facts):
        config = facts.config(nic.peer)
        if config is None or nic.cnps_sent < _CNPS:
            continue
        own = config.dscp_to_priority[CNP_DSCP]
        came = facts.lane(nic.peer, own).rx_packets
        lossy = [n for n in range(len(config.queues)) if n != own and n not in facts.lossless(nic.peer)]
        taken = [n for n in lossy if facts.lane(nic.peer, n).rx_packets >= nic.cnps_sent / 2]
        crowded = [lane for lane in facts.lanes.values() if lane.priority in taken and _is_crowded(facts, lane)]
        if came < nic.cnps_sent / 2 and crowded:
            worst = max(crowded, key=lambda lane: lane.depth)
            class_of_cnps = f"packets from it in priority {own}, the class of CNPs"
            yield Sign(
                nic.name,
                (
                    _counted(facts, nic, "CNPs sent", measures.CNP_SENT, nic.cnps_sent),
                    counted(facts, facts.lane(nic.peer, own), class_of_cnps, measures.RX_PACKETS, came),
                    counted(facts, worst, "bytes of average queue depth", measures.QUEUE_BYTES, round(worst.depth)),
                ),
                weight=0.9,
                priority=worst.priority,
            )


def _is_crowded(facts: WindowFacts, lane: Lane) -> bool:
    """Whether a queue of a switch drops packets, or lets them wait for long."""
    rate = facts.rate(lane.port)
    return not facts.is_host(lane.port) and (lane.dropped > 0 or (rate > 0 and lane.depth * 8 / rate > _LATE))


def recovers_faster(facts: WindowFacts) -> Iterator[Sign]:
    """One of several NICs that obey CNPs sends a multiple of what each other does, for each QP as far as known.

    If the registers of all are known to be the same, this is chance.
    """
    obeying = [nic for nic in _nics(facts) if nic.cnps_handled >= _CNPS]
    if len(obeying) < 3 or (facts.current and not list(registers_differ(facts))):
        return
    rates = {nic.name: _sent_by_a_qp(facts, nic) for nic in obeying}
    first, second, *_ = sorted(obeying, key=lambda nic: rates[nic.name], reverse=True)
    if rates[first.name] < _FASTER * rates[second.name]:
        return
    seen = (
        Evidence(
            says=f"Mb/s sent by a QP; {nic.cnps_handled} CNPs slowed it down", of=nic.name,
            source=measures.TX_RATE.series(facts.lossless(nic.name)[0]), value=round(rates[nic.name] / 1e6, 1),
            at=facts.end,
        )
        for nic in sorted(obeying, key=lambda nic: -rates[nic.name])
    )  # fmt: skip
    yield Sign(first.name, tuple(seen)[:4], weight=0.85)


def _sent_by_a_qp(facts: WindowFacts, nic: PortFacts) -> float:
    """Return the bit/s of a NIC in lossless classes, divided by its QPs; by 1 if they are not known."""
    qps = sum(each.qps for each in facts.transfers if each.src == facts.nic_of(nic.name))
    return sum(facts.sent_bps(facts.lane(nic.name, n)) for n in facts.lossless(nic.name)) / (qps or 1)


def registers_differ(facts: WindowFacts) -> Iterator[Sign]:
    """The registers of a NIC's congestion control differ from the most common ones."""
    known = {nic.name: cc.published for nic in _nics(facts) if facts.current and (cc := _cc(facts, nic))}
    common = next(iter(Counter(known.values()).most_common(1)), None)
    for name, registers in known.items():
        other = [each.name for each in fields(registers) if common and _differs(registers, common[0], each.name)]
        if other:
            says = f"registers of nic.cc differ from those of the other NICs: {', '.join(other)}"
            seen = Evidence(says=says, of=name, source=f"qos nic.cc.{other[0]}", value=len(other), at=facts.end)
            yield Sign(name, (seen,), weight=0.8)


def _differs(one: CcRegisters, other: CcRegisters, register: str) -> bool:
    return bool(getattr(one, register) != getattr(other, register))
