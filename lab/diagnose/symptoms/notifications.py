"""Symptoms of congestion control: marks that no NIC answers, CNPs that get lost, and NICs that ignore them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.diagnose.symptom import Evidence, Sign
from lab.telemetry.read import measures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.diagnose.facts import PortFacts, WindowFacts
    from lab.model.qos.congestion.cc_registers import CcQos
    from lab.telemetry.read.measures import Measure

_MARKS: Final = 100
"""Marked packets that a NIC must answer at least once."""
_CNPS: Final = 5
"""CNPs from which on a NIC's reaction, or their loss, is judged."""
_LOST: Final = 0.2
"""Share of the CNPs sent. If fewer are missing, they may be under way."""


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
    cc = _cc(facts, nic)
    return bool(nic.ce_rx or nic.cnps_sent or (cc and cc.np))


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
        if not any(each.cnps_handled or ((cc := _cc(facts, each)) and cc.rp) for each in others):
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
