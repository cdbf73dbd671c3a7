"""The JSON Schema is complete enough to be a manual, and agrees with what loading accepts."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from lab.errors import InvalidInput
from lab.model.load import load_topology
from lab.model.spec import json_schema

SCHEMA = json_schema()


def _objects() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "file", SCHEMA
    yield from SCHEMA["$defs"].items()


def test_every_key_is_described() -> None:
    for name, section in _objects():
        for key, member in section.get("properties", {}).items():
            named = SCHEMA["$defs"].get(member.get("$ref", "").removeprefix("#/$defs/"), {})
            assert member.get("description") or named.get("description") or "const" in member, f"{name}.{key}"


def test_unknown_keys_are_refused_everywhere() -> None:
    for name, section in _objects():
        if section.get("type") == "object":
            assert section["additionalProperties"] is False, name
    for key in ("nodes", "overrides"):
        assert SCHEMA["properties"][key]["additionalProperties"] is False


def test_shapes_are_told_apart_by_shape() -> None:
    generate = SCHEMA["properties"]["generate"]["anyOf"][0]
    assert set(generate["discriminator"]["mapping"]) == {"leaf-spine", "clos", "rail-optimised"}


@pytest.mark.parametrize("name", ["a", "leaf1", "rack-7-leaf-2", "A", "1a", "a-", "a--b", "a_b", "", "a.b", "ä"])
def test_the_pattern_of_names_is_the_rule_of_names(name: str) -> None:
    allowed = re.search(SCHEMA["properties"]["name"]["pattern"], name) is not None
    try:
        load_topology(f'name: "{name}"\ngenerate: {{shape: leaf-spine, spines: 1, leaves: 2}}')
    except InvalidInput:
        assert not allowed
    else:
        assert allowed
