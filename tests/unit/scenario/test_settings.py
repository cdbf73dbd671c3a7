"""Settings of a scenario are restored however it ends, judged by the octets of the ports."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import pytest
from typer.testing import CliRunner

from lab.backends import fabric_state, lifecycle
from lab.backends.fabric_state import FabricState
from lab.cli.app import app
from lab.dataplane import reconfigure
from lab.errors import Interrupted, UsageError
from lab.faults import fault_engine
from lab.faults.ledger import Holder, Ledger
from lab.scenario import port_restore
from lab.scenario.runner import fabric_for
from tests.unit.running import Running, run
from tests.unit.scenario.test_stage import TOPOLOGY, stage_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lab.backends.backend import Progress
    from lab.model.topology import Topology
    from lab.scenario.stage import Stage

GONE = Holder(2**22 + 1, 1)
"""A process that there is not."""
OTHER = Holder(1, Holder.of(1).started)
"""One that there is, and that is not this one."""


class Killed(BaseException):
    """``kill -9``, of which no handler hears."""


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    return run(TOPOLOGY, tmp_path, monkeypatch)


def handed_to(state: FabricState, holder: Holder) -> None:
    """Somebody else has set the ports."""
    kept = json.loads(state.settings.read_text())
    kept["holder"] = {"pid": holder.pid, "started": holder.started}
    state.settings.write_text(json.dumps(kept))


def faults_nobodys(state: FabricState) -> None:
    """Whoever injected what there is was killed."""
    state.faults.write_text(state.faults.read_text().replace(str(Holder.current().started), "1"))


def test_ports_are_as_they_were_when_the_scenario_ends(ran: Running) -> None:
    before = ran.maps.config.tobytes()
    stage, _, _ = stage_of(ran)
    stage.set("h1", "rate=25Mbit")
    stage.set("h1", "nic.drain=20Mbit")
    assert ran.maps.config.tobytes() != before
    assert ran.state.settings.stat().st_mode & 0o777 == 0o600
    stage.restore()
    assert ran.maps.config.tobytes() == before
    assert not ran.state.settings.exists()


def test_a_fault_that_was_there_before_the_first_setting_is_not_put_back(ran: Running) -> None:
    before = ran.maps.config.tobytes()
    stage, _, _ = stage_of(ran)
    stage.inject("port-config", "leaf1", set="ecn.3.enabled=false")
    stage.set("h1", "rate=25Mbit")
    stage.restore()
    assert ran.maps.config.tobytes() == before


def test_the_next_command_puts_back_what_one_has_set_that_was_killed(ran: Running) -> None:
    before = ran.maps.config.tobytes()
    stage, _, _ = stage_of(ran)
    stage.set("h1", "rate=25Mbit")
    assert "put back" not in CliRunner().invoke(app, ["fault", "ls"]).stderr
    handed_to(ran.state, GONE)
    told = "put back the ports of stage, whose scenario was killed"
    assert told in CliRunner().invoke(app, ["fault", "ls"]).stderr
    assert ran.maps.config.tobytes() == before
    assert CliRunner().invoke(app, ["fault", "ls"]).stderr == ""


def test_a_fault_in_what_was_set_is_healed_before_that_is_put_back(ran: Running) -> None:
    before = ran.maps.config.tobytes()
    stage, _, _ = stage_of(ran)
    stage.set("h1", "rate=25Mbit")
    entry = stage.inject("port-config", "h1", set="rate=20Mbit")
    handed_to(ran.state, GONE)
    faults_nobodys(ran.state)
    shown = CliRunner().invoke(app, ["fault", "ls"]).stderr.splitlines()
    assert [line for line in shown if "killed" in line] == [
        f"healed {entry}, whose command was killed", "put back the ports of stage, whose scenario was killed"
    ]  # fmt: skip
    assert ran.maps.config.tobytes() == before


@pytest.mark.parametrize(
    "change",
    [
        lambda stage: stage.set("h1", "rate=25Mbit"),
        lambda stage: stage.inject("port-config", "h1", set="rate=20Mbit"),
    ],
    ids=["set", "fault"],
)
def test_one_killed_when_the_kernel_has_it_and_nobody_has_kept_it(
    ran: Running, monkeypatch: pytest.MonkeyPatch, change: Callable[[Stage], object]
) -> None:
    """By its fault's ledger, or by what is written before the first port is set."""
    before = ran.maps.config.tobytes()
    stage, _, _ = stage_of(ran)

    def save(*_: object) -> None:
        for owner, name in ((reconfigure, "rewrite"), (Ledger, "healed")):
            dying.setattr(owner, name, lambda *_: None)  # the dead undo nothing
        raise Killed

    with monkeypatch.context() as dying:
        dying.setattr(FabricState, "save_qos", save)
        with pytest.raises(Killed):
            change(stage)
    assert ran.maps.config.tobytes() != before
    assert ran.state.load_qos() == {}
    if ran.state.settings.exists():
        handed_to(ran.state, GONE)
        assert port_restore.mend(replace(stage.fabric))
    else:
        faults_nobodys(ran.state)
        assert fault_engine.heal_abandoned(replace(stage.fabric))
    assert ran.maps.config.tobytes() == before


def test_of_two_at_once_the_second_sets_nothing(ran: Running) -> None:
    stage, _, _ = stage_of(ran)
    stage.set("h1", "rate=25Mbit")
    handed_to(ran.state, OTHER)
    kept, config = ran.state.settings.read_bytes(), ran.maps.config.tobytes()
    with pytest.raises(UsageError, match=r"set by another scenario \(pid 1\): wait for it to end"):
        stage.set("h2", "rate=25Mbit")
    stage.restore()
    assert (ran.state.settings.read_bytes(), ran.maps.config.tobytes()) == (kept, config)


def test_another_that_was_killed_meanwhile_is_mended_first(ran: Running) -> None:
    before = ran.maps.config.tobytes()
    stage, _, _ = stage_of(ran)
    stage.set("h1", "rate=25Mbit")
    handed_to(ran.state, GONE)
    stage.set("h2", "rate=25Mbit")
    stage.restore()
    assert ran.maps.config.tobytes() == before


def test_a_scenario_finds_a_fabric_on_which_one_was_killed(ran: Running) -> None:
    stage, _, _ = stage_of(ran)
    stage.set("h1", "rate=25Mbit")
    with pytest.raises(UsageError, match="configured otherwise"), fabric_for(TOPOLOGY, lambda _: None):
        pass
    handed_to(ran.state, GONE)
    with fabric_for(TOPOLOGY, lambda _: None) as found:
        assert (found.fabric.name, found.keep) == ("stage", True)


def test_a_fabric_that_was_built_for_a_scenario_goes_if_a_signal_arrives_before_the_scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fabric_state, "FABRICS", tmp_path)
    state, taken = FabricState(TOPOLOGY.name), list[str]()

    def up(topology: Topology, _: object, *, progress: Progress) -> NoReturn:
        state.directory.mkdir()
        state.begin("netns")
        progress("plumbing", 0, 1)
        raise Interrupted(f"{topology.name} has been built")

    monkeypatch.setattr(lifecycle, "up", up)
    monkeypatch.setattr(lifecycle, "down", lambda gone, _: taken.append(gone.name))
    with pytest.raises(Interrupted), fabric_for(TOPOLOGY, lambda _: None):
        pytest.fail("the block was entered")
    assert taken == [TOPOLOGY.name]


def test_it_goes_with_its_fabric(ran: Running) -> None:
    stage, _, _ = stage_of(ran)
    stage.set("h1", "rate=25Mbit")
    ran.state.settings.with_name("settings.json.new").touch()
    ran.state.forget()
    assert list(ran.state.directory.iterdir()) == []
    with pytest.raises(UsageError, match="fabric stage was taken down"):
        stage.set("h1", "rate=20Mbit")
    assert not ran.state.directory.exists()
