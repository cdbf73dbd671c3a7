"""An audit as JSON, and back: for the plan of a fabric, and for recordings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from lab.audit.audited import FabricAudit, NodeAudit, UnreadPart
from lab.audit.objects import device_objects, kernel_objects, routing_objects

if TYPE_CHECKING:
    from collections.abc import Callable

_KINDS: Final[Mapping[str, type]] = {
    "interfaces": kernel_objects.InterfaceAudit,
    "addresses": kernel_objects.AddressAudit,
    "routes": kernel_objects.RouteAudit,
    "rules": kernel_objects.RuleAudit,
    "neighbours": kernel_objects.NeighbourAudit,
    "sysctls": kernel_objects.SysctlAudit,
    "qdiscs": kernel_objects.QdiscAudit,
    "filters": kernel_objects.FilterAudit,
    "nft": kernel_objects.NftRuleAudit,
    "fdb": kernel_objects.FdbAudit,
    "vlans": kernel_objects.VlanAudit,
    "daemons": routing_objects.DaemonAudit,
    "frr": routing_objects.FrrLineAudit,
    "bgp": routing_objects.BgpSessionAudit,
    "bfd": routing_objects.BfdSessionAudit,
    "vnis": routing_objects.VniAudit,
    "ports": device_objects.PortAudit,
    "rdma": device_objects.RdmaDeviceAudit,
    "gids": device_objects.GidAudit,
    "unread": UnreadPart,
}


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


_IS_OF_TYPE: Final[Mapping[str, Callable[[Any], bool]]] = {
    "str": _is_text,
    "int": _is_number,
    "float": _is_number,
    "bool": _is_number,
    "tuple[str, ...]": lambda value: isinstance(value, tuple) and all(map(_is_text, value)),
    "Text": lambda value: isinstance(value, Mapping) and all(map(_is_text, value.values())),
    "Counters": lambda value: isinstance(value, Mapping) and all(map(_is_number, value.values())),
}
"""Whether a value may be in a field, by the field's annotation. A recording can have anything."""


def dump(found: FabricAudit) -> dict[str, Any]:
    """Return plain data for ``restore``; it survives JSON."""
    return {"fabric": found.fabric, "nodes": {name: dump_node(node) for name, node in found.nodes.items()}}


def dump_node(node: NodeAudit) -> dict[str, Any]:
    """Return plain data for ``restore_node``; groups without objects are omitted."""
    found: dict[str, Any] = {}
    for each in fields(node):
        value = getattr(node, each.name)
        if each.name in _KINDS and value:
            names = [field.name for field in fields(_KINDS[each.name])]
            found[each.name] = [{name: getattr(item, name) for name in names} for item in value]
        elif each.name not in _KINDS and value:
            found[each.name] = value
    return found


def restore(data: Mapping[str, Any]) -> FabricAudit:
    """Return the audit of ``dump``. Raises ValueError, LookupError, TypeError or AttributeError if damaged."""
    return FabricAudit(data["fabric"], {name: restore_node(node) for name, node in data["nodes"].items()})


def restore_node(data: Mapping[str, Any]) -> NodeAudit:
    """Return the node of ``dump_node``; raises as ``restore``."""
    groups = {name: tuple(_object(kind, each) for each in data.get(name, ())) for name, kind in _KINDS.items()}
    return NodeAudit(
        name=str(data["name"]), role=str(data["role"]), counters=dict(data.get("counters", {})), **groups
    )


def _object(kind: type, data: Mapping[str, Any]) -> Any:
    """Return an object whose lists are tuples again; TypeError if a value is not of its field's type."""
    types = {each.name: str(each.type) for each in fields(kind)}
    values = {
        name: tuple(value) if isinstance(value, list) else value for name, value in data.items() if name in types
    }
    for name, value in values.items():
        if not _IS_OF_TYPE[types[name]](value):
            raise TypeError(f"{name} is {value!r}, and no {types[name]}")
    return kind(**values)
