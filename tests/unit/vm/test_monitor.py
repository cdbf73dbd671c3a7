"""The monitor's client against a socket that says what QEMU would."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from lab.errors import OperationFailed
from lab.vm.host.monitor import monitor

GREETING: dict[str, Any] = {"QMP": {"version": {}}}
NOTHING: dict[str, Any] = {"return": {}}


class Qemu(threading.Thread):
    """Answers one connection: each command with the next of ``answers``, and keeps what it was asked.

    Events go before the answer that follows them, and those behind the last one after it. An empty answer hangs up.
    """

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
                self._say(stream, {"event": "RESUME", "timestamp": {}})
                while "event" in self._answers[0]:
                    self._say(stream, self._answers.pop(0))
                self._say(stream, self._answers.pop(0))
                while self._answers and all("event" in answer for answer in self._answers):
                    self._say(stream, self._answers.pop(0))
                if self._answers == [{}]:
                    return

    def _say(self, stream: IO[str], message: dict[str, Any]) -> None:
        stream.write(json.dumps(message) + "\n")
        stream.flush()


def status(event: str, status: str, **about: str) -> dict[str, Any]:
    return {"event": event, "data": {"status": status, **about}, "timestamp": {}}


def status_returned(status: str) -> dict[str, Any]:
    return {"return": {"status": status}}


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
    """Its end may be told before the command has returned, or after; another's is not its."""
    ended = status("JOB_STATUS_CHANGE", "concluded", id="rocelab")
    other = status("JOB_STATUS_CHANGE", "concluded", id="other")
    good = {"return": [{"id": "rocelab", "status": "concluded"}]}
    failed = {"return": [{"id": "other"}, {"id": "rocelab", "status": "concluded", "error": "no space"}]}
    running = status("JOB_STATUS_CHANGE", "running", id="rocelab")
    qemu = serve(qemus, path, other, running, ended, NOTHING, good, NOTHING, ended, NOTHING, failed, NOTHING)
    with monitor(path) as connected:
        connected.job("blockdev-backup", device="disk")
        with pytest.raises(OperationFailed, match="could not blockdev-backup: no space"):
            connected.job("blockdev-backup", device="disk")
    commands = [asked["execute"] for asked in qemu.asked[1:]]
    assert commands == ["blockdev-backup", "query-jobs", "job-dismiss"] * 2


def test_a_qemu_that_goes_away_while_a_job_runs_is_told(qemus: list[Qemu], path: Path) -> None:
    serve(qemus, path, status("JOB_STATUS_CHANGE", "running", id="rocelab"), NOTHING, {})
    with monitor(path) as connected, pytest.raises(OperationFailed, match="QEMU did not end blockdev-create"):
        connected.job("blockdev-create")


def test_a_migration_that_fails_says_why(qemus: list[Qemu], path: Path) -> None:
    active, done = status("MIGRATION", "active"), status("MIGRATION", "completed")
    over, tidying, tidied = map(status_returned, ("completed", "finish-migrate", "postmigrate"))
    cut = {"return": {"status": "failed", "error-desc": "cut"}}
    failed = status("MIGRATION", "failed")
    qemu = serve(
        qemus, path, NOTHING, active, done, NOTHING, over, tidying, over, tidied, NOTHING, failed, NOTHING, cut
    )
    with monitor(path) as connected:
        connected.migrate("migrate", "fd:memory")
        with pytest.raises(OperationFailed, match="did not go across: cut"):
            connected.migrate("migrate-incoming", "fd:memory")
    commands = [asked["execute"] for asked in qemu.asked[1:7]]
    assert commands == ["migrate-set-capabilities", "migrate", *["query-migrate", "query-status"] * 2]
    assert qemu.asked[1]["arguments"] == {"capabilities": [{"capability": "events", "state": True}]}


@pytest.mark.parametrize(
    "fails", [(status("MIGRATION", "failed"), NOTHING, {}), (NOTHING, {})], ids=["said", "unsaid"]
)
def test_a_qemu_that_ends_as_its_migration_fails_is_told(
    qemus: list[Qemu], path: Path, fails: tuple[dict[str, Any], ...]
) -> None:
    """QEMU ends if it cannot read a VM's state. A caller tells that from files that cannot be read."""
    serve(qemus, path, NOTHING, *fails)
    with monitor(path) as connected, pytest.raises(OperationFailed) as error:
        connected.migrate("migrate-incoming", "fd:memory")
    assert isinstance(error.value.__cause__, ConnectionError | None)


@pytest.mark.parametrize("before", ["setup", "active", "cancelling"])
def test_a_migration_is_given_up_and_waited_for(qemus: list[Qemu], path: Path, before: str) -> None:
    """The guest may be paused all the while, so that its state alone does not tell."""
    going, gone, tidying, tidied = map(status_returned, (before, "cancelled", "finish-migrate", "postmigrate"))
    qemu = serve(qemus, path, NOTHING, going, going, gone, tidying, gone, tidied)
    with monitor(path) as connected:
        connected.end_migration()
    commands = [asked["execute"] for asked in qemu.asked[1:]]
    assert commands == ["migrate_cancel", *["query-migrate"] * 2, *["query-migrate", "query-status"] * 2]


def test_where_there_was_no_migration_none_is_waited_for(qemus: list[Qemu], path: Path) -> None:
    serve(qemus, path, NOTHING, NOTHING, status_returned("running"))
    with monitor(path) as connected:
        connected.end_migration()


def test_a_migration_that_does_not_end_is_told(
    qemus: list[Qemu], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(qemus, path, NOTHING, status_returned("cancelling"))
    with monitor(path) as connected:
        monkeypatch.setattr("lab.vm.host.monitor.PATIENCE", -1.0)
        with pytest.raises(OperationFailed, match="did not end its migration"):
            connected.end_migration()


def test_a_job_that_was_left_is_cancelled_and_dismissed(qemus: list[Qemu], path: Path) -> None:
    """Another's is not touched; a refusal, as of one that changes its state just now, is no end."""
    other = {"id": "other", "status": "running"}
    running, concluded = ({"return": [other, {"id": "rocelab", "status": each}]} for each in ("running", "concluded"))
    refused = {"error": {"class": "GenericError", "desc": "in state aborting"}}
    qemu = serve(qemus, path, running, NOTHING, running, refused, concluded, NOTHING, {"return": [other]})
    with monitor(path) as connected:
        connected.end_job()
    commands = [(asked["execute"], asked["arguments"].get("id")) for asked in qemu.asked[1:]]
    query, ours = ("query-jobs", None), "rocelab"
    assert commands == [query, ("job-cancel", ours), query, ("job-cancel", ours), query, ("job-dismiss", ours), query]


def test_a_qemu_that_goes_away_is_told(qemus: list[Qemu], path: Path) -> None:
    serve(qemus, path)
    with monitor(path) as connected, pytest.raises(OperationFailed, match="does not answer stop"):
        connected.execute("stop")


def test_nobody_there(path: Path) -> None:
    with pytest.raises(OperationFailed, match="no QEMU answers at"), monitor(path):
        pass
