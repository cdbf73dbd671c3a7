"""Change a node's QoS by assignments like ``ecn.3.kmin=20KB``, with the paths and values of profiles in a file."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from lab.errors import InvalidInput, Problem, UsageError
from lab.model.qos.check import node_faults
from lab.model.qos.port import DSCPS, NodeQos
from lab.model.qos.qos_spec import ProfileSpec, make_profile
from lab.model.qos.resolve import overlay, unmarked
from lab.model.values.suggest import suggest
from lab.model.values.validate import explain, schema_at
from lab.model.values.yamltext import format_path, read_yaml, show

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lab.model.qos.presets import Preset
    from lab.model.qos.profile import QosProfile
    from lab.model.topology import Role
    from lab.model.values.yamltext import Value

SOURCE = "qos"
"""The source of assignments in errors."""


def change(node: NodeQos, role: Role, interfaces: Iterable[str], assignments: Iterable[str]) -> NodeQos:
    """Return ``node``, which has ``role``, with all ``assignments`` on all ``interfaces``.

    UsageError is raised for an unknown interface. InvalidInput is raised for invalid paths and values, and for sizes
    that do not fit together. ``buffer.pool`` applies to the whole node.
    """
    return apply_profile(node, role, interfaces, parse_assignments(assignments))


def apply_profile(node: NodeQos, role: Role, interfaces: Iterable[str], said: QosProfile) -> NodeQos:
    """Return ``node`` with a profile applied to all ``interfaces``; errors as in ``change``."""
    for key, given in (("nic.drain", said.nic.drain is not None), ("nic.cc", bool(said.nic.cc))):
        if given and role.is_switch:
            raise InvalidInput(SOURCE, [Problem(key, f"is for hosts, not for a {role}", "name a host's NIC")])
    ports = dict(node.ports)
    for name in _known(node, interfaces):
        ports[name] = overlay(ports[name], said)
    return _checked(replace(node, ports=ports, pool=node.pool if said.buffer.pool is None else said.buffer.pool))


def apply_preset(node: NodeQos, role: Role, interfaces: Iterable[str], preset: Preset) -> NodeQos:
    """Return ``node`` with a preset applied to ``interfaces`` at their link's rate; errors as in ``change``.

    The shared pool keeps its size, until the preset is applied to all ports of the node at once.
    """
    chosen = list(_known(node, interfaces))
    ports = dict(node.ports)
    for name in chosen:
        port = ports[name]
        fresh = preset.port(port.rate, port.mtu, port.delay, port.reaction)
        ports[name] = replace(fresh, drain=None, cc=None) if role.is_switch else unmarked(fresh)
    shared = node.shared
    if len(chosen) == len(ports):
        shared = max(preset.shared(port.rate, port.mtu) for port in ports.values())
    return _checked(NodeQos(shared + sum(port.committed for port in ports.values()), ports))


def _known(node: NodeQos, interfaces: Iterable[str]) -> Iterator[str]:
    for name in interfaces:
        if name not in node.ports:
            raise UsageError(f"there is no interface {show(name)}", f"the node has {', '.join(node.ports)}")
        yield name


def _checked(changed: NodeQos) -> NodeQos:
    faults = {Problem(format_path(fault.fields[0]), fault.message, fault.remedy) for fault in node_faults(changed)}
    if faults:
        raise InvalidInput(SOURCE, sorted(faults))
    return changed


def parse_assignments(assignments: Iterable[str]) -> QosProfile:
    """Return the profile of ``assignments``; raise InvalidInput with every problem, its path and the choices."""
    tree: dict[str, Any] = {}
    problems: list[Problem] = []
    for text in assignments:
        try:
            _assign(tree, text)
        except InvalidInput as error:
            problems += error.problems
    try:
        spec = ProfileSpec.model_validate_json(json.dumps(tree))
    except ValidationError as error:
        found = explain(error, tree, _schema())
        problems += (Problem(format_path(path), message, remedy) for path, message, remedy in found)
    if problems:
        raise InvalidInput(SOURCE, problems)
    return make_profile(spec)


@cache
def _schema() -> Mapping[str, Any]:
    return ProfileSpec.model_json_schema()


def _assign(tree: dict[str, Any], text: str) -> None:
    written, sign, value = text.partition("=")
    path = written.strip().split(".")
    if not sign or not all(path):
        raise _refused([], f"{show(text)} is no assignment", "write it like ecn.3.kmin=20KB")
    _check_path(path)
    here = tree
    for part in path[:-1]:
        here = here.setdefault(part, {})
    here[path[-1]] = _value(path, value)


def _check_path(path: list[str]) -> None:
    """Raise InvalidInput unless ``path`` leads through existing fields to a value."""
    for length, part in enumerate(path):
        choices = _choices(path[:length])
        if not choices:
            raise _refused(path, f"{format_path(path[:length])} is a value", f"leave .{'.'.join(path[length:])} out")
        if part not in choices:
            words = [] if choices[0].isdigit() else choices
            raise _refused(path, f"there is no {show(part)}", suggest(part, words, f"choose {_among(choices)}"))
    if choices := _choices(path):
        raise _refused(path, "is not one setting", f"choose one of its own: {_among(choices)}")


def _choices(path: list[str]) -> list[str]:
    """Return the fields or numbers below ``path``; none if it is a value."""
    schema = schema_at(_schema(), path)
    numbered = schema.get("patternProperties", {})
    numbers = [str(number) for number in range(DSCPS) for pattern in numbered if re.search(pattern, str(number))]
    return [*schema.get("properties", {}), *numbers]


def _among(choices: list[str]) -> str:
    return f"0 to {choices[-1]}" if choices[0].isdigit() else ", ".join(choices)


def _value(path: list[str], text: str) -> Value:
    """Parse a value as YAML; the lossless priorities may also be written like 3,4."""
    if path == ["pfc", "priorities"] and not text.strip().startswith("["):
        text = f"[{text}]"
    refused = _refused(path, f"{show(text)} is no value", "write it like 20KB, 3ms, 50, true or strict")
    try:
        document = read_yaml(text, SOURCE)
    except InvalidInput as error:
        raise refused from error
    if document.problems or document.data is None:
        raise refused
    return document.data


def _refused(path: list[str], message: str, remedy: str) -> InvalidInput:
    return InvalidInput(SOURCE, [Problem(format_path(path), message, remedy)])
