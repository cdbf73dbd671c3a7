"""Every scenario that comes with rocelab, played on one fabric: all of its checks pass, and the fabric is as it was.

Judges: the scenario's own checks, of which each has a recording that it fails (tests/unit/scenario), and the ports'
configuration octet for octet.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from lab.backends import lifecycle
from lab.backends.state import FabricState
from lab.dataplane import port_maps
from lab.faults import engine
from lab.faults.ledger import Ledger
from lab.kernel.locks import patient
from lab.scenario import library
from lab.scenario.judge import judge
from lab.scenario.runner import play
from lab.scenario.verdict import Outcome
from lab.telemetry.recording import Recording
from tests.fabric.command import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.vm, pytest.mark.timeout(600)]
FABRIC = "incast"


@pytest.fixture(scope="module", autouse=True)
def fabric() -> Iterator[None]:
    """The first scenario builds it, the others find it."""
    yield
    lifecycle.down(FabricState(FABRIC))


def octets() -> bytes:
    return port_maps.open_maps(FABRIC).config.tobytes()


@pytest.mark.parametrize("name", library.names())
def test_a_scenario_passes_and_leaves_its_fabric_as_it_was(name: str, tmp_path: Path) -> None:
    before = octets() if FabricState(FABRIC).ready else b""
    play(library.find(name), {}, tmp_path / name, keep=True)
    judged = judge(tmp_path / name)
    assert {check: verdict.evidence for check, verdict in judged.verdicts.items() if verdict.outcome != "pass"} == {}
    assert judged.outcome is Outcome.PASS
    assert engine.running(lifecycle.open_fabric(FABRIC)) == ()
    assert before in {b"", octets()}


def test_one_that_is_killed_leaves_a_fabric_that_heals_and_a_recording_that_says_so(tmp_path: Path) -> None:
    before, run = octets(), tmp_path / "killed"
    argv = [sys.executable, "-m", "lab", "scenario", "run", "pfc-storm", "--keep", "--output", str(run)]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as command:
        deadline = time.monotonic() + 120
        while not any(entry.whole for entry in Ledger.of(FabricState(FABRIC)).entries()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        command.kill()
    healed = engine.heal_abandoned(lifecycle.open_fabric(FABRIC, patient), patient)
    assert [str(entry) for entry in healed] == ["pause-storm at h8"]
    assert octets() == before
    (folder,) = run.iterdir()
    assert Recording.open(folder).incomplete
    assert judge(folder).outcome is Outcome.UNKNOWN
