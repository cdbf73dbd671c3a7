"""What a host does with packets that its NICs count: whether the RDMA devices get them, and whether it can send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.diagnose.symptom import Evidence, Sign
from lab.diagnose.symptoms import loss_symptoms, probes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.diagnose.facts import WindowFacts

_SOME: Final = 8
"""Packets that must have come to a host before it means anything that its RDMA device has none."""
_UNANSWERED: Final = ("completer_retry_err", "retry_exceeded_err")


def a_host_takes_nothing_in(facts: WindowFacts) -> Iterator[Sign]:
    """Packets of a lossless class come to a NIC, more than a sweep sent there, and none to its RDMA device.

    Somebody misses its answers, or a filter of its own has hits: what was under way when a transfer ended is neither.
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
        if came - _swept_to(facts, nic) >= _SOME:
            seen = (
                Evidence("packets of a lossless class came to it", nic, "rx_prioN_packets", came, facts.end),
                Evidence("packets came to its RDMA device", nic, "rcvd_pkts", 0, facts.end),
            )
            yield Sign(nic, seen, 0.6)


def its_device_is_gone(facts: WindowFacts) -> Iterator[Sign]:
    """A host's NIC has no RDMA device any more."""
    for nic, seconds in facts.without_device.items():
        seen = Evidence("RDMA devices on this interface, which is meant to have one", nic, "rdma link", 0, seconds)
        yield Sign(nic, (seen,), 0.97)


def no_probe_leaves(facts: WindowFacts) -> Iterator[Sign]:
    """A host's kernel sends none of a sweep's packets by a NIC, on no path."""
    for nic in dict.fromkeys(each.path[0] for each in facts.swept):
        mine = [each for each in facts.swept if each.path[0] == nic]
        if not any(each.sent or each.large_sent for each in mine):
            says = f"packets of a sweep that its kernel let go, on {len(mine)} paths"
            yield Sign(nic, (Evidence(says, nic, "sweep", 0, mine[0].seconds),), 0.6)


def a_host_has_a_smaller_mtu(facts: WindowFacts) -> Iterator[Sign]:
    """A host's link has a smaller MTU at an end than its switch has towards another, and stopped a sweep or a ping.

    Where it stopped none, hosts may well differ.
    """
    stopped = {end for sign in probes.only_small_probes_pass(facts) for end in sign.place.split("--")}
    stopped |= {port.name for nic in probes.only_small_pings_pass(facts) for port in facts.links_of(nic)}
    for switch in facts.switches:
        ports = [port for port in facts.ports_of(switch) if facts.is_host(port.peer)]
        largest = max((facts.mtus.get(port.name, 0) for port in ports), default=0)
        for port in ports:
            says = f"is its MTU, and a port of {switch} to a host has {largest}"
            seen = [
                Evidence(says, end, "ip link: mtu", facts.mtus[end], facts.end)
                for end in (port.peer, port.name)
                if port.peer in stopped and 0 < facts.mtus.get(end, 0) < largest
            ]
            if seen:
                yield Sign(f"{port.peer}--{port.name}", tuple(seen), 0.8)


def somebody_gave_up(facts: WindowFacts) -> Iterator[Sign]:
    """A transfer could not begin, or ended before its time; its program's last line says why."""
    seen = []
    for each in facts.gave_up:
        last = each.said.strip().rpartition("\n")[2].strip()
        seen.append(Evidence(f"gave up: {last}", each.pairs, "transfer", 0, each.seconds))
    if seen:
        yield Sign("", tuple(seen))


def _swept_to(facts: WindowFacts, nic: str) -> int:
    """Packets of a sweep that came to it: they are of a queue pair that no device has."""
    ends = {port.name for port in facts.links_of(nic)}
    return sum(each.came + each.large_came for each in facts.swept if facts.peer(each.path[-1]) in ends)
