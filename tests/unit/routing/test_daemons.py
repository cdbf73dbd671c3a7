"""Start and configuration of a router's daemons, and their cancellation; real daemons: tests/fabric."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.errors import EnvironmentLacks, OperationFailed
from lab.kernel.netlink import routes
from lab.kernel.process import process
from lab.kernel.process.netns import Namespace
from lab.routing import daemons
from lab.routing.daemons import Launches, Router

if TYPE_CHECKING:
    from lab.kernel.process.process import Process

LONG = ["sleep", "600"]
PATIENCE = 15.0


class Noted(Launches):
    """Says when there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.there = threading.Event()

    def add(self, launcher: Process) -> None:
        super().add(launcher)
        self.there.set()


@pytest.mark.timeout(20)
def test_lines_that_a_daemon_does_not_take_are_given_up_with_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``up`` that is told to end while vtysh waits for a daemon that answers nobody: a minute, otherwise."""
    monkeypatch.setattr(Router, "vtysh", lambda *_: LONG)
    launches = Noted()

    def give_up() -> None:
        if launches.there.wait(PATIENCE):
            launches.give_up()

    threading.Thread(target=give_up).start()
    began = time.monotonic()
    with pytest.raises(OperationFailed, match="leaf: FRR does not take its lines of frr: vtysh says nothing"):
        Router("leaf", Namespace("rl-none.leaf"), tmp_path)._configure(["router bgp"], "its lines of frr", launches)
    assert launches.there.is_set()
    assert time.monotonic() - began < PATIENCE


def test_what_vtysh_says_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Router, "vtysh", lambda *_: ["sh", "-c", "echo '% Unknown'; echo command >&2; exit 1"])
    with pytest.raises(OperationFailed, match="leaf: FRR does not take its lines of frr: % Unknown command"):
        Router("leaf", Namespace("rl-none.leaf"), tmp_path)._configure(["router bgp"], "its lines of frr", Launches())


def ended() -> int:
    """What was the id of a process."""
    with subprocess.Popen(["true"]) as process:
        return process.pid


def listing(interface: str, file: Path) -> Path:
    """One interface that multicast is routed by, as Linux 7.3 lists it."""
    file.write_text(
        "Interface      BytesIn  PktsIn  BytesOut PktsOut Flags Local    Remote\n"
        f" 0 {interface:<10}        0       0         0       0 00008 00000001 00000000\n"
    )
    return file


def test_pimd_that_routes_by_the_loopback_is_waited_for_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "MULTICAST", listing("lo", tmp_path / "ip_mr_vif"))
    Router("spine1", Namespace("rl-none.spine1"), tmp_path)._await_multicast(Launches())


@pytest.mark.parametrize("given_up", [True, False])
def test_pimd_that_has_ended_or_that_nobody_wants_is_not_waited_for(
    given_up: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "MULTICAST", listing("swp1", tmp_path / "ip_mr_vif"))
    pid = os.getpid() if given_up else ended()
    (tmp_path / "pimd.pid").write_text(f"{pid}\n")
    launches = Launches()
    if given_up:
        launches.give_up()
    began = time.monotonic()
    with pytest.raises(OperationFailed, match="spine1: pimd does not route by lo: its log is empty"):
        Router("spine1", Namespace("rl-none.spine1"), tmp_path)._await_multicast(launches)
    assert time.monotonic() - began < PATIENCE


def test_a_daemon_that_the_manager_configures_is_given_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FRR 10's staticd ends with "unrecognized option" when it is; 8.4 has no manager, and wants one."""
    monkeypatch.setattr(daemons, "DAEMON_DIRECTORIES", (tmp_path,))
    monkeypatch.setattr(daemons, "_has_bfd_control", lambda: False)
    router = Router("leaf", Namespace("rl-none.leaf"), tmp_path)

    def given_one() -> list[str]:
        every = ("mgmtd", "zebra", "bgpd", "staticd")
        return [each for each in every if any("--config_file" in word for word in router._command(tmp_path, each))]

    (tmp_path / "bgpd").touch()
    assert given_one() == ["zebra", "bgpd", "staticd"]
    (tmp_path / "mgmtd").touch()
    assert given_one() == ["zebra", "bgpd"]


@pytest.mark.parametrize(("built", "refused"), [("'--enable-scripting'", False), ("'--enable-snmp'", True)])
def test_bonds_want_an_frr_that_runs_scripts(monkeypatch: pytest.MonkeyPatch, built: str, refused: bool) -> None:
    monkeypatch.setattr(daemons, "find_daemons", lambda: Path("/usr/lib/frr"))
    said = subprocess.CompletedProcess([], 0, f"zebra version 10.3\nconfigured with:\n\t{built}\n", "")
    monkeypatch.setattr(process, "run", lambda _argv: said)
    if not refused:
        daemons.check_scripting()
        return
    with pytest.raises(EnvironmentLacks, match="bonds: this FRR is built without scripts"):
        daemons.check_scripting()
