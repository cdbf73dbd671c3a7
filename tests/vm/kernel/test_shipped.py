"""The objects in the package are those that the image's compiler makes of the sources, byte for byte."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from lab.dataplane import port_layout, port_maps
from lab.dataplane.numbering import NodePorts, Numbering
from lab.doctor import capabilities
from lab.doctor.remedies import this_host
from lab.errors import EnvironmentLacks
from lab.kernel.bpf import clang, pins
from tests.vm.build_objects import SOURCES, build
from tests.vm.one_switch import waited

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PORT: Final = next(source for source in SOURCES if source.name == "port.bpf.c")


def copied(source: Path, folder: Path) -> Path:
    """A program's sources, and the object that is shipped with them, at another place."""
    shutil.copytree(source.parent, folder / "bpf")
    return folder / "bpf" / source.name


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Sources of the port that the verifier refuses, with an empty cache of objects."""
    copy = copied(PORT, tmp_path_factory.mktemp("refused"))
    checked = "if (!rl_find_at(&port, skb))\n\t\treturn TC_ACT_UNSPEC;"
    text = copy.read_text()
    assert checked in text
    copy.write_text(text.replace(checked, "rl_find_at(&port, skb);", 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield copy


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_a_shipped_object_is_what_its_sources_make_wherever_they_lie(source: Path, tmp_path: Path) -> None:
    copy = copied(source, tmp_path)
    assert build(copy, tmp_path / "again.o").read_bytes() == clang.shipped(source).read_bytes()
    assert clang.compile_bpf(copy).parent == copy.parent


def test_other_sources_or_headers_do_not_get_the_shipped_object(refused: Path, tmp_path: Path) -> None:
    made = clang.compile_bpf(refused)
    assert made.parent != refused.parent
    copy = copied(PORT, tmp_path)
    assert clang.shipped(copy).is_file()
    header = copy.with_name("watchdog.h")
    header.write_text(header.read_text().replace("restored++", "restored += 2"))
    assert not clang.shipped(copy).exists()


def loaded() -> list[str]:
    """Programs and maps that the kernel has by the names of ours."""
    names = [("prog", "port_rx"), ("map", "groups"), ("struct_ops", "port")]
    said = {
        kind: subprocess.run(["bpftool", "-j", kind, "list"], capture_output=True, check=True) for kind, _ in names
    }
    return [
        name for kind, name in names if name in {each.get("name") for each in json.loads(said[kind].stdout or "[]")}
    ]


def test_doctor_tries_the_programs_themselves_and_leaves_nothing() -> None:
    (capability,) = (each for each in capabilities.CAPABILITIES if each.name == "BPF qdisc")
    assert capability.look(replace(this_host(), in_vm=False)).present
    waited(lambda: not loaded(), "the kernel to free them")


def test_a_verifier_that_refuses_them_is_told_alike_by_doctor_and_up(
    refused: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of Linux 6.18 does: it has BPF qdiscs, and all of port_rx is too much for it."""
    monkeypatch.setattr(port_layout, "SOURCE", refused)
    found = port_maps.trial()
    assert found.present is False
    assert "the verifier refuses program port_rx: " in found.detail
    numbering = Numbering({"s1": NodePorts("s1", 0, 0, ("swp1",), host=False)})
    with pytest.raises(EnvironmentLacks) as refusal:
        port_maps.load("refused", numbering, "vmtest", 1)
    assert refusal.value.message == found.detail
    assert refusal.value.remedy.startswith("use --vm; its log is in ")
    assert not pins.folder_of("refused").exists()
    waited(lambda: not loaded(), "the kernel to free them")
