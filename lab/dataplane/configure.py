"""Convert the QoS of ports and nodes to the records that the programs read; the model computes the values."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.dataplane.port_layout import CONFIG, FRACTION_ONE, NODE, CnpScope, RateAlgorithm
from lab.model.qos.congestion.cc_registers import FRACTIONS, TIMES, CcAlgorithm, CnpModeration
from lab.model.qos.port import StormAction, Trust, members

if TYPE_CHECKING:
    from lab.dataplane.numbering import NodePorts
    from lab.model.qos.congestion.cc_registers import CcQos
    from lab.model.qos.port import GroupQos, NodeQos, PortQos, QueueQos

_ALPHA_UNIT: Final = 256
_PMAX_UNIT: Final = 2**32
_NS: Final = 10**9
_MODERATIONS: Final = {
    CnpModeration.QP: CnpScope.QP,
    CnpModeration.DESTINATION: CnpScope.DESTINATION,
    CnpModeration.PORT: CnpScope.PORT,
}
_ALGORITHMS: Final = {CcAlgorithm.DCQCN: RateAlgorithm.DCQCN, CcAlgorithm.TIMELY: RateAlgorithm.TIMELY}


def port_record(port: PortQos, node: NodePorts, interface: str, mac: str) -> np.void:
    """Return the configuration record of a node's interface with the MAC address ``mac``."""
    record = _empty(node, node.port(interface))
    record["rate"] = port.rate
    record["delay_ns"] = round(port.delay * _NS)
    watchdog = port.pfc.watchdog
    if watchdog.enabled:
        record["watchdog_detect_ns"] = round(watchdog.detection * _NS)
    record["watchdog_restore_ns"] = round(watchdog.restoration * _NS)
    record["watchdog_forward"] = watchdog.action is StormAction.FORWARD
    record["pause_quanta"] = port.pfc.quanta
    record["pfc_tx"] = port.pfc.tx_priorities
    record["pfc_rx"] = port.pfc.rx_priorities
    record["mac"] = list(bytes.fromhex(mac.replace(":", "")))
    _classify(record, port)
    for number, queue in enumerate(port.queues):
        _fill_queue(record["queue"][number], queue)
    lossless = members(port.lossless_groups)
    for number, group in enumerate(port.groups):
        _fill_group(record["group"][number], group, lossless=number in lossless)
    if port.cc is not None:
        _fill_cc(record["cc"], port.cc)
    record["cc"]["nic"] = node.nic(interface)
    return record


def drain_record(port: PortQos, node: NodePorts, interface: str) -> np.void:
    """Return the configuration record of a NIC's drain: a link with the drain rate."""
    record = _empty(node, node.drain(interface))
    record["rate"] = port.drain or 0
    _classify(record, port)
    return record


def clock_record(node: NodePorts) -> np.void:
    """Return the configuration record of a node's clock."""
    return _empty(node, node.clock)


def node_record(qos: NodeQos, node: NodePorts) -> np.void:
    """Return the record that the ports of a node share: its buffer pool, drain rate, first port and NICs."""
    record: np.void = np.zeros(1, NODE)[0]
    record["pool_bytes"] = max(qos.shared, 0)
    record["drain_rate"] = sum(port.drain or port.rate for port in qos.ports.values())
    record["first_port"] = node.first
    record["nics"], record["first_nic"] = node.nics, node.first_nic
    return record


def _empty(node: NodePorts, port: int) -> np.void:
    record: np.void = np.zeros(1, CONFIG)[0]
    record["node"] = node.number
    record["index"] = node.index(port)
    return record


def _classify(record: np.void, port: PortQos) -> None:
    record["trust_pcp"] = port.trust is Trust.PCP
    record["dscp_to_priority"] = port.dscp_to_priority
    record["pcp_to_priority"] = port.pcp_to_priority
    record["priority_to_queue"] = port.priority_to_queue
    record["priority_to_group"] = port.priority_to_group
    record["lossless"] = port.pfc.priorities


def _fill_queue(record: np.void, queue: QueueQos) -> None:
    if queue.ecn.enabled:
        record["pmax"] = round(queue.ecn.pmax * _PMAX_UNIT)
        record["kmin"] = queue.ecn.kmin
        record["kmax"] = queue.ecn.kmax
    record["limit"] = queue.limit
    record["weight"] = queue.weight or 0


def _fill_cc(record: np.void, cc: CcQos) -> None:
    """Write the registers: times in nanoseconds, fractions in parts of ``FRACTION_ONE``, all others as they are."""
    registers = cc.registers
    record["notify"], record["react"] = cc.np, cc.rp
    record["algorithm"] = _ALGORITHMS[cc.algorithm]
    record["moderation"] = _MODERATIONS[cc.moderation]
    for register in fields(registers):
        name, value = register.name, getattr(registers, register.name)
        unit = _NS if name in TIMES else FRACTION_ONE if name in FRACTIONS else 1
        record[name] = round(value * unit)


def _fill_group(record: np.void, group: GroupQos, *, lossless: bool) -> None:
    record["reserved"] = group.reserved
    record["xoff"] = group.xoff or 0
    record["xon"] = group.xon
    record["headroom"] = group.headroom
    record["alpha"] = 0 if group.alpha is None else int(group.alpha * _ALPHA_UNIT)
    record["lossless"] = lossless
