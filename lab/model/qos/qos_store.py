"""Serialise a fabric's QoS to plain data for JSON, and restore it exactly: int stays bytes, float stays seconds.

The intent is that of the topology file; the ports are resolved, with all changes since.
"""

from __future__ import annotations

from dataclasses import asdict, fields, is_dataclass
from fractions import Fraction
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

from lab.model.qos.congestion.cc_profile import OFF, CcProfile
from lab.model.qos.congestion.cc_registers import CcAlgorithm, CcQos, CcRegisters, CnpModeration
from lab.model.qos.port import (
    EcnQos,
    GroupQos,
    NodeQos,
    PfcQos,
    PortQos,
    QueueQos,
    StormAction,
    Trust,
    WatchdogQos,
)
from lab.model.qos.presets import PRESETS, RENAMED, UNCONTROLLED
from lab.model.qos.profile import (
    BufferProfile,
    EcnProfile,
    GroupProfile,
    MapProfile,
    NicProfile,
    PfcProfile,
    QosIntent,
    QosProfile,
    WatchdogProfile,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


_NAMES: Final = 3
"""Version of the presets' names. Version 1 was not written down."""
_NUMBERS: Final[dict[str, tuple[type, ...]]] = {
    "int": (int,), "tuple[int, ...]": (int,), "int | None": (int, NoneType), "float": (int, float), "bool": (bool,),
}  # fmt: skip
"""The types of values by the annotation of their field."""
_COUNTS: Final = {
    "dscp_to_priority": 64, "pcp_to_priority": 8, "priority_to_queue": 8, "priority_to_group": 8, "groups": 8,
    "queues": 8,
}  # fmt: skip
_SHOWN: Final = 40
_REUSED: Final = {1: {"hpcc": "hpcc-thresholds"}, 2: {"lab": UNCONTROLLED}}
"""Names of earlier versions that mean something else now: up to that version, they meant the preset given here."""


def dump_intent(intent: QosIntent) -> dict[str, Any]:
    """Return plain data for ``restore_intent``; it survives JSON."""
    data = {**asdict(intent), "names": _NAMES}
    for profile in data["profiles"].values():
        for group in profile["buffer"]["groups"].values():
            group["alpha"] = None if group["alpha"] is None else str(group["alpha"])
    return data


def restore_intent(data: Mapping[str, Any]) -> QosIntent:
    """Return the intent of ``dump_intent``; raise ValueError, KeyError, TypeError or AttributeError if damaged."""
    version = data.get("names", 1)
    renamed = dict(RENAMED)
    for last, names in _REUSED.items():
        renamed |= names if version <= last else {}
    fabric = _current(data["fabric"], renamed)
    if version < _NAMES and (not fabric or fabric[0] not in PRESETS):
        fabric = (UNCONTROLLED, *fabric)
    return QosIntent(
        profiles={name: _profile(profile) for name, profile in data["profiles"].items()},
        fabric=fabric,
        **{place: _named(data[place], renamed) for place in ("roles", "nodes", "interfaces")},
    )


def _named(attached: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {place: _current(names, renamed) for place, names in attached.items()}


def _current(names: Iterable[str], renamed: Mapping[str, str]) -> tuple[str, ...]:
    """Return the current names of profiles: a recording may contain former names."""
    return tuple(renamed.get(name, name) for name in names)


def _numbered(table: Mapping[str, Any]) -> dict[int, Any]:
    """Return the table with int keys, which JSON has turned into text."""
    return {int(number): value for number, value in table.items()}


def _profile(data: Mapping[str, Any]) -> QosProfile:
    groups = {number: _group(**group) for number, group in _numbered(data["buffer"]["groups"]).items()}
    return QosProfile(
        map=_map(**data["map"]),
        buffer=BufferProfile(data["buffer"]["pool"], groups, _numbered(data["buffer"]["queues"])),
        pfc=_pfc(**data["pfc"]),
        ecn={number: EcnProfile(**marking) for number, marking in _numbered(data["ecn"]).items()},
        scheduler=_numbered(data["scheduler"]),
        nic=_nic(**data["nic"]),
    )


def _nic(*, cc: Mapping[str, Any] | None = None, **others: Any) -> NicProfile:
    """Restore the settings of a NIC; recordings of earlier versions have no ``cc``."""
    said = dict(cc or {})
    for name, kind in (("algorithm", CcAlgorithm), ("moderation", CnpModeration)):
        if said.get(name) not in {None, OFF}:
            said[name] = kind(said[name])
    return NicProfile(cc=CcProfile(**said), **others)


def _map(*, trust: str | None, **tables: Any) -> MapProfile:
    trusted = None if trust is None else Trust(trust)
    return MapProfile(trusted, **{name: _numbered(table) for name, table in tables.items()})


def _group(*, alpha: str | None, **sizes: Any) -> GroupProfile:
    return GroupProfile(alpha=None if alpha is None else Fraction(alpha), **sizes)


def _pfc(*, priorities: Any, watchdog: Any, **others: Any) -> PfcProfile:
    action = None if watchdog["action"] is None else StormAction(watchdog["action"])
    return PfcProfile(
        priorities=None if priorities is None else tuple(priorities),
        watchdog=WatchdogProfile(**{**watchdog, "action": action}),
        **others,
    )


def dump_node(node: NodeQos) -> dict[str, Any]:
    """Return plain data for ``restore_node``; it survives JSON."""
    data = asdict(node)
    for port in data["ports"].values():
        for group in port["groups"]:
            group["alpha"] = None if group["alpha"] is None else str(group["alpha"])
    return data


def restore_node(data: Mapping[str, Any]) -> NodeQos:
    """Return the node of ``dump_node``; raise ValueError, KeyError, TypeError or AttributeError if damaged."""
    return NodeQos(data["pool"], {name: _port(**port) for name, port in data["ports"].items()})


def checked_node(data: Mapping[str, Any]) -> NodeQos:
    """Return the node as ``restore_node`` does; it raises also for values of other types, and too few of them."""
    node = restore_node(data)
    _check(node)
    for port in node.ports.values():
        for name, count in _COUNTS.items():
            if len(getattr(port, name)) != count:
                raise ValueError(f"{name} has no {count} entries")
    return node


def _check(value: Any) -> None:
    """Raise TypeError if a field, here or further inside, is no number although its annotation is one."""
    for field in fields(value):
        found = getattr(value, field.name)
        for each in found if isinstance(found, tuple) else [found]:
            if is_dataclass(each):
                _check(each)
            elif (wanted := _NUMBERS.get(str(field.type))) and not isinstance(each, wanted):
                raise TypeError(f"{field.name} is {str(each)[:_SHOWN]}")
    for port in value.ports.values() if isinstance(value, NodeQos) else ():
        _check(port)


def _port(*, trust: str, groups: Any, queues: Any, pfc: Any, cc: Any = None, **others: Any) -> PortQos:
    plain: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in others.items()
    }
    watchdog = WatchdogQos(**{**pfc["watchdog"], "action": StormAction(pfc["watchdog"]["action"])})
    return PortQos(
        trust=Trust(trust),
        groups=tuple(
            GroupQos(**{**group, "alpha": None if group["alpha"] is None else Fraction(group["alpha"])})
            for group in groups
        ),
        queues=tuple(QueueQos(**{**queue, "ecn": EcnQos(**queue["ecn"])}) for queue in queues),
        pfc=PfcQos(**{**pfc, "watchdog": watchdog}),
        cc=None if cc is None else _cc(**cc),
        **plain,
    )


def _cc(*, algorithm: str, moderation: str, published: Any, **others: Any) -> CcQos:
    return CcQos(
        algorithm=CcAlgorithm(algorithm),
        moderation=CnpModeration(moderation),
        published=CcRegisters(**published),
        **others,
    )
