"""Findings about congestion control: unanswered CE marks, lost CNPs, their spacing, and senders that ignore them.

A capture of rocelab says what the NICs of its links do (``lab.wire.nic_note``). Where the receiver's NIC answers
marks, missing CNPs are a fault. Otherwise they are only explained.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from lab.analysis.results.analysis_facts import CaptureFinding
from lab.model.qos.congestion.cc_registers import CnpModeration
from lab.units import counted, format_rate, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.analysis.results.analysis_facts import AnalysisFacts, CapturedNic, FlowFacts

_LARGEST: Final = 9216
"""Bytes of a packet that may delay one CNP at the NIC, and not the next one."""
_MANY: Final = 10
"""CNPs after which a sender must be slower."""
_LINE: Final = 0.9
"""Share of the link's rate. A sender whose packets still follow each other faster than that has not reacted."""
_EXAMPLES: Final = 10
CONNECTED: Final = ("RC", "XRC")
"""CNPs are only sent for connections (IBA vol. 1 annex A17.9.3)."""


def congestion_findings(facts: AnalysisFacts) -> Iterator[CaptureFinding]:
    """Yield what is wrong with CNPs that the capture has, or has at one of several links."""
    if not facts.nics:
        return
    nics = {nic.link: nic for nic in facts.nics}
    cnps = [flow for flow in facts.flows if flow.cnps]
    yield from _lost(cnps, nics)
    yield from _too_close(facts, cnps)
    yield from _unheeding(facts, cnps, nics)


def _lost(cnps: list[FlowFacts], nics: dict[str, CapturedNic]) -> Iterator[CaptureFinding]:
    """Yield the CNPs that left the receiver's NIC and did not reach the sender's, if both links were captured."""
    sent, received = Counter[tuple[str, str, int]](), Counter[tuple[str, str, int]]()
    links = {nic.address: nic.link for nic in nics.values()}
    for flow in cnps:
        key = (flow.src, flow.dst, flow.qp)
        if flow.src in links and flow.dst in links:
            sent[key] += flow.cnps if flow.link == links[flow.src] else 0
            received[key] += flow.cnps if flow.link == links[flow.dst] else 0
    lost = {key: (count - received[key], count) for key, count in sent.items() if received[key] < count}
    if lost:
        names = [f"{src} to {dst} QP {qp:#x}" for src, dst, qp in lost]
        missing, total = (sum(column) for column in zip(*lost.values(), strict=True))
        yield CaptureFinding(
            f"{names[0] if len(names) == 1 else f'{len(names)} flows, the first {names[0]}'}: "
            f"{missing} of {counted(total, 'CNP')} lost between the two NICs",
            "a sender without its CNPs does not slow down: look for drops in the switches' class of CNPs (DSCP 48)",
            count=len(names),
            examples=tuple(names[:_EXAMPLES]),
        )


def _too_close(facts: AnalysisFacts, cnps: list[FlowFacts]) -> Iterator[CaptureFinding]:
    """Yield NICs whose CNPs follow each other in less than their minimum time, at their own link."""
    for nic in facts.nics:
        own = [flow for flow in cnps if (flow.link, flow.src) == (nic.link, nic.address)]
        if nic.scope is CnpModeration.QP:
            gaps = {f"{flow.dst} QP {flow.qp:#x}": flow.cnp_spacing.least for flow in own if flow.cnp_spacing.count}
        else:
            by_port = nic.scope is CnpModeration.PORT
            gaps = {
                each.dst or "all destinations": each.least
                for each in facts.cnp_spacing
                if (each.link, each.src, not each.dst) == (nic.link, nic.address, by_port)
            }
        delay = _LARGEST * 8 / nic.rate if nic.rate else nic.min_time_between_cnps
        close = {name: gap for name, gap in gaps.items() if gap < nic.min_time_between_cnps - delay}
        if close:
            name, least = min(close.items(), key=lambda each: each[1])
            yield CaptureFinding(
                f"{nic.port}: CNPs to {name} {format_time(least)} apart",
                f"its min_time_between_cnps is {format_time(nic.min_time_between_cnps)}, per {nic.scope}",
                count=len(close),
                examples=tuple(close)[:_EXAMPLES],
            )


def _unheeding(facts: AnalysisFacts, cnps: list[FlowFacts], nics: dict[str, CapturedNic]) -> Iterator[CaptureFinding]:
    """Yield senders whose packets follow each other at line rate after many CNPs, at their own link.

    A QP below the line rate is not judged: it may be limited from before the capture, or share its NIC with others.
    """
    told = {(flow.link, flow.dst, flow.qp): flow.cnps for flow in cnps if flow.cnps >= _MANY}
    found: dict[bool, list[FlowFacts]] = defaultdict(list)
    for flow in facts.flows if told else ():
        nic = nics.get(flow.link)
        received = flow.peer is not None and (flow.link, flow.src, flow.peer) in told
        if nic is None or nic.address != flow.src or not received or not nic.rate:
            continue
        if flow.rate_after_cnps > _LINE * nic.rate:
            found[nic.rp].append(flow)
    for reacts, flows in found.items():
        names = [f"{flow.src} to {flow.dst} QP {flow.qp:#x} at {flow.link}" for flow in flows]
        first = flows[0]
        yield CaptureFinding(
            f"{names[0] if len(names) == 1 else f'{len(names)} flows, the first {names[0]}'}: not slowed down by "
            f"CNPs, packets at {format_rate(round(first.rate_after_cnps))} after them",
            "its NIC has a reaction point: rp_cnp_ignored counts CNPs without effect"
            if reacts
            else "its NIC does not react to CNPs (nic.cc): it takes the share of flows that do",
            note=not reacts,
            count=len(names),
            examples=tuple(names[:_EXAMPLES]),
        )
