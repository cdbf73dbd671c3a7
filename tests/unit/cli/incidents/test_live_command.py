"""``rocelab live`` as a process, without a fabric: a program that writes a made log stands for the sampler."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from lab.cli.schemas import adapter
from lab.model import store
from tests.patience import PATIENCE
from tests.unit.scenario.test_judge import TOPOLOGY, storm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_COMMAND = """
import sys
from lab.cli import app
from lab.cli.incidents import live
from lab.cli.kit import child_command
live.PROGRAM = child_command.PROGRAM = (sys.executable, {other!r})
sys.argv[0] = "rocelab"
app.main()
"""
_OTHER = """
import json, os, sys
if "record" in sys.argv:
    failed = {failing!r} in sys.argv
    error = {{"error": {{"message": "the disk is full", "remedy": "free some space"}}}}
    print(json.dumps(error if failed else {{"folder": "recordings/" + sys.argv[sys.argv.index("record") + 2]}}))
    sys.exit(int(failed))
data = open({log!r}, "rb").read()
while data:
    data = data[os.write(1, data):]
open({end!r}).read()
error = {{"kind": "OperationFailed", "message": "fabric a: b was taken down", "remedy": "", "exit_code": 1}}
sys.exit(json.dumps({{"error": error}}))
"""


@dataclass
class Command:
    """The running command and the FIFO whose opening ends its fabric."""

    process: subprocess.Popen[str]
    end: Path

    def url(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("{"), self.process.communicate(timeout=PATIENCE)
        adapter("live").validate_json(line)
        return str(json.loads(line)["url"])

    def ended(self) -> tuple[int, str]:
        """The exit code and standard error."""
        _, said = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said


@contextlib.contextmanager
def live(folder: Path, *options: str, failing: str = "-") -> Iterator[Command]:
    log, end, other = folder / "stream", folder / "end", folder / "other.py"
    made = storm(folder)
    made.log.flush()
    topology = json.dumps({"topology": store.dump(TOPOLOGY)})
    log.write_bytes(topology.encode() + b"\n" + made.folder.log.read_bytes())
    os.mkfifo(end)
    other.write_text(_OTHER.format(log=str(log), end=str(end), failing=failing))
    argv = [sys.executable, "-c", _COMMAND.format(other=str(other)), "live", "--json", *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True, cwd=folder) as process:
        try:
            yield Command(process, end)
        finally:
            process.kill()


def get(url: str, path: str, cookie: str = "") -> tuple[int, str, str]:
    """Status, body and cookie of an answer."""
    where = urlsplit(url)
    connection = http.client.HTTPConnection(str(where.hostname), int(where.port or 0), timeout=PATIENCE)
    try:
        connection.request("GET", path, headers={"Cookie": cookie} if cookie else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers.get("Set-Cookie", "").partition(";")[0]
    finally:
        connection.close()


def opened(url: str) -> str:
    """Open the page and return its cookie."""
    where = urlsplit(url)
    status, page, cookie = get(url, f"{where.path}?{where.query}")
    assert (status, TOPOLOGY.name in page) == (200, True)
    return cookie


def updates(url: str, cookie: str, after: int) -> Any:
    return json.loads(get(url, f"/updates?after={after}", cookie)[1])


def test_ctrl_c_ends_it_well_and_saves_the_recording(tmp_path: Path) -> None:
    with live(tmp_path, "--record") as command:
        url = command.url()
        cookie = opened(url)
        assert command.url() != url
        assert updates(url, cookie, 0)["updates"][0]["reset"]
        command.process.send_signal(signal.SIGINT)
        code, said = command.ended()
    assert code == 0
    assert said.startswith("saved: rocelab report incast-")
    assert said.count("\n") == 1


def test_the_end_of_the_fabric_reaches_the_page_and_the_terminal(tmp_path: Path) -> None:
    with live(tmp_path) as command:
        url = command.url()
        cookie = opened(url)
        after = updates(url, cookie, 0)["next"]
        command.end.write_text("")
        while not (said := updates(url, cookie, after))["ended"]:
            after = said["next"]
        assert said["ended"] == "The fabric was taken down, or its samples ended"
        assert command.ended() == (1, "error: fabric a: b was taken down\n")


def test_a_recording_that_cannot_be_started_is_said_on_the_terminal(tmp_path: Path) -> None:
    with live(tmp_path, "--record", failing="start") as command:
        url = command.url()
        assert command.process.stderr is not None
        assert command.process.stderr.readline() == "the disk is full: free some space\n"
        assert updates(url, opened(url), 0)["recording"]["line"] == "the disk is full: free some space"
        command.process.send_signal(signal.SIGTERM)
        assert command.ended() == (0, "")


def test_the_page_is_served_although_nobody_reads_the_output(tmp_path: Path) -> None:
    with live(tmp_path) as command:
        url = command.url()
        assert command.process.stdout is not None
        command.process.stdout.close()
        updates(url, opened(url), 0)
        command.process.send_signal(signal.SIGTERM)
        command.process.wait(PATIENCE)  # and its sampler, which nobody ends after a SIGKILL


@pytest.mark.parametrize("options", [("--hz", "0"), ("--hz", "nan"), ("a", "--fabric", "b")])
def test_a_wrong_option_is_one_line(tmp_path: Path, options: tuple[str, ...]) -> None:
    with live(tmp_path, *options) as command:
        code, said = command.ended()
    assert (code, said.count("\n")) == (2, 1)
