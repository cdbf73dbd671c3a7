"""Programs that a scenario started are ended after its player was killed, and no others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from lab.faults.ledger import Holder
from lab.model.load import load_topology
from lab.routing import daemons
from lab.scenario import orphans
from tests.unit.running import Running, run

if TYPE_CHECKING:
    from pathlib import Path

SLEEPER = [sys.executable, "-c", "print(flush=True); import signal; signal.pause()"]


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    topology = load_topology("name: t\nnodes: {h1: {role: host}, leaf: {role: leaf}}\nlinks: [{ends: [h1, leaf]}]\n")
    return run(topology, tmp_path, monkeypatch)


def sleeper(**environment: str) -> subprocess.Popen[str]:
    """A program that runs until it is ended; returns when it has its environment."""
    program = subprocess.Popen(SLEEPER, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    program.stdout.readline()
    return program


def test_of_one_that_was_killed_what_it_has_started_is_ended(ran: Running) -> None:
    gone = "4194305-1"  # no process has a pid beyond 2^22
    ran.state.players.mkdir()
    (ran.state.players / gone).touch()
    mine, others = sleeper(**{orphans.MARK: f"{ran.state.owner}-{gone}"}), sleeper()
    try:
        assert orphans.mend(ran.state)
        assert mine.wait(10) == -signal.SIGKILL
        assert others.poll() is None
        assert not orphans.mend(ran.state)
    finally:
        for program in (mine, others):
            program.kill()
            program.communicate()


def test_while_somebody_plays_all_that_is_started_is_known_and_stays(ran: Running) -> None:
    holder = Holder.current()
    with orphans.marked(ran.state):
        program = sleeper()
        assert [entry.name for entry in ran.state.players.iterdir()] == [f"{holder.pid}-{holder.started}"]
        assert not orphans.mend(ran.state)
        assert program.poll() is None
        assert orphans.MARK not in (daemons._surroundings().environment or {orphans.MARK: "all of ours"})
        orphans.end(f"{orphans.MARK}={os.environ[orphans.MARK]}")
        assert program.wait(10) == -signal.SIGKILL
        program.communicate()
    assert orphans.MARK not in os.environ
    assert list(ran.state.players.iterdir()) == []
