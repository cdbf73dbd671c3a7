"""Symptoms of hosts: packets that do not reach the RDMA device, and hosts that cannot send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.diagnose.symptom import Evidence, Sign
from lab.diagnose.symptoms import loss_symptoms, probes
from lab.model.qos.headroom import active_mtu
from lab.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.diagnose.facts import WindowFacts

_SOME: Final = 8
"""The minimum number of packets that a host receives, but not its RDMA device."""
_NS: Final = 10**9
_STEPS: Final = "job_steps"
"""The recording's table of training jobs."""
_NOT_READY: Final = "retry_rnr_exceeded_err"
_UNANSWERED: Final = ("completer_retry_err", "retry_exceeded_err")


def a_host_takes_nothing_in(facts: WindowFacts) -> Iterator[Sign]:
    """A NIC receives packets of a lossless class, beyond those of a sweep, but its RDMA device receives none.

    In addition, some transfer misses acknowledgements or failed, or a filter on the host has hits. This excludes
    packets still in flight at the end of a transfer.
    """
    missed = facts.gave_up or any(device.get(name) for device in facts.devices.values() for name in _UNANSWERED)
    filtered = {sign.place for sign in loss_symptoms.a_filter_counts(facts)}
    for nic, counters in facts.devices.items():
        if counters.get("rcvd_pkts", 0) or not (missed or nic.partition(":")[0] in filtered):
            continue
        came = sum(
            facts.lane(port.name, number).rx_packets
            for port in facts.links_of(nic)
            for number in facts.lossless(port.name)
        )
        if came - probes.swept_to(facts, nic) >= _SOME:
            seen = (
                Evidence(
                    says="packets received in lossless classes",
                    of=nic,
                    source="rx_prioN_packets",
                    value=came,
                    at=facts.end,
                ),
                Evidence(
                    says="packets received by its RDMA device", of=nic, source="rcvd_pkts", value=0, at=facts.end
                ),
            )
            yield Sign(nic, seen, 0.6)


def its_device_is_gone(facts: WindowFacts) -> Iterator[Sign]:
    """A host's NIC no longer has an RDMA device."""
    for nic, seconds in facts.without_device.items():
        seen = Evidence(
            says="RDMA devices on this interface, which should have one",
            of=nic,
            source="rdma link",
            value=0,
            at=seconds,
        )
        yield Sign(nic, (seen,), 0.97)


def no_probe_leaves(facts: WindowFacts) -> Iterator[Sign]:
    """A host's kernel sends no packet of a sweep by a NIC, on any path."""
    for nic in dict.fromkeys(each.path[0] for each in facts.swept):
        mine = [each for each in facts.swept if each.path[0] == nic]
        if not any(each.sent or each.large_sent for each in mine):
            says = f"packets of a sweep sent by its kernel, on {len(mine)} paths"
            yield Sign(nic, (Evidence(says=says, of=nic, source="sweep", value=0, at=mine[0].seconds),), 0.6)


def a_host_has_a_smaller_mtu(facts: WindowFacts) -> Iterator[Sign]:
    """A host's link has a smaller MTU than another host link of its switch, and a sweep or a ping failed on it.

    Without a failure this is no symptom: hosts may have different MTUs.
    """
    stopped = {end for sign in probes.only_small_probes_pass(facts) for end in sign.place.split("--")}
    stopped |= {port.name for nic in probes.only_small_pings_pass(facts) for port in facts.links_of(nic)}
    for switch in facts.switches:
        ports = [port for port in facts.ports_of(switch) if facts.is_host(port.peer)]
        largest = max((facts.mtus.get(port.name, 0) for port in ports), default=0)
        for port in ports:
            says = f"bytes of MTU; a port of {switch} to a host has {largest}"
            seen = [
                Evidence(says=says, of=end, source="ip link: mtu", value=facts.mtus[end], at=facts.end)
                for end in (port.peer, port.name)
                if port.peer in stopped and 0 < facts.mtus.get(end, 0) < largest
            ]
            if seen:
                yield Sign(f"{port.peer}--{port.name}", tuple(seen), 0.8)


def a_job_needs_a_larger_mtu(facts: WindowFacts) -> Iterator[Sign]:
    """A training job failed whose library uses a larger path MTU than the active MTU of a rank's NIC."""
    for job in facts.failed_jobs:
        known = {nic: active_mtu(facts.mtus[nic]) for nic in job.nics if facts.mtus.get(nic)}
        for nic, mtu in known.items():
            if job.mtu is not None and mtu < job.mtu:
                others = ", ".join(f"{other} {size}" for other, size in known.items() if other != nic)
                yield Sign(nic, (
                    Evidence(
                        says=f"bytes of active MTU; its link has an MTU of {facts.mtus[nic]}. Others: {others}",
                        of=nic, source="ip link: mtu", value=mtu, at=facts.end,
                    ),
                    Evidence(
                        says=f"bytes of path MTU that job {job.job} does not negotiate; it failed: {job.said}",
                        of=nic, source="job", value=job.mtu, at=job.seconds,
                    ),
                ), 0.96)  # fmt: skip


def receivers_are_not_ready(facts: WindowFacts) -> Iterator[Sign]:
    """A sender gives up because its receiver has no receive request posted (RNR NAK, IBA vol. 1, 9.7.5.2.8)."""
    for nic, counters in facts.devices.items():
        if count := counters.get(_NOT_READY, 0):
            says = "transfers given up: the receiver was not ready"
            yield Sign(nic, (Evidence(says=says, of=nic, source=_NOT_READY, value=count, at=facts.end),))


def a_host_computes_slowly(facts: WindowFacts) -> Iterator[Sign]:
    """A rank of a training job computes longer than the median rank, by 10% and by 1% of the step, in most steps."""
    for job in facts.jobs:
        for rank, excess, count in job.slow_ranks():
            waiting = max((each.waiting for step in job.steps for each in step.ranks), default=0) / _NS
            steps = f"{count} of {counted(len(job.steps), 'step')}"
            says = f"seconds by which rank {rank.rank} of job {job.name} computes longer than the median rank"
            seen = (
                Evidence(
                    says=f"{says}, in {steps}", of=rank.node, source=_STEPS, value=round(excess, 4), at=facts.end
                ),
                Evidence(
                    says=f"seconds for which a rank of job {job.name} waited for others in a step, at most",
                    of=rank.node, source=_STEPS, value=round(waiting, 4), at=facts.end,
                ),
            )  # fmt: skip
            yield Sign(rank.node, seen)


def somebody_gave_up(facts: WindowFacts) -> Iterator[Sign]:
    """A transfer failed to start or ended early. The evidence is the last line of its program."""
    seen = []
    for each in facts.gave_up:
        last = each.said.strip().rpartition("\n")[2].strip()
        seen.append(Evidence(says=f"gave up: {last}", of=each.pairs, source="transfer", value=0, at=each.seconds))
    if seen:
        yield Sign("", tuple(seen))
