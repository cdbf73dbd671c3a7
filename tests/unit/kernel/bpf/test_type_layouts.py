"""The checked-in layouts of structs against the BTF of the objects, and changed structs, which must be refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lab.dataplane import impair_layout, port_layout
from lab.errors import OperationFailed
from lab.kernel.bpf import btf, clang
from lab.kernel.bpf.type_layouts import TypeLayouts, beside, compile_checked, require_layouts

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCES = (port_layout.SOURCE, impair_layout.SOURCE)


@pytest.fixture(params=SOURCES, ids=lambda source: source.name)
def source(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def test_the_layouts_are_those_of_the_shipped_object(source: Path) -> None:
    """Where this fails, sources were changed: ``python -m tests.vm.build_objects``."""
    require_layouts(clang.shipped(source), beside(source))


def test_a_layout_is_the_record_that_btf_gives(source: Path) -> None:
    layouts, types = TypeLayouts.read(beside(source)), btf.Types.of_object(clang.shipped(source))
    records = [name for name in types.records() if name.startswith("rl_")]
    assert len(records) >= 2
    for name in records:
        assert repr(layouts.record(name)) == repr(types.record(name))
    for name in (name for name in types.enumerations() if name.startswith("rl_")):
        assert layouts.enumeration(name) == types.enumeration(name)


def _another_place(content: dict[str, Any]) -> None:
    fields = content["structs"]["rl_node"]["fields"]
    fields["pool_bytes"], fields["pool_used"] = fields["pool_used"], fields["pool_bytes"]


def _another_order(content: dict[str, Any]) -> None:
    node = content["structs"]["rl_node"]
    node["fields"] = dict(reversed(node["fields"].items()))


def _another_type(content: dict[str, Any]) -> None:
    content["structs"]["rl_node"]["fields"]["busy"] = "56 i8"


def _another_size(content: dict[str, Any]) -> None:
    content["structs"]["rl_node"]["size"] += 8


def _missing(content: dict[str, Any]) -> None:
    del content["structs"]["rl_node"]


@pytest.mark.parametrize("change", [_another_place, _another_order, _another_type, _another_size, _missing])
def test_a_struct_that_changed_is_refused_by_its_name(tmp_path: Path, change: Callable[[Any], None]) -> None:
    content = json.loads(beside(port_layout.SOURCE).read_text())
    change(content)
    path = tmp_path / "port.bpf.layout.json"
    path.write_text(json.dumps(content))
    with pytest.raises(OperationFailed, match=r"json is out of date: rl_node of port\.bpf-\w+\.o differ") as no:
        require_layouts(clang.shipped(port_layout.SOURCE), path)
    assert no.value.remedy == "python -m tests.vm.build_objects"


def test_an_enum_that_changed_is_refused_by_its_name(tmp_path: Path) -> None:
    content = json.loads(beside(port_layout.SOURCE).read_text())
    content["enums"]["rl_drop"]["RL_DROP_FLUSH"] += 1
    (path := tmp_path / "port.bpf.layout.json").write_text(json.dumps(content))
    with pytest.raises(OperationFailed, match="out of date: rl_drop of"):
        require_layouts(clang.shipped(port_layout.SOURCE), path)


def test_programs_of_other_structs_are_not_brought_into_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The object is compared with the file beside its source before anything opens it."""
    ready = clang.shipped(port_layout.SOURCE)
    content = json.loads(beside(port_layout.SOURCE).read_text())
    _another_place(content)
    source = tmp_path / port_layout.SOURCE.name
    beside(source).write_text(json.dumps(content))
    monkeypatch.setattr(clang, "compile_bpf", lambda asked: {source: ready}[asked])
    with pytest.raises(OperationFailed, match="out of date: rl_node of"):
        compile_checked(source)


def test_a_process_reads_the_sources_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a VM, an injected fault would else read each header twice over the host's file system, for seconds."""
    first = compile_checked(port_layout.SOURCE)
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} is read again"))
    assert compile_checked(port_layout.SOURCE) == first


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    layouts = TypeLayouts.of_object(clang.shipped(port_layout.SOURCE))
    layouts.write(path := tmp_path / "again.json")
    assert path.read_text() == beside(port_layout.SOURCE).read_text()
    assert layouts.differences(TypeLayouts.read(path)) == []


def test_a_field_is_an_array_of_arrays_or_a_struct() -> None:
    inner = {"size": 4, "fields": {"a": "0 u2", "b": "2 i1"}}
    layouts = TypeLayouts({}, {"in": inner, "out": {"size": 40, "fields": {"x": "8 u4[3][2]", "y": "32 in[2]"}}})
    record = layouts.record("out")
    assert record.itemsize == 40
    fields: Any = record.fields
    assert fields["x"][0].shape == (3,)
    assert fields["x"][0].base.shape == (2,)
    assert fields["x"][0].itemsize == 24
    assert fields["x"][1] == 8
    assert fields["y"][0].base.fields == {"a": (np.dtype("u2"), 0), "b": (np.dtype("i1"), 2)}


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"enums": {}}'])
def test_a_file_that_is_missing_or_damaged_is_one_clear_line(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "wrong.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(OperationFailed, match=r"wrong\.json cannot be read as layouts of BPF structs"):
        TypeLayouts.read(path)


def test_what_is_not_there_is_named() -> None:
    layouts = TypeLayouts({}, {"rl_a": {"size": 4, "fields": {"x": "0 float"}}})
    for look, message in (
        (lambda: layouts.record("rl_b"), "no layout of struct rl_b"),
        (lambda: layouts.enumeration("rl_b"), "no layout of enum rl_b"),
        (lambda: layouts.record("rl_a"), "no layout of struct float"),
    ):
        with pytest.raises(OperationFailed, match=message):
            look()
