"""Symptoms of how a job's ranks are placed: their traffic crosses switches that it need not cross."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.diagnose.symptom import Evidence, Sign, counted
from lab.telemetry.read import measures
from lab.telemetry.store.job_steps import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.diagnose.facts import Lane, WindowFacts

_STEPS: Final = SCHEMA.table


def ranks_cross_rails(facts: WindowFacts) -> Iterator[Sign]:
    """Ranks of a training job use NICs on several leaves, whose uplinks fill, and one leaf has a NIC of each host.

    Only jobs with one rank on each host count: others may use all rails of a host at the same time. If the paths of
    all of the job's QPs are recorded, only uplinks on them count: others carry packets of other programs.
    """
    for job in facts.jobs:
        nics = {each.node: f"{each.node}:{each.interface}" for each in job.ranks}
        leaves = {nic: _leaf(facts, nic) for nic in nics.values()}
        used = set(leaves.values())
        if len(nics) < len(job.ranks) or len(used) < 2 or "" in used or not _common_leaves(facts, nics):
            continue
        paths = [qp.path for qp in (job.about.qps if job.about else ())]
        for lane in _filled_uplinks(facts, used):
            if paths and all(paths) and not any(lane.port in path for path in paths):
                continue
            mine = [nic for nic, leaf in leaves.items() if leaf == facts.ports[lane.port].node]
            seen = Evidence(
                says=f"ranks of job {job.name} on this leaf ({', '.join(mine)}), "
                f"and {len(nics) - len(mine)} on others; one leaf has a NIC of each of their hosts",
                of=facts.ports[lane.port].node, source=_STEPS, value=len(mine), at=facts.end,
            )  # fmt: skip
            yield Sign(place=lane.port, evidence=(seen, *_fill(facts, lane)), weight=0.9, priority=lane.priority)


def _leaf(facts: WindowFacts, nic: str) -> str:
    """Return the switch at the other end of a NIC's cable; "" if there is none."""
    return facts.peer(nic).partition(":")[0]


def _common_leaves(facts: WindowFacts, hosts: Mapping[str, str]) -> set[str]:
    """Return the switches to which each of the hosts has a cable."""
    of_each = [{_leaf(facts, port.name) for port in facts.ports_of(host)} - {""} for host in hosts]
    return set.intersection(*of_each)


def _filled_uplinks(facts: WindowFacts, leaves: set[str]) -> Iterator[Lane]:
    """Yield the lanes from these leaves to other switches whose queues fill, so that the leaf pauses or marks."""
    for lane in facts.lanes.values():
        port = facts.ports[lane.port]
        if port.node not in leaves or not port.peer or facts.is_host(port.peer) or not lane.tx_packets:
            continue
        if lane.depth and (facts.pauses_others(port.node, lane.priority) or lane.marked):
            yield lane


def _fill(facts: WindowFacts, lane: Lane) -> tuple[Evidence, ...]:
    return (
        counted(facts, lane, "bytes sent to other leaves", measures.TX_BYTES, lane.tx_bytes),
        counted(facts, lane, "bytes of average queue depth", measures.QUEUE_BYTES, round(lane.depth)),
    )
