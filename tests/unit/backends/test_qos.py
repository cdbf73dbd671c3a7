"""A change of a running fabric: all of it or nothing, kept for those who come after."""

import signal
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

from lab.backends import live_qos, nic_drains
from lab.backends.fabric_state import FabricState
from lab.backends.lifecycle import open_fabric
from lab.cli.app import app
from lab.dataplane import reconfigure
from lab.errors import FabricBusy, InvalidInput, OperationFailed, UsageError
from lab.kernel.netlink.rtnl import NetlinkBatch
from lab.kernel.process import signals
from lab.model.qos.port_change import QosRequest
from lab.model.values.link_selection import choose_ports
from tests.unit.model.qos.fabrics import fabric
from tests.unit.running import Running, run

MADE = ["ifb rx-eth1", "qdisc rl_t", "rx-eth1 up", "ingress redirection"]
TAKEN_AWAY = ["ingress redirection", "rx-eth1 gone"]


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    return run(fabric("pfc-ecn"), tmp_path, monkeypatch)


def change(running: Running, ports: str, *assignments: str) -> live_qos.QosChangeResult:
    return live_qos.change_qos(open_fabric(), choose_ports(running.topology, ports.split()), QosRequest(assignments))


def kernel_has_what_was_asked(running: Running) -> bool:
    found = open_fabric()
    return not any(
        fields
        for name, node in found.qos.items()
        for fields in reconfigure.differences(
            running.maps, running.numbering.nodes[name], node, found.plan[name]
        ).values()
    )


def test_a_change_reaches_the_kernel_and_the_next_command(running: Running) -> None:
    assert change(running, "leaf1:swp3", "ecn.3.kmin=20KB").nodes == ("leaf1",)
    assert change(running, "leaf1:swp3 h2", "ecn.3.kmax=80KB").nodes == ("leaf1", "h2")
    assert running.maps.config["queue"]["kmin"][running.id("leaf1:swp3"), 3] == 20_000
    assert running.maps.config["queue"]["kmax"][running.id("leaf1:swp3"), 3] == 80_000
    assert open_fabric().qos["leaf1"].ports["swp3"].queues[3].ecn.kmin == 20_000
    assert set(running.state.load_qos()) == {"leaf1", "h2"}
    assert kernel_has_what_was_asked(running)
    assert running.requests == []


def test_a_change_that_cannot_be_leaves_all_as_it_was(running: Running) -> None:
    before = running.maps.config.copy()
    with pytest.raises(InvalidInput):
        change(running, "leaf1 leaf2", "ecn.3.kmin=20KB", "ecn.3.kmax=10KB")
    assert (running.maps.config == before).all()
    assert running.state.load_qos() == {}


def test_what_becomes_unwise_is_said_once(running: Running) -> None:
    (advice,) = change(running, "leaf1:swp3", "pfc.rx=false").advice
    assert "does not obey the pauses" in str(advice)
    assert change(running, "leaf1:swp3", "ecn.3.pmax=50%").advice == ()


def test_a_drain_is_attached_once_and_taken_away(running: Running) -> None:
    change(running, "h1", "nic.drain=20Mbit")
    assert running.requests == MADE
    running.requests.clear()
    change(running, "h1", "nic.drain=30Mbit")
    assert running.requests == []
    change(running, "h1", "nic.drain=unlimited")
    assert running.requests == TAKEN_AWAY
    assert kernel_has_what_was_asked(running)


def test_a_drain_that_the_kernel_refuses_leaves_all_as_it_was(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = running.maps.config.copy()

    def refuse(batch: NetlinkBatch) -> None:
        raise OperationFailed(batch._requests[0][1])

    monkeypatch.setattr(NetlinkBatch, "commit", refuse)
    with pytest.raises(OperationFailed, match="ifb rx-eth1"):
        change(running, "h1", "nic.drain=20Mbit", "ecn.3.kmin=20KB")
    assert (running.maps.config == before).all()
    assert running.state.load_qos() == {}


def test_a_change_that_cannot_be_kept_is_taken_back(running: Running) -> None:
    before = running.maps.config.copy()
    (running.state.directory / "qos.json.new").mkdir()
    with pytest.raises(OSError, match=r"qos\.json\.new"):
        change(running, "h1", "nic.drain=20Mbit", "ecn.3.kmin=20KB")
    (running.state.directory / "qos.json.new").rmdir()
    assert (running.maps.config == before).all()
    assert running.requests[-1] == "rx-eth1 gone"


class Killed(BaseException):
    """Stands in for SIGKILL."""


def killed(*_: object) -> None:
    raise Killed


def nothing(*_: object) -> bool:
    """What the dead do."""
    return False


@pytest.mark.parametrize(
    ("owner", "call", "made"),
    [(NetlinkBatch, "commit", False), (reconfigure, "rewrite", True), (FabricState, "save_qos", True)],
    ids=["before there is a drain", "before the kernel knows its rate", "before it is kept"],
)
def test_what_was_killed_before_it_was_kept_is_taken_back_by_the_next_command(
    running: Running, monkeypatch: pytest.MonkeyPatch, owner: object, call: str, made: bool
) -> None:
    config = running.maps.config.copy()
    with monkeypatch.context() as dying:
        dying.setattr(live_qos, "_finish", nothing)
        dying.setattr(owner, call, killed)
        with pytest.raises(Killed):
            change(running, "h1", "nic.drain=20Mbit", "ecn.3.kmin=20KB")
    assert running.requests == (MADE if made else [])
    running.requests.clear()
    said = CliRunner().invoke(app, ["counters"]).stderr
    assert said == "put the ports of t in order: the command that changed them was killed\n"
    assert running.requests == (TAKEN_AWAY if made else [])
    assert (running.maps.config == config).all()
    assert kernel_has_what_was_asked(running)
    assert not running.state.changing.exists()
    assert CliRunner().invoke(app, ["counters"]).stderr == ""


@pytest.mark.parametrize("requests", [0, 1], ids=["led through it", "led past it"])
def test_what_was_killed_when_it_was_kept_is_brought_to_its_end(running: Running, requests: int) -> None:
    """A drain that is on its way out."""
    change(running, "h1", "nic.drain=20Mbit")
    change(running, "h1", "nic.drain=unlimited")
    running.kernel.drains = {"rl-t.h1"}
    running.kernel.led = set() if requests else {"rl-t.h1"}
    running.state.changing.write_text('["h1"]')
    running.requests.clear()
    assert live_qos.mend(open_fabric())
    assert running.requests == TAKEN_AWAY[requests:]
    assert not running.state.changing.exists()


def half_done(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of two nodes whose command was killed when the kernel had it and nothing was kept."""
    with monkeypatch.context() as dying:
        dying.setattr(live_qos, "_finish", nothing)
        dying.setattr(FabricState, "save_qos", killed)
        with pytest.raises(Killed):
            change(running, "h1 leaf1", "ecn.3.kmin=20KB")
    assert not kernel_has_what_was_asked(running)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_it_is_taken_back_waits_until_all_is(
    running: Running, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    half_done(running, monkeypatch)
    rewrite = reconfigure.rewrite

    def interrupted(*arguments: Any) -> None:
        signal.raise_signal(number)
        rewrite(*arguments)

    monkeypatch.setattr(reconfigure, "rewrite", interrupted)
    ends = signals.handled(lambda got: (_ for _ in ()).throw(KeyboardInterrupt(got)), [number])
    with ends, pytest.raises(KeyboardInterrupt):
        live_qos.mend(open_fabric())
    assert kernel_has_what_was_asked(running)
    assert not running.state.changing.exists()


@pytest.mark.parametrize("error", [OperationFailed("the kernel says no"), OSError("no memory"), Killed()], ids=repr)
def test_what_cannot_be_taken_back_is_by_a_later_command(
    running: Running, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    half_done(running, monkeypatch)
    with monkeypatch.context() as refusing:
        refusing.setattr(reconfigure, "rewrite", Mock(side_effect=error))
        for _ in range(2):
            with pytest.raises(type(error)):
                live_qos.mend(open_fabric())
        with pytest.raises(type(error)):
            change(running, "leaf2", "ecn.3.kmin=20KB")
    assert not kernel_has_what_was_asked(running)
    assert live_qos.mend(open_fabric())
    assert kernel_has_what_was_asked(running)
    assert not running.state.changing.exists()
    assert not live_qos.mend(open_fabric())


def test_a_change_that_can_neither_be_made_nor_taken_back_is_not_forgotten(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = running.maps.config.copy()
    with monkeypatch.context() as refusing:
        refusing.setattr(reconfigure, "rewrite", Mock(side_effect=OperationFailed("the kernel says no")))
        with pytest.raises(OperationFailed, match="says no"):
            change(running, "h1", "nic.drain=20Mbit")
    assert running.requests == MADE
    assert live_qos.mend(open_fabric())
    assert running.requests[len(MADE) :] == TAKEN_AWAY
    assert (running.maps.config == config).all()


def test_a_drain_that_is_kept_and_in_pieces_is_made_anew(running: Running) -> None:
    """One whose removal was neither kept nor ended."""
    change(running, "h1", "nic.drain=20Mbit")
    running.kernel.led.clear()
    running.state.changing.write_text('["h1"]')
    running.requests.clear()
    assert live_qos.mend(open_fabric())
    assert running.requests == [*TAKEN_AWAY[1:], *MADE]
    assert kernel_has_what_was_asked(running)
    running.state.changing.write_text('["h1"]')
    running.requests.clear()
    assert live_qos.mend(open_fabric())
    assert running.requests == [], "a whole one stays"


def test_while_another_command_changes_the_fabric(running: Running) -> None:
    with running.state.locked(), pytest.raises(FabricBusy):
        change(running, "h1", "ecn.3.kmin=20KB")


def test_a_drain_that_keeps_its_packets_is_not_torn_down(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nic_drains, "_EMPTYING", 0.01)
    change(running, "h1", "nic.drain=20Mbit")
    drain = running.numbering.nodes["h1"].drain("eth1")
    running.maps.counters["queue"]["depth_packets"][drain, 3] = 5
    with pytest.raises(OperationFailed, match="the drain of h1:eth1 keeps packets"):
        change(running, "h1", "nic.drain=unlimited")
    assert "rx-eth1 gone" not in running.requests
    running.maps.counters["queue"]["depth_packets"][drain, 3] = 0
    assert live_qos.mend(open_fabric())
    assert running.requests[-1] == "rx-eth1 gone"


def test_a_fabric_without_lossless_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shaped = run(fabric("null"), tmp_path, monkeypatch)
    with pytest.raises(UsageError, match="fabric t has no lossless ports: write `qos: lab` into its topology"):
        change(shaped, "h1", "ecn.3.kmin=20KB")
