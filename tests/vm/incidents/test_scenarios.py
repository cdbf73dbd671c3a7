"""Every scenario that comes with rocelab, played on a warm fabric: all its checks pass, and the fabric is as it was.

Judges: the scenario's own checks, of which each has a recording that it fails (tests/unit/scenario), and the ports'
configuration octet for octet.
"""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest

from lab.backends import lifecycle, registry
from lab.backends.fabric_state import FabricState
from lab.dataplane import port_maps
from lab.diagnose.run import diagnose_run
from lab.faults import declared, fault_engine
from lab.faults.ledger import Ledger
from lab.kernel.process import time_source
from lab.kernel.process.locks import patient
from lab.model.load import read_topology
from lab.report.packet_picks import packets_of
from lab.scenario import library, port_restore
from lab.scenario.judge import judge
from lab.scenario.runner import play
from lab.scenario.verdict import VerdictOutcome
from lab.telemetry.read.recording import Recording
from tests.fabric.command import forked
from tests.readers import read_by_all
from tests.vm.incidents.scenario_texts import fabric_of
from tests.vm.on_the_wire import fields

if TYPE_CHECKING:
    from pathlib import Path

    from tests.vm.shared_fabric import SharedFabric

pytestmark = [pytest.mark.vm, pytest.mark.timeout(600)]
LONG = pytest.mark.long
KILLED = "pfc-storm"


NAMES = sorted(library.names(), key=lambda name: (fabric_of(name) == fabric_of(KILLED), fabric_of(name), name))
"""Those of one topology come together, and those of the scenario that is killed last."""
BRIEF = {"pfc-storm"}
"""What CI has the time for: one that captures. tests/vm/overlay/test_tenant_challenges.py has some of the overlay."""
FIRST = {
    "gray-loss": ("the first NAK", "infiniband.aeth.syndrome.opcode == 3"),
    "incast": ("the first packet that is marked (CE)", "ip.dsfield.ecn == 3 && infiniband"),
    "pfc-storm": ("the first pause (PFC)", "macc.opcode == 0x0101"),
}
"""Of scenarios that capture: a packet that their reports take apart, and how tshark calls such."""
OF_PFC = {"parking-lot", "victim-flow"}
"""What diagnose may find in published results. Nothing is broken in them, and PFC alone divides a link by port."""


def octets(fabric: str) -> bytes:
    """How its ports are configured; plain links are not."""
    return port_maps.open_maps(fabric).config.tobytes() if lifecycle.open_fabric(fabric).qos else b""


@pytest.mark.parametrize("name", [pytest.param(each, marks=() if each in BRIEF else LONG) for each in NAMES])
def test_a_scenario_passes_and_leaves_its_fabric_as_it_was(
    name: str, shared_fabric: SharedFabric, tmp_path: Path
) -> None:
    fabric = fabric_of(name)
    shared_fabric.turn_to(fabric)
    before = octets(fabric) if FabricState(fabric).ready else b""
    play(library.find(name), {}, tmp_path / name, keep=True)
    judged = judge(tmp_path / name)
    assert {check: verdict.evidence for check, verdict in judged.verdicts.items() if verdict.outcome != "pass"} == {}
    assert judged.outcome is VerdictOutcome.PASS
    if library.find(name).answer is None:
        faults = {cause.cause for cause in diagnose_run(Recording.open(tmp_path / name)).causes if cause.fault}
        assert faults <= OF_PFC
    assert fault_engine.running(lifecycle.open_fabric(fabric)) == ()
    assert before in {b"", octets(fabric)}
    read_by_all(tmp_path / name, tmp_path / "reports", screen=False)
    recording = Recording.open(tmp_path / name)
    assert bool(recording.captures) is (name in FIRST)
    for file in recording.captures:
        what, shown = FIRST[name]
        found, _ = packets_of(recording)
        first, *_ = fields(file, shown, "frame.number")
        assert [[str(each.number)] for each in found if each.what == what] == [first]


def test_one_that_is_killed_leaves_a_fabric_that_heals_and_a_recording_that_says_so(
    shared_fabric: SharedFabric, tmp_path: Path
) -> None:
    fabric = fabric_of(KILLED)
    shared_fabric.turn_to(fabric)
    if not FabricState(fabric).ready:  # none of its scenarios was asked for
        file = library.topology_of(library.find(KILLED))
        lifecycle.up(read_topology(file, time_source.reaction(), declared.check), registry.backend(registry.DEFAULT))
    before, run = octets(fabric), tmp_path / "killed"
    with forked("scenario", "run", KILLED, "--keep", "--output", str(run)) as command:
        deadline = time.monotonic() + 120
        while not any(entry.whole for entry in Ledger.of(FabricState(fabric)).entries()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        command.kill()
        assert command.end(60).returncode == -signal.SIGKILL
    healed = fault_engine.heal_abandoned(lifecycle.open_fabric(fabric, patient), patient)
    assert [str(entry) for entry in healed] == ["pause-storm at h8"]
    assert octets(fabric) != before
    assert port_restore.mend(lifecycle.open_fabric(fabric, patient), patient)
    assert octets(fabric) == before
    assert not port_restore.mend(lifecycle.open_fabric(fabric, patient), patient)
    (folder,) = run.iterdir()
    assert Recording.open(folder).incomplete
    assert judge(folder).outcome is VerdictOutcome.UNKNOWN
