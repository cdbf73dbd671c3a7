"""Settings are recorded when they change, not only when a phase begins."""

from __future__ import annotations

import os
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lab.backends.fabric_state import FabricState
from lab.model.qos.qos_store import restore_node
from lab.model.qos.resolve import resolve
from lab.telemetry.sample.setting_changes import SettingChanges
from lab.telemetry.store.recording_folder import Folder, read_lines
from tests.unit.model.qos.fabrics import fabric

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.model.qos.port import NodeQos

POLICY = "net/ipv4/fib_multipath_hash_policy"


@pytest.fixture
def changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SettingChanges]:
    """The settings of a fabric whose leaf2 does not answer; each sysctl is a file."""
    monkeypatch.setattr(FabricState, "directory", tmp_path / "state")
    (tmp_path / "state").mkdir()
    (tmp_path / "policy").write_text("3\n")
    made: Any = SimpleNamespace(
        topology=fabric("paper"),
        state=FabricState("t"),
        namespace=lambda name: SimpleNamespace(
            answers=lambda: name != "leaf2", inside=lambda _: os.open(tmp_path / "policy", os.O_RDONLY)
        ),
    )
    settings = SettingChanges(made, Folder(tmp_path / "run"))
    yield settings
    settings.close()


def slower(rate: int) -> dict[str, NodeQos]:
    qos = resolve(fabric("paper"))["leaf1"]
    return {"leaf1": replace(qos, ports={name: replace(port, rate=rate) for name, port in qos.ports.items()})}


def test_the_qos_of_a_node_is_recorded_once_when_it_changes(changes: SettingChanges, tmp_path: Path) -> None:
    file = Folder(tmp_path / "run").configuration
    changes.look(10)
    assert not file.exists()
    FabricState("t").save_qos(slower(10**6))
    changes.look(20)
    changes.look(30)
    FabricState("t").save_qos(slower(10**7))
    changes.look(40)
    found = [
        (line["ns"], {name: restore_node(node) for name, node in line["nodes"].items()}) for line in read_lines(file)
    ]
    assert found == [(20, slower(10**6)), (40, slower(10**7))]


def test_sysctls_of_switches_are_recorded_at_the_start_and_when_they_change(
    changes: SettingChanges, tmp_path: Path
) -> None:
    changes.look(10)
    (tmp_path / "policy").write_text("0\n")
    changes.look(20)
    changes.look(30)
    first, second = read_lines(Folder(tmp_path / "run").sysctls)
    switches = ("leaf1", "spine1", "spine2")
    assert first["nodes"] == {name: {POLICY: "3"} for name in switches}
    assert second == {"ns": 20, "nodes": {name: {POLICY: "0"} for name in switches}}
    assert len(changes.descriptors) == 3


def test_a_damaged_qos_file_is_left_to_the_recorder(changes: SettingChanges, tmp_path: Path) -> None:
    (tmp_path / "state" / "qos.json").write_text("{")
    changes.look(10)
    assert not Folder(tmp_path / "run").configuration.exists()
