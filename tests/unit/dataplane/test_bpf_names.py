"""The names of BPF programs and maps that tests/fabric/snapshot.py waits for are those of the sources."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

from tests.fabric import snapshot

if TYPE_CHECKING:
    from pathlib import Path

DECLARED: Final = re.compile(r'^(?:RL_ARRAY\(|\} \w+ SEC\("\.maps"\)|SEC\("(?!license")[^"]+"\))', re.MULTILINE)
"""The beginning of each map, program and struct_ops object."""


@pytest.mark.parametrize("source", snapshot._SOURCES, ids=lambda path: path.name)
def test_each_program_and_map_has_a_name(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    assert len(snapshot._NAMED.findall(text)) == len(DECLARED.findall(text))


def test_names_of_each_kind_are_found() -> None:
    assert {"port", "limiters", "limited_peers", "cnp_destination", "rl_enqueue", "qp_modified"} <= set(
        snapshot._OF_FABRICS
    )
    assert "NAME" not in snapshot._OF_FABRICS
