"""The settings of a preset by name and value, to list presets, and to compare two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lab.model.qos.congestion.cc_summary import REGISTERS
from lab.model.qos.headroom import VIRTUAL_REACTION
from lab.model.qos.port import CLASSES, members
from lab.model.qos.presets import CNP_DSCP, PRESETS, ROCE_DSCP
from lab.model.values.suggest import runs

if TYPE_CHECKING:
    from lab.model.qos.port import PortQos, QueueQos

REGISTER: Final = "nic.cc."
"""Prefix of settings that are registers of congestion control."""
MTU: Final = 9000
"""The default MTU in bytes that a preset is scaled to."""
PUBLISHED_MTU: Final = 1500
"""An MTU at which every preset keeps its published values at its own rate: the floor of three packets is lower."""


class PresetValueChange(NamedTuple):
    """A setting with its values in two presets."""

    setting: str
    first: Any
    second: Any


def preset_values(name: str, rate: int | None = None, mtu: int | None = None) -> dict[str, Any]:
    """Return the settings of preset ``name`` on a link of ``rate`` bit/s and ``mtu`` bytes; by default, as published.

    Sizes are in bytes, times in seconds. Headroom and pool are left out, because they depend on the link and the
    machine. Raises KeyError for an unknown preset.
    """
    preset = PRESETS[name]
    mtu = mtu or (PUBLISHED_MTU if rate is None else MTU)
    rate = preset.rate if rate is None else rate
    port = preset.port(rate, mtu, 0.0, VIRTUAL_REACTION)
    group = port.groups[port.priority_to_group[preset.roce[0]]]
    ecn = port.queues[port.priority_to_queue[preset.roce[0]]].ecn
    shared = preset.shared(rate, mtu)
    threshold = group.alone(shared)
    values: dict[str, Any] = {
        "rate": rate,
        "lossless": list(members(port.pfc.priorities)),
        "kmin": ecn.kmin,
        "kmax": ecn.kmax,
        "pmax": ecn.pmax,
        "alpha": str(group.alpha),
        "xoff": threshold if preset.pfc else None,
        "xon": group.xon if preset.pfc else None,
        "drop": None if preset.pfc else threshold,
        "pool": shared,
        "roce": port.dscp_to_priority[ROCE_DSCP],
        "cnp": port.dscp_to_priority[CNP_DSCP],
        "cnp_queue": _scheduling(port.queues[port.priority_to_queue[port.dscp_to_priority[CNP_DSCP]]]),
        "watchdog": port.pfc.watchdog.detection if port.pfc.watchdog.enabled else None,
        "cc": None if port.cc is None else str(port.cc.algorithm),
        "cc_scale": None if port.cc is None else float(port.cc.scale),
    }
    return values | _maps(port) | _registers(port)


def _registers(port: PortQos) -> dict[str, Any]:
    """Return the registers of congestion control at the port's rate, as ``nic.cc.rpg_gd``; None without it."""
    return {f"{REGISTER}{name}": None if port.cc is None else getattr(port.cc.registers, name) for name in REGISTERS}


def _maps(port: PortQos) -> dict[str, Any]:
    """Return the DSCPs, queue and group of each priority, and the scheduling of each queue in use."""
    found: dict[str, Any] = {}
    for priority in range(CLASSES):
        dscps = [dscp for dscp, to in enumerate(port.dscp_to_priority) if to == priority]
        found[f"DSCP of priority {priority}"] = ",".join("-".join(map(str, run)) for run in runs(dscps)) or "none"
        found[f"queue of priority {priority}"] = port.priority_to_queue[priority]
        found[f"group of priority {priority}"] = port.priority_to_group[priority]
    for queue in range(CLASSES):
        used = queue in port.priority_to_queue
        found[f"scheduling of queue {queue}"] = _scheduling(port.queues[queue]) if used else "not used"
    return found


def _scheduling(queue: QueueQos) -> str:
    return "strict" if queue.strict else f"DWRR {queue.weight}"


def differences(first: str, second: str, rate: int, mtu: int | None = None) -> list[PresetValueChange]:
    """Return the settings of two presets that differ at ``rate`` bit/s; raise KeyError for an unknown preset."""
    one, other = (preset_values(name, rate, mtu) for name in (first, second))
    return [
        PresetValueChange(setting, value, other[setting]) for setting, value in one.items() if value != other[setting]
    ]
