"""``rocelab diagnose --settings``: all settings of a running fabric are read on request only."""

from __future__ import annotations

import json
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from lab.audit import snapshot
from lab.audit.audited import NodeAudit
from lab.audit.objects.kernel_objects import SysctlAudit
from lab.cli.app import app
from lab.cli.kit import open_fabric
from lab.errors import UsageError
from lab.telemetry.record import temporary_recording
from lab.telemetry.record.recorder import Recorder
from lab.telemetry.store import recording_folder as files
from tests.unit.diagnose.recorded import begun, during

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS = {
    f"h{number}": snapshot.dump_node(
        NodeAudit(f"h{number}", "host", sysctls=(SysctlAudit("net.ipv4.conf.all.rp_filter", value),))
    )
    for number, value in ((1, "1"), (2, "0"), (3, "0"), (4, "0"))
}


def diagnose(*words: str) -> Result:
    return CliRunner().invoke(app, ["diagnose", *words])


@pytest.fixture
def fabric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A running fabric without traffic, whose rp_filter differs at one of four hosts."""

    @contextmanager
    def begin(path: Path, _: object, *, audited: bool) -> Iterator[Any]:
        made = begun(path)
        if audited:
            files.append_line(made.folder.audit, {"ns": made.ns, "fabric": "t", "nodes": SETTINGS, "drift": None})
        yield SimpleNamespace(phase=lambda _: None)
        during(made, "window", lambda _: None)
        made.finished()

    running = SimpleNamespace(state=SimpleNamespace(challenge=tmp_path / "none"))
    monkeypatch.setattr(open_fabric, "open_fabric", lambda _: running)
    monkeypatch.setattr(Recorder, "begin", begin)
    monkeypatch.setattr(temporary_recording, "time", SimpleNamespace(sleep=lambda _: None))


@pytest.mark.usefixtures("fabric")
def test_an_answer_that_is_none_names_the_option_that_finds_more() -> None:
    said = diagnose("--seconds", "1")
    assert said.exit_code == 3, said.output
    assert "rocelab diagnose --probe checks more" in said.stdout


@pytest.mark.usefixtures("fabric")
@pytest.mark.parametrize(("words", "differing"), [(["--settings"], [("h1", "value", "1", "0")]), ([], [])])
def test_settings_are_compared_on_request_only(words: list[str], differing: list[tuple[str, ...]]) -> None:
    said = diagnose("--json", *words)
    found = [
        (each["node"], each["setting"], each["value"], each["expected"])
        for each in json.loads(said.stdout)["differing"]
    ]
    assert found == differing


def test_a_recording_has_its_settings_or_not() -> None:
    refused = diagnose("run", "--settings").exception
    assert isinstance(refused, UsageError)
    assert str(refused).startswith("--settings needs a running fabric: omit it")
