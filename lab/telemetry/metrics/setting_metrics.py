"""Metrics of what ports are set to and whether they are up: rate, MTU, MAC, ECN thresholds, congestion control.

Routes are counted as well.

Settings that differ between ports of the same kind are a frequent root cause, and no counter shows them.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from lab.dataplane.numbering import drained_interface
from lab.kernel.netlink.link_stats import LinkStates
from lab.kernel.netlink.routes import FibReader
from lab.kernel.process import tuning
from lab.model.qos.port import members
from lab.model.sysctls import HASH_POLICY
from lab.telemetry.metrics import metric_families as families
from lab.telemetry.metrics.counter_metrics import as_samples

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from lab.backends.backend import Fabric
    from lab.kernel.netlink.link_stats import LinkState
    from lab.kernel.netlink.routes import FibRoute
    from lab.model.qos.port import NodeQos, PortQos
    from lab.model.topology import Topology
    from lab.telemetry.metrics.counter_metrics import Labels, MetricSamples
    from lab.telemetry.metrics.metric_families import MetricFamily

    Values = Iterator[tuple[MetricFamily, Labels, float]]

_MARKS_ALL, _MARKS_NONE = 7.0, 0.0
"""SAI_ECN_MARK_MODE_ALL and SAI_ECN_MARK_MODE_NONE of saiwred.h."""
_BITS: Final = 8
_PERCENT: Final = 100
_GATEWAYS: Final = "vlan"
"""The beginning of the names of VLAN interfaces, which are gateways or routers of tenants."""


class SettingMetrics:
    """The settings and link states of a running fabric."""

    def __init__(self, fabric: Fabric) -> None:
        """Open a socket in each namespace that answers; OperationFailed if one is gone meanwhile."""
        self._state = fabric.state
        self._topology = fabric.topology
        self._built = fabric.qos
        self._stamp: tuple[int, int] | None = None
        self._settings: list[MetricSamples] | None = None
        self._links: dict[str, tuple[LinkStates, frozenset[str]]] = {}
        self._fibs: dict[str, FibReader] = {}
        self._policies: dict[str, int] = {}
        self._opened = ExitStack()
        with self._opened:
            for name, plan in fabric.plan.items():
                if (namespace := fabric.namespace(name)).answers():
                    states = LinkStates(namespace)
                    self._opened.callback(states.close)
                    self._links[name] = (states, frozenset(plan.interfaces))
                    if plan.node.role.is_switch:
                        self._fibs[name] = FibReader(namespace)
                        self._opened.callback(self._fibs[name].close)
                        policy = namespace.inside(partial(tuning.open_sysctl, HASH_POLICY))
                        if policy is not None:
                            self._policies[name] = policy
                            self._opened.callback(os.close, policy)
            self._opened = self._opened.pop_all()

    def look(self) -> Iterator[MetricSamples]:
        """Yield the samples of all families. OSError if a namespace is gone."""
        links = {
            (node, interface): link
            for node, (states, wanted) in self._links.items()
            for interface, link in states.read().items()
            if interface in wanted or is_gateway(interface)
        }
        yield from as_samples(link_values(links))
        yield from as_samples(value for node, fib in self._fibs.items() for value in route_values(node, fib.read()))
        policies = {node: tuning.read_again(opened) for node, opened in self._policies.items()}
        yield from as_samples((families.HASH_POLICY, (node,), float(policy)) for node, policy in policies.items())
        stamp = self._state.qos_stamp()
        if self._settings is None or stamp != self._stamp:
            qos = {**self._built, **self._state.load_qos()}
            self._settings, self._stamp = list(as_samples(setting_values(qos, self._topology))), stamp
        yield from self._settings

    def close(self) -> None:
        """Close all sockets."""
        self._opened.close()


def is_gateway(interface: str) -> bool:
    """Whether an interface is one of a VLAN, which may be the gateway of hosts."""
    return interface.startswith(_GATEWAYS)


def link_values(links: Mapping[tuple[str, str], LinkState]) -> Values:
    """Yield the state, MTU and MAC of ports, and the MAC of VLAN interfaces, by node and name."""
    for place, link in links.items():
        if not is_gateway(place[1]):
            yield families.PORT_UP, place, float(link.up)
            yield families.PORT_MTU, place, float(link.mtu)
        if link.mac:
            yield families.PORT_INFO, (*place, link.mac), 1.0


def route_values(node: str, routes: Collection[FibRoute]) -> Values:
    """Yield the number of a switch's routes, and of the next hops in groups: each set of them is a group."""
    for version in (4, 6):
        yield (
            families.ROUTES,
            (node, f"ipv{version}", "default"),
            float(sum(each.version == version for each in routes)),
        )
    groups = {(each.version, each.hops) for each in routes if len(each.hops) > 1}
    yield families.NEXT_HOP_MEMBERS, (node,), float(sum(len(hops) for _, hops in groups))


def setting_values(qos: Mapping[str, NodeQos], topology: Topology) -> Values:
    """Yield the settings of all ports: rate, ECN of lossless queues on switches, registers of NICs."""
    switches = {node.name for node in topology.switches}
    for node, of_node in qos.items():
        for interface, port in of_node.ports.items():
            if drained_interface(interface) == interface:
                yield families.PORT_SPEED, (node, interface), port.rate / _BITS
                yield from _ecn(node, interface, port) if node in switches else _registers(node, interface, port)


def _ecn(node: str, interface: str, port: PortQos) -> Values:
    for queue in members(port.lossless_queues):
        ecn, labels = port.queues[queue].ecn, (node, interface, str(queue))
        yield families.ECN_MODE, labels, _MARKS_ALL if ecn.enabled else _MARKS_NONE
        if ecn.enabled:
            yield families.ECN_MINIMUM, labels, float(ecn.kmin)
            yield families.ECN_MAXIMUM, labels, float(ecn.kmax)
            yield families.ECN_PROBABILITY, labels, ecn.pmax * _PERCENT


def _registers(node: str, interface: str, port: PortQos) -> Values:
    if port.cc is not None:
        for register in port.cc.names:
            yield families.CC_REGISTER, (node, interface, register), float(getattr(port.cc.registers, register))
