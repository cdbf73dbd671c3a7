"""What Python knows of the port's maps against the header that people read; tests/vm has the compiler's word."""

from __future__ import annotations

import re

import numpy as np
import pytest

from lab.dataplane import port_layout

HEADER = re.sub(r"/\*.*?\*/", "", port_layout.SOURCE.with_name("port.h").read_text(), flags=re.DOTALL)
BYTES = {"__u64": 8, "__u32": 4, "__u16": 2, "__u8": 1}


def declared(kind: str, name: str) -> str:
    found = re.search(rf"{kind} {name} \{{(.*?)\}}", HEADER, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("name", "prefix", "members"),
    [("rl_drop", "RL_DROP_", port_layout.Drop), ("rl_event_kind", "RL_EVENT_", port_layout.EventKind)],
)
def test_every_number_has_a_name_in_the_order_of_the_header(
    name: str, prefix: str, members: type[port_layout.Drop | port_layout.EventKind]
) -> None:
    names = [each for each in re.findall(r"\bRL_\w+", declared("enum", name)) if each != "RL_DROPS"]
    assert names == [prefix + member.name for member in members]
    assert [member.value for member in members] == list(range(len(names)))


def test_sizes_are_those_of_the_header() -> None:
    plain = {name: int(value, 0) for name, value in re.findall(r"(RL_\w+) = (\w+),", declared("enum", "rl_size"))}
    assert plain["RL_CLASSES"] == port_layout.CLASSES == port_layout.COUNTERS["queue"].shape[0]
    assert plain["RL_EVENTS"] == port_layout.EVENTS
    assert plain["RL_NODE_WORDS"] * 64 == port_layout.NODE_PORTS == port_layout.NODE["busy_ports"].shape[0] * 64
    assert plain["RL_CONTROL_SLOTS"] == port_layout.CONTROL_SLOTS


@pytest.mark.parametrize("name", ["rl_event", "rl_group_config", "rl_queue_config"])
def test_a_record_has_the_members_of_the_header(name: str) -> None:
    members = re.findall(r"(__u\d+) (\w+);", declared("struct", name))
    fields = port_layout.TYPES.record(name).fields
    assert fields is not None
    assert [(field[0].itemsize, member) for member, field in fields.items()] == [
        (BYTES[kind], member) for kind, member in members
    ]


def test_a_member_that_changes_its_place_is_another_layout() -> None:
    first, second, *rest = port_layout.NODE.names or ()
    exchanged = np.dtype([(name, port_layout.NODE[name]) for name in (second, first, *rest)], align=True)
    assert exchanged.itemsize == port_layout.NODE.itemsize
    assert port_layout.digest(exchanged) != port_layout.digest(port_layout.NODE)
