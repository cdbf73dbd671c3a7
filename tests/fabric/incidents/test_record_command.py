"""``rocelab record`` as processes of its own: a recorder runs on in the background, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pexpect
import pytest

from lab.backends import recorders
from lab.backends.fabric_state import FabricState
from lab.kernel.process import libc
from lab.telemetry.read.recording import Recording
from lab.tui.playhead import marks_of
from lab.vm.host.vm_state import process_start
from tests.fabric.command import ROOT, argv, rocelab, rocelab_json, running
from tests.patience import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.fabric, pytest.mark.backends]
NAME = "recording"
TOPOLOGY = f"name: {NAME}\ngenerate: {{shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1}}\n"


@pytest.fixture
def fabric(tmp_path: Path) -> Iterator[FabricState]:
    file = tmp_path / "recording.yaml"
    file.write_text(TOPOLOGY)
    rocelab("up", file, "--no-rdma")
    yield FabricState(NAME)
    rocelab("down", "--all")
    assert not FabricState(NAME).directory.exists()


def test_a_recording_from_start_to_stop(fabric: FabricState, tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    begun = rocelab_json("record", "start", "first", "-o", folder, "--hz", "50", "--capture", "h1--leaf1")
    assert begun == {"name": "first", "fabric": NAME, "folder": str(folder / "first"), "hz": 50.0}
    (recorder,) = recorders.running(fabric)
    assert (recorder.name, recorder.folder) == ("first", folder / "first")
    assert [entry["state"] for entry in rocelab_json("record", "ls", "-o", folder)] == ["recording"]
    rocelab("record", "start", "first", "-o", tmp_path / "other", expect=2)
    rocelab("exec", "h1", "--", "ping", "-c", "20", "-i", "0.01", "-s", "1000", "h2")
    told = rocelab_json("record", "stop")
    assert recorders.running(fabric) == []
    assert (told["name"], told["complete"], told["why"], told["captures"]) == (
        "first", True, "", ["captures/packets.pcapng"],
    )  # fmt: skip
    assert told == rocelab_json("record", "show", folder / "first")
    assert {"h1:eth1", "h2:eth1"} <= {each["port"] for each in told["busiest"]}
    assert told["samples"] > 10
    (listed,) = rocelab_json("record", "ls", "-o", folder)
    assert (listed["state"], listed["fabric"]) == ("complete", NAME)
    assert "busiest ports" in rocelab("record", "show", folder / "first").stdout
    assert "nothing is being recorded" in rocelab("record", "stop", expect=2).stderr


def test_down_finishes_it(fabric: FabricState, tmp_path: Path) -> None:
    rocelab("record", "start", "second", "-o", tmp_path)
    (recorder,) = recorders.running(fabric)
    rocelab("down", "--fabric", NAME)
    assert not _is_there(recorder.pid)
    recording = Recording.open(tmp_path / "second")
    assert not recording.incomplete
    assert recording.state("after")["h1"]["routes"]


def test_one_that_is_killed_is_incomplete_and_in_nobodys_way(fabric: FabricState, tmp_path: Path) -> None:
    rocelab("record", "start", "third", "-o", tmp_path)
    (recorder,) = recorders.running(fabric)
    os.kill(recorder.pid, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE
    while _is_there(recorder.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert recorders.running(fabric) == []
    told = rocelab_json("record", "show", tmp_path / "third")
    assert (told["complete"], told["why"]) == (False, "its recorder still runs, or was killed")
    assert [entry["state"] for entry in rocelab_json("record", "ls", "-o", tmp_path)] == ["incomplete"]
    rocelab("record", "start", "third", "-o", tmp_path / "again")
    assert rocelab_json("record", "stop")["complete"]


def test_one_whose_disk_is_full_says_so_when_it_is_stopped_and_listed(fabric: FabricState, tmp_path: Path) -> None:
    """It ends by itself, when another file takes what is left."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", tmp_path], check=True)
    try:
        rocelab("record", "start", "fourth", "-o", tmp_path, "--hz", "200")
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "other").write_bytes(bytes(2**22))
        deadline = time.monotonic() + PATIENCE
        while recorders.running(fabric) and time.monotonic() < deadline:
            time.sleep(0.1)
        said = rocelab("record", "stop", expect=1).stderr
        assert f"recording {tmp_path / 'fourth'}: No space left on device" in said
        (listed,) = rocelab_json("record", "ls", "-o", tmp_path)
        assert (listed["state"], listed["why"]) == ("incomplete", "No space left on device")
        assert "nothing is being recorded" in rocelab("record", "stop", expect=2).stderr
    finally:
        libc.unmount(tmp_path)


def test_one_whose_command_is_interrupted_before_its_line_is_discarded(fabric: FabricState, tmp_path: Path) -> None:
    """Standard output is a pipe that is full."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, bytes(4096))
    os.set_blocking(writer, True)
    with subprocess.Popen(argv("record", "start", "fifth", "-o", tmp_path), stdout=writer, cwd=ROOT) as ours:
        until(lambda: bool(recorders.running(fabric)))
        ours.send_signal(signal.SIGTERM)
        assert ours.wait(PATIENCE) == 130
    assert recorders.running(fabric) == []
    assert not (tmp_path / "fifth").exists()
    os.close(reader)
    os.close(writer)


def test_the_exit_code_after_its_line_says_whether_it_records(fabric: FabricState, tmp_path: Path) -> None:
    with running("record", "start", "sixth", "-o", tmp_path) as ours:
        assert ours.stdout is not None
        assert ours.stdout.readline().startswith(f"recording {NAME} into ")
        ours.send_signal(signal.SIGTERM)
        code = ours.wait(PATIENCE)
    assert (code, len(recorders.running(fabric))) in {(0, 1), (130, 0)}


def test_bad_input_is_one_line_and_leaves_no_recorder(fabric: FabricState, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    for words, said in (
        (("full",), "is not empty"),
        (("a/b",), "cannot have the name"),
        (("new", "--capture", "h7"), "no node"),
        (("new", "--hz", "100000"), "out of range"),
    ):
        done = rocelab("record", "start", *words, "-o", tmp_path, "--json", expect=2)
        assert said in json.loads(done.stdout)["error"]["message"]
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "new").exists()
    assert recorders.running(fabric) == []
    assert "is not a recording" in rocelab("record", "show", tmp_path / "full", expect=2).stderr
    assert "no recording" in rocelab("record", "show", tmp_path / "none", expect=2).stderr


def _is_there(pid: int) -> bool:
    """Whether it runs: who has ended stays in the table of processes until init looks."""
    return process_start(pid) is not None


@pytest.mark.usefixtures("fabric")
def test_a_shell_is_kept_as_its_terminal_was_seen(tmp_path: Path) -> None:
    rocelab("record", "start", "typed", "-o", tmp_path)
    assert "not a terminal" in rocelab("record", "shell", expect=2).stderr
    child: Any = pexpect.spawn(
        sys.executable, ["-m", "lab", "record", "shell"], dimensions=(24, 100), timeout=PATIENCE, encoding="utf-8",
        env=os.environ | {"SHELL": "/bin/sh", "PS1": "ready> "},
    )  # fmt: skip
    child.expect_exact("ready> ")
    child.sendline("echo $((6*7)) größer; stty size")
    child.expect_exact("42 größer")
    child.expect_exact("24 100")
    child.setwinsize(30, 90)
    child.expect_exact("ready> ")
    child.sendline("stty size; exit 3")
    child.expect_exact("30 90")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 3
    told = rocelab_json("record", "stop")
    assert told["terminals"] == ["terminal/shell-1.cast"]
    header, *events = map(json.loads, (tmp_path / "typed" / "terminal" / "shell-1.cast").read_text().splitlines())
    assert (header["version"], header["width"], header["height"]) == (2, 100, 24)
    moments = [at for at, _, _ in events]
    assert moments == sorted(moments)
    assert 0 < moments[0] <= moments[-1] <= told["seconds"]
    shown = "".join(text for _, kind, text in events if kind == "o")
    assert "42 größer\r\n24 100\r\n" in shown
    assert shown.rstrip().endswith("30 90")
    assert [text for _, kind, text in events if kind == "r"] == ["90x30"]


@pytest.mark.usefixtures("fabric")
def test_what_is_typed_meanwhile_is_kept_with_what_was_injected(tmp_path: Path) -> None:
    rocelab("exec", "h1", "--", "true")  # before it begins
    rocelab("record", "start", "typed", "-o", tmp_path)
    rocelab("exec", "h1", "--", "false", expect=1)
    said = rocelab("status").stdout
    rocelab("record", "ls", "-o", tmp_path)
    rocelab("fault", "inject", "link-down", "h1--leaf1")
    rocelab("fault", "heal", "--all")
    rocelab("fault", "inject", "no-such-fault", "h1", expect=2)
    rocelab("record", "stop")
    recording = Recording.open(tmp_path / "typed")
    assert [(" ".join(each.argv), each.exit_code) for each in recording.commands] == [
        ("rocelab exec h1 -- false", 1),
        ("rocelab status", 0),
        ("rocelab fault inject link-down h1--leaf1", 0),
        ("rocelab fault heal --all", 0),
        ("rocelab fault inject no-such-fault h1", 2),
    ]
    assert recording.commands[1].stdout == said
    assert all(recording.clock.start < each.ns < each.end_ns for each in recording.commands)
    injected, healed = recording.truth()
    assert [(each["did"], each["kind"], each["place"]) for each in (injected, healed)] == [
        ("inject", "link-down", "h1--leaf1"), ("heal", "link-down", "h1--leaf1"),
    ]  # fmt: skip
    down = next(each.ns for each in recording.events(source="kernel", kind="link") if not each.data["up"])
    assert injected["ns"] < down < healed["ns"]
    (report,) = rocelab_json("report", tmp_path / "typed", "-o", tmp_path / "out")["reports"]
    (fault,) = report["faults"]
    assert fault["story"]
    assert 0 < fault["start"] < fault["end"]
    assert report["diagnosis"] is not None
    assert not [mark for mark in marks_of(recording) if "link-down" in mark.text]


@pytest.mark.usefixtures("fabric")
def test_top_waits_for_the_sessions_of_every_router() -> None:
    told = rocelab_json("top")
    found = [(each["node"], each["protocol"]) for each in told["sessions"]]
    assert sorted(found) == sorted(
        (node, protocol) for node in ("leaf1", "leaf2", "spine1", "spine1") for protocol in ("bfd", "bgp")
    )
    assert all(each["since_ns"] < told["ns"] for each in told["sessions"])
