"""``rocelab baseline learn``: a recording with faults is no norm."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from typer.testing import CliRunner, Result

from lab.cli.incidents.baseline import app
from lab.telemetry.store.recording_folder import Folder
from tests.unit.telemetry.made import START, plain_run

if TYPE_CHECKING:
    from pathlib import Path


def learned(run: Path) -> Result:
    done = CliRunner().invoke(app, ["learn", str(run), "--every", "100ms", "-o", str(run.parent / "baseline.json")])
    assert done.exit_code == 0, done.output
    return done


def test_a_recording_with_injected_faults_is_noted(tmp_path: Path) -> None:
    run = plain_run(tmp_path / "run", sent=1)
    assert learned(run).stderr == ""
    truth = Folder(run).truth
    truth.parent.mkdir(exist_ok=True)
    faults = [{"ns": START, "did": did, "kind": "link-down", "place": "leaf1:swp1"} for did in ("inject", "heal")]
    truth.write_text("".join(json.dumps(fault) + "\n" for fault in faults), encoding="utf-8")
    assert learned(run).stderr == "run has injected faults, link-down: --phase learns from a part of it\n"
