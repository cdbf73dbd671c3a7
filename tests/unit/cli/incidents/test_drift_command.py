"""``rocelab drift RUN``: two moments of a recording; a running fabric: tests/fabric."""

from __future__ import annotations

import contextlib
import json
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner, Result

from lab.audit import snapshot
from lab.audit.audited import NodeAudit
from lab.audit.objects.kernel_objects import SysctlAudit
from lab.backends.fabric_state import FabricState
from lab.cli.app import app
from lab.cli.schemas import adapter
from lab.errors import UsageError
from lab.telemetry.store import recording_folder as files
from tests.unit.telemetry.made import START, plain_run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """ip_forward of leaf1 is 1, 0 after 2 s, and 1 again after 4 s; leaf2 does not change."""
    folder = files.Folder(plain_run(tmp_path / "run", sent=1))
    for seconds, value in ((0, "1"), (2, "0"), (4, "1")):
        nodes = {
            name: snapshot.dump_node(NodeAudit(name, "leaf", sysctls=(SysctlAudit("net.ipv4.ip_forward", each),)))
            for name, each in (("leaf1", value), ("leaf2", "1"))
        }
        files.append_line(folder.audit, {"ns": START + seconds * 10**9, "fabric": "t", "nodes": nodes, "drift": None})
    return folder.path


def drift(*words: object) -> Result:
    return CliRunner().invoke(app, ["drift", *map(str, words)])


@pytest.mark.parametrize(
    ("words", "code", "moments"),
    [
        ([], 0, ("0.0 s", "4.0 s")),
        (["--to", "3.9"], 1, ("0.0 s", "2.0 s")),
        (["--from", "2"], 1, ("2.0 s", "4.0 s")),
        (["--to", "2", "--node", "leaf2"], 0, ("0.0 s", "2.0 s")),
        (["--to", "2", "--node", "leaf2", "--node", "leaf1"], 1, ("0.0 s", "2.0 s")),
    ],
)
def test_moments_and_nodes_are_selected(run: Path, words: list[str], code: int, moments: tuple[str, str]) -> None:
    said = drift(run, "--json", *words)
    adapter("drift").validate_json(said.stdout)
    found = json.loads(said.stdout)
    assert (said.exit_code, found["drift"]) == (code, bool(code))
    assert (found["against"], found["now"]) == moments
    assert [each["node"] for each in found["differences"]] == ["leaf1"] * code


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--node", "leaf9"], "no node 'leaf9' in the fabric: there is leaf1, leaf2"),
        (["--to", "-1"], "--to: '-1' is not a time: write it like 5us, 300ms or 2s"),
        (["--fabric", "t"], "a recording and a fabric are both named"),
    ],
)
def test_what_cannot_be_compared_is_refused(run: Path, words: list[str], message: str) -> None:
    refused = drift(run, *words).exception
    assert isinstance(refused, UsageError)
    assert str(refused).startswith(message)


def test_a_recording_without_settings_is_refused(tmp_path: Path) -> None:
    refused = drift(plain_run(tmp_path / "run", sent=1)).exception
    assert isinstance(refused, UsageError)
    assert "run has no settings of nodes" in str(refused)


def test_a_challenge_is_not_solved_by_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for a user without root, who reads this reason and not that the fabric belongs to root."""
    monkeypatch.setattr("lab.backends.fabric_state.FABRICS", tmp_path)
    state = FabricState("f")
    state.challenge.mkdir(parents=True)
    (state.directory / "journal.jsonl").touch()
    hidden = SimpleNamespace(name="f", state=state)
    monkeypatch.setattr("lab.cli.kit.open_fabric.os.access", lambda _path, mode: mode != os.W_OK)
    monkeypatch.setattr("lab.cli.kit.open_fabric.reading", lambda _: contextlib.nullcontext(hidden))
    refused = drift().exception
    assert isinstance(refused, UsageError)
    assert str(refused).startswith("a challenge hides a fault in f, which its plan would show")
