"""Windows of hosts with two NICs: those of hosts with one, in which two hosts become one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from lab.diagnose.symptom import matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lab.diagnose.facts import WindowFacts
    from lab.diagnose.ip_stacks import Stack
    from lab.diagnose.overlay_forwarding import Forwarding
    from lab.model.qos.port import NodeQos
    from lab.telemetry.read.recorded_jobs import RecordedJob, RecordedRankStep

Value = TypeVar("Value")


class Merged:
    """A host whose eth1 was that of ``first``, and whose eth2 was the eth1 of ``second``."""

    def __init__(self, first: str, second: str) -> None:
        self.host, self._second = first, second

    def place(self, place: str) -> str:
        """What a place of the two hosts is called now: a node, a port or a link."""
        return "--".join(map(self._port, place.split("--")))

    def facts(self, facts: WindowFacts) -> WindowFacts:
        """The same window on the fabric with the merged host."""
        ports = {
            self._port(name): replace(port, name=self._port(name), peer=self._port(port.peer))
            for name, port in facts.ports.items()
        }
        lanes = {
            (self._port(name), number): replace(lane, port=self._port(name))
            for (name, number), lane in facts.lanes.items()
        }
        return replace(
            facts,
            ports=ports,
            lanes=lanes,
            devices=self._keys(facts.devices),
            hops=tuple(replace(each, place=self.place(each.place)) for each in facts.hops),
            addresses=self._keys(facts.addresses),
            without_device=self._keys(facts.without_device),
            readdressed=self._keys(facts.readdressed),
            mtus=self._keys(facts.mtus),
            down=frozenset(map(self._port, facts.down)),
            links=tuple(replace(each, port=self._port(each.port)) for each in facts.links),
            sessions=tuple(replace(each, port=self._port(each.port)) for each in facts.sessions),
            asked=tuple(replace(each, port=self._port(each.port)) for each in facts.asked),
            swept=tuple(replace(each, path=tuple(map(self._port, each.path))) for each in facts.swept),
            swept_pairs=tuple(
                replace(each, src=self._nic(each.src), dst=self._nic(each.dst)) for each in facts.swept_pairs
            ),
            ran=tuple(replace(each, node=self._node(each.node)) for each in facts.ran),
            transfers=tuple(
                replace(each, src=self._port(each.src), dst=self._port(each.dst)) for each in facts.transfers
            ),
            failed_jobs=tuple(replace(each, nics=tuple(map(self._port, each.nics))) for each in facts.failed_jobs),
            jobs=tuple(map(self._job, facts.jobs)),
            stacks=self._nodes(facts.stacks, _one_stack),
            qos=self._nodes(facts.qos, _one_configuration),
            forwarding=self._nodes(facts.forwarding, _one_forwarding),
        )

    def _job(self, job: RecordedJob) -> RecordedJob:
        steps = (replace(each, ranks=tuple(map(self._rank, each.ranks))) for each in job.steps)
        return replace(job, steps=tuple(steps))

    def _rank(self, rank: RecordedRankStep) -> RecordedRankStep:
        node, _, interface = self._port(f"{rank.node}:{rank.interface}").partition(":")
        return replace(rank, node=node, interface=interface)

    def _node(self, node: str) -> str:
        return self.host if node == self._second else node

    def _port(self, name: str) -> str:
        node, _, interface = name.partition(":")
        if node != self._second:
            return name
        return f"{self.host}:{renamed(interface)}" if interface else self.host

    def _nic(self, name: str) -> str:
        """What a NIC that a sweep names by its host is called if a host has two."""
        return self._port(name if ":" in name else f"{name}:eth1")

    def _keys(self, of_ports: Mapping[str, Value]) -> dict[str, Value]:
        return {self._port(name): value for name, value in of_ports.items()}

    def _nodes(self, of_nodes: Mapping[str, Value], merge: Any) -> dict[str, Value]:
        found = {node: value for node, value in of_nodes.items() if node != self._second}
        if {self.host, self._second} <= of_nodes.keys():
            found[self.host] = merge(of_nodes[self.host], of_nodes[self._second])
        return found


def renamed(interface: str) -> str:
    """What an interface of the second host is called."""
    return interface.replace("eth1", "eth2")


def partner(facts: WindowFacts, host: str) -> str:
    """A host at the other leaf that transfers nothing to or from ``host``, and that nothing is wrong with."""
    busy = {end.partition(":")[0] for each in facts.transfers for end in (each.src, each.dst) if _is_of(each, host)}
    busy |= {ran.node for ran in facts.ran}
    leaf = _leaf(facts, host)
    others = [port.node for port in facts.ports.values() if port.host and _leaf(facts, port.node) != leaf]
    return next(other for other in reversed(others) if other not in busy and not _has_signs(facts, other))


def named_nics(places: Iterable[str], host: str) -> set[str]:
    """The NICs of a host with two that places name, or are within."""
    return {nic for nic in (f"{host}:eth1", f"{host}:eth2") if any(matches(place, nic) for place in places)}


def _leaf(facts: WindowFacts, host: str) -> str:
    return facts.peer(f"{host}:eth1").partition(":")[0]


def _is_of(transfer: Any, host: str) -> bool:
    return host in {transfer.src.partition(":")[0], transfer.dst.partition(":")[0]}


def _has_signs(facts: WindowFacts, host: str) -> bool:
    """Whether anything was counted of a host's NIC that is more than traffic."""
    return any(lane.paused or lane.pauses_in for lane in facts.by_port.get(f"{host}:eth1", ()))


def _one_stack(first: Stack, second: Stack) -> Stack:
    routes = None
    if first.routes is not None and second.routes is not None:
        moved = (
            replace(each, interfaces=tuple(map(renamed, each.interfaces)), metric=each.metric + 1)
            for each in second.routes
        )
        routes = (*first.routes, *moved)
    return replace(
        first,
        macs={**first.macs, **_interfaces(second.macs)},
        own=first.own | second.own,
        networks={**first.networks, **_interfaces(second.networks)},
        gateways={**first.gateways, **_interfaces(second.gateways)},
        neighbours={
            **first.neighbours,
            **{(renamed(name), address): mac for (name, address), mac in second.neighbours.items()},
        },
        routes=routes,
    )


def _one_configuration(first: NodeQos, second: NodeQos) -> NodeQos:
    return replace(first, ports={**first.ports, **_interfaces(second.ports)})


def _one_forwarding(first: Forwarding, second: Forwarding) -> Forwarding:
    return replace(
        first,
        macs={**first.macs, **_interfaces(second.macs)},
        mtus={**first.mtus, **_interfaces(second.mtus)},
        made_of={**first.made_of, **_interfaces(second.made_of)},
        networks=first.networks | second.networks,
    )


def _interfaces(of_interfaces: Mapping[str, Value]) -> dict[str, Value]:
    return {renamed(name): value for name, value in of_interfaces.items()}
