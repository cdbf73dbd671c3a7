"""What Python reads in the port's maps against the types that the compiler put into the object, by bpftool(8)."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import struct
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lab.dataplane import counters, port_layout, port_maps
from lab.dataplane.numbering import Numbering
from lab.errors import OperationFailed
from lab.kernel.bpf import btf, clang, pins
from lab.kernel.bpf.libbpf import library
from tests.vm import port_programs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.vm.port_programs import Switch

RECORDS = (
    "rl_queue_config",
    "rl_group_config",
    "rl_config",
    "rl_priority_counters",
    "rl_queue_counters",
    "rl_group_counters",
    "rl_counters",
    "rl_list",
    "rl_state",
    "rl_cable",
    "rl_memory",
    "rl_node",
    "rl_event",
    "rl_group",
    "rl_slot",
)
ENUMS = ("rl_size", "rl_drop", "rl_event_kind")
NAMED = {"rl_drop": ("RL_DROP_", port_layout.Drop), "rl_event_kind": ("RL_EVENT_", port_layout.EventKind)}
POINTER = 8
PROGRAMS = ("port_rx", "port_tx", "tick", "rl_enqueue", "rl_dequeue", "rl_init", "rl_reset", "rl_destroy")
VERIFIED = struct.Struct("=216xI")
"""Of struct bpf_prog_info of <linux/bpf.h>."""


@pytest.fixture(scope="module")
def types() -> dict[int, dict[str, Any]]:
    """Every type of the object by its id."""
    argv = ["bpftool", "-j", "btf", "dump", "file", str(clang.compile_bpf(port_layout.SOURCE))]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout
    return {entry["id"]: entry for entry in json.loads(said)["types"]}


@pytest.fixture(scope="module")
def built() -> Iterator[Switch]:
    with port_programs.switch() as made:
        yield made


def named(types: dict[int, dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = (entry for entry in types.values() if entry["kind"] == kind and entry["name"] == name)
    return found


def size(types: dict[int, dict[str, Any]], identity: int) -> int:
    """Bytes of a type."""
    entry = types[identity]
    if entry["kind"] == "ARRAY":
        return int(entry["nr_elems"]) * size(types, entry["type_id"])
    if entry["kind"] == "PTR":
        return POINTER
    return size(types, entry["type_id"]) if entry["kind"] == "TYPEDEF" else int(entry["size"])


def ours(record: np.dtype[Any]) -> dict[str, tuple[int, int]]:
    """Offset and size of each field."""
    assert record.fields is not None
    return {name: (place[1], place[0].itemsize) for name, place in record.fields.items()}


def theirs(types: dict[int, dict[str, Any]], name: str) -> dict[str, tuple[int, int]]:
    members = named(types, "STRUCT", name)["members"]
    return {each["name"]: (each["bits_offset"] // 8, size(types, each["type_id"])) for each in members}


@pytest.mark.parametrize("name", RECORDS)
def test_every_field_is_where_the_compiler_put_it(types: dict[int, dict[str, Any]], name: str) -> None:
    record = port_layout.TYPES.record(name)
    assert ours(record) == theirs(types, name)
    assert record.itemsize == named(types, "STRUCT", name)["size"]


def test_the_qdisc_operations_of_the_kernel_are_where_the_compiler_put_them(types: dict[int, dict[str, Any]]) -> None:
    record = btf.Types.of_object(clang.compile_bpf(port_layout.SOURCE)).record("Qdisc_ops")
    assert ours(record) == theirs(types, "Qdisc_ops")


def test_fields_that_changed_places_are_not_where_the_compiler_put_them(types: dict[int, dict[str, Any]]) -> None:
    first, second, *rest = port_layout.EVENT.names or ()
    exchanged = np.dtype([(name, port_layout.EVENT[name]) for name in (second, first, *rest)], align=True)
    assert exchanged.itemsize == port_layout.EVENT.itemsize
    assert ours(exchanged) != theirs(types, "rl_event")


@pytest.mark.parametrize("name", ENUMS)
def test_every_number_has_the_name_that_the_compiler_gave_it(types: dict[int, dict[str, Any]], name: str) -> None:
    values = {each["name"]: each["val"] for each in named(types, "ENUM", name)["values"]}
    assert port_layout.TYPES.enumeration(name) == values


@pytest.mark.parametrize("name", NAMED)
def test_every_number_has_a_name_here(types: dict[int, dict[str, Any]], name: str) -> None:
    prefix, members = NAMED[name]
    values = {each["name"]: each["val"] for each in named(types, "ENUM", name)["values"]}
    values.pop("RL_DROPS", None)
    assert {prefix + member.name: member.value for member in members} == values


class TestOpened:
    """What a fabric's maps are in a process that only reads them."""

    def test_a_reader_cannot_write(self, built: Switch) -> None:
        read = port_maps.open_maps(built.name)
        for array in (read.ports, read.nodes, read.events, read.event_count):
            assert not array.flags.writeable
            with pytest.raises(ValueError, match="read-only"):
                array[0] = array[0]
        address = read.ports.__array_interface__["data"][0]
        (line,) = (
            line for line in Path("/proc/self/maps").read_text().splitlines() if line.startswith(f"{address:x}-")
        )
        assert line.split()[1] == "r--s", "nor can anything else, by way of the array"

    def test_what_one_writes_the_other_reads(self, built: Switch) -> None:
        built.maps.nodes["pool_watermark"][0] = 4711
        assert port_maps.open_maps(built.name).nodes["pool_watermark"][0] == 4711

    def test_another_layout_of_the_same_size_is_refused(self, built: Switch) -> None:
        folder = pins.folder_of(built.name)
        (ours,) = folder.glob("layout-*")
        first, second, *rest = port_layout.NODE.names or ()
        exchanged = np.dtype([(name, port_layout.NODE[name]) for name in (second, first, *rest)], align=True)
        assert port_layout.digest(exchanged) != port_layout.digest(port_layout.NODE)
        ours.rename(folder / "layout-0123456789abcdef")
        with pytest.raises(OperationFailed, match=f"^fabric {built.name} was built by another version of rocelab"):
            port_maps.open_maps(built.name)
        (folder / "layout-0123456789abcdef").rename(ours)
        port_maps.open_maps(built.name).require_live()

    def test_counters_of_a_fabric_that_has_gone_are_not_shown(self) -> None:
        name, ports = f"doomed-{os.getpid()}", port_programs.PORTS
        with contextlib.ExitStack() as stack:
            stack.callback(pins.unpin, pins.folder_of(name))
            port_maps.load(name, Numbering({ports.node: ports}), "vmtest", port_programs.SLOTS)
            read = port_maps.open_maps(name)
            assert read.slots == port_programs.SLOTS
            counters.read(read, ports)
        with pytest.raises(OperationFailed, match=f"^fabric {name} was taken down"):
            counters.read(read, ports)


def test_the_verifier_has_no_states_by_the_hundred_to_go_through() -> None:
    """Every ``up`` waits for it: 41,000 instructions, and 464,000 with a branch for each bit of a word."""
    with port_maps._opened(ports=1, nodes=1, nics=1, slots=1) as program:
        program.load()
        steps = {name: verified(program.program(name)) for name in PROGRAMS}
    assert all(steps.values())
    assert sum(steps.values()) < 60_000, steps


def verified(program: int) -> int:
    """Instructions that the verifier followed until it took a program in: no load changes their number."""
    information = ctypes.create_string_buffer(VERIFIED.size)
    length = ctypes.c_uint32(VERIFIED.size)
    assert library().bpf_obj_get_info_by_fd(program, information, ctypes.byref(length)) == 0
    (instructions,) = VERIFIED.unpack(information.raw)
    return int(instructions)
