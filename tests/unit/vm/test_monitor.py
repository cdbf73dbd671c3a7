"""The monitor's client against a socket that says what QEMU would."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.errors import OperationFailed
from lab.vm.monitor import monitor

GREETING: dict[str, Any] = {"QMP": {"version": {}}}
NOTHING: dict[str, Any] = {"return": {}}


class Qemu(threading.Thread):
    """Answers one connection: each command with the next of ``answers``, and keeps what it was asked."""

    def __init__(self, path: Path, answers: list[dict[str, Any]]) -> None:
        super().__init__()
        self.asked: list[dict[str, Any]] = []
        self._answers = [NOTHING, *answers]
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()

    def run(self) -> None:
        with self._listener, self._listener.accept()[0] as connection, connection.makefile("rw") as stream:
            stream.write(json.dumps(GREETING) + "\n")
            stream.flush()
            while line := connection.recv(4096):
                self.asked.append(json.loads(line))
                if not self._answers:
                    return
                event = {"event": "RESUME", "timestamp": {}}
                stream.write(json.dumps(event) + "\n" + json.dumps(self._answers.pop(0)) + "\n")
                stream.flush()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "monitor"


@pytest.fixture
def qemus() -> Iterator[list[Qemu]]:
    started: list[Qemu] = []
    yield started
    for qemu in started:
        qemu.join(10)
        assert not qemu.is_alive()


def serve(qemus: list[Qemu], path: Path, *answers: dict[str, Any]) -> Qemu:
    qemus.append(Qemu(path, list(answers)))
    qemus[-1].start()
    return qemus[-1]


def test_a_command_returns_its_answer_whatever_events_come_between(qemus: list[Qemu], path: Path) -> None:
    qemu = serve(qemus, path, {"return": {"status": "running"}})
    with monitor(path) as connected:
        assert connected.execute("query-status", node_name="x") == {"status": "running"}
    assert qemu.asked[0]["execute"] == "qmp_capabilities"
    assert qemu.asked[1] == {"execute": "query-status", "arguments": {"node-name": "x"}}


def test_a_refusal_is_an_error_in_qemus_words(qemus: list[Qemu], path: Path) -> None:
    serve(qemus, path, {"error": {"class": "GenericError", "desc": "the guest has it mounted"}})
    with (
        monitor(path) as connected,
        pytest.raises(OperationFailed, match="refuses migrate: the guest has it mounted"),
    ):
        connected.execute("migrate")


def test_a_job_is_waited_for_and_its_failure_told(qemus: list[Qemu], path: Path) -> None:
    running = {"return": [{"id": "rocelab", "status": "running"}]}
    failed = {"return": [{"id": "rocelab", "status": "concluded", "error": "no space"}]}
    qemu = serve(qemus, path, NOTHING, running, {"return": []}, NOTHING, failed, NOTHING)
    with monitor(path) as connected:
        connected.job("blockdev-backup", device="disk")
        with pytest.raises(OperationFailed, match="could not blockdev-backup: no space"):
            connected.job("blockdev-backup", device="disk")
    assert qemu.asked[-1] == {"execute": "job-dismiss", "arguments": {"id": "rocelab"}}


def test_a_migration_that_fails_says_why(qemus: list[Qemu], path: Path) -> None:
    active = {"return": {"status": "active"}}
    serve(
        qemus,
        path,
        active,
        {"return": {"status": "completed"}},
        {"return": {"status": "failed", "error-desc": "cut"}},
    )
    with monitor(path) as connected:
        connected.migration()
        with pytest.raises(OperationFailed, match="did not go across: cut"):
            connected.migration()


def test_a_qemu_that_goes_away_is_told(qemus: list[Qemu], path: Path) -> None:
    serve(qemus, path)
    with monitor(path) as connected, pytest.raises(OperationFailed, match="does not answer stop"):
        connected.execute("stop")


def test_nobody_there(path: Path) -> None:
    with pytest.raises(OperationFailed, match="no QEMU answers at"), monitor(path):
        pass
