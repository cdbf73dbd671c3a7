"""Metrics of what ports are set to and whether they are up: rate, MTU, ECN thresholds, congestion control.

Settings that differ between ports of the same kind are a frequent root cause, and no counter shows them.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from lab.dataplane.numbering import drained_interface
from lab.kernel.netlink.link_stats import LinkStates
from lab.model.qos.port import members
from lab.telemetry.metrics import metric_families as families
from lab.telemetry.metrics.counter_metrics import as_samples

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.backends.backend import Fabric
    from lab.kernel.netlink.link_stats import LinkState
    from lab.model.qos.port import NodeQos, PortQos
    from lab.model.topology import Topology
    from lab.telemetry.metrics.counter_metrics import Labels, MetricSamples
    from lab.telemetry.metrics.metric_families import MetricFamily

    Values = Iterator[tuple[MetricFamily, Labels, float]]

_MARKS_ALL, _MARKS_NONE = 7.0, 0.0
"""SAI_ECN_MARK_MODE_ALL and SAI_ECN_MARK_MODE_NONE of saiwred.h."""
_BITS: Final = 8


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
        self._opened = ExitStack()
        with self._opened:
            for name, plan in fabric.plan.items():
                if (namespace := fabric.namespace(name)).answers():
                    states = LinkStates(namespace)
                    self._opened.callback(states.close)
                    self._links[name] = (states, frozenset(plan.interfaces))
            self._opened = self._opened.pop_all()

    def look(self) -> Iterator[MetricSamples]:
        """Yield the samples of all families. OSError if a namespace is gone."""
        links = {
            (node, interface): link
            for node, (states, wanted) in self._links.items()
            for interface, link in states.read().items()
            if interface in wanted
        }
        yield from as_samples(link_values(links))
        stamp = self._state.qos_stamp()
        if self._settings is None or stamp != self._stamp:
            qos = {**self._built, **self._state.load_qos()}
            self._settings, self._stamp = list(as_samples(setting_values(qos, self._topology))), stamp
        yield from self._settings

    def close(self) -> None:
        """Close all sockets."""
        self._opened.close()


def link_values(links: Mapping[tuple[str, str], LinkState]) -> Values:
    """Yield the state and MTU of interfaces, by node and name."""
    for place, link in links.items():
        yield families.PORT_UP, place, float(link.up)
        yield families.PORT_MTU, place, float(link.mtu)


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


def _registers(node: str, interface: str, port: PortQos) -> Values:
    if port.cc is not None:
        for register in port.cc.names:
            yield families.CC_REGISTER, (node, interface, register), float(getattr(port.cc.registers, register))
