"""Calls from end to end without a guest: the host's and the guest's code, and a Unix socket for the port between."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab.cli.kit.output import BROKEN_PIPE
from lab.errors import OperationFailed
from lab.kernel.process import wall_clock
from lab.vm.calls import guest_command
from lab.vm.calls.frames import WINDOW, CallFrame, CallFrameKind
from lab.vm.calls.request import GuestRequest
from lab.vm.checkpoints.fingerprint import of_code
from lab.vm.guest import agent
from lab.vm.guest.launch import NOT_STARTED, Fork, Launcher
from lab.vm.guest.virtio_port import VirtioPort
from lab.vm.host.qemu import Share
from lab.vm.host.vm_state import RunningVm, StateFolder, process_start
from lab.vm.image.recipe import Image
from tests.patience import PATIENCE

CALLER = """
import sys
from pathlib import Path
from lab.vm.calls.call import call
from lab.vm.host.vm_state import RunningVm, StateFolder
state = StateFolder(Path(sys.argv[1]))
sys.exit(call(state, RunningVm.from_json(state.record.read_text()), sys.argv[2:], (), print))
"""


class Guest:
    """The guest's side of port 0: whoever connects is served by the agent, on a port of its own."""

    def __init__(self, state: StateFolder) -> None:
        self.state = state
        self._launcher = Launcher()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(state.port(0)))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            port = VirtioPort(connection.detach())
            threading.Thread(target=agent.serve, args=(port, self._launcher), daemon=True).start()

    def start(self, *command: str) -> "subprocess.Popen[bytes]":
        """Call a command, as a process of its own."""
        pipe = subprocess.PIPE
        argv = [sys.executable, "-c", CALLER, str(self.state.path), *command]
        return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe)

    def run(self, *command: str, text: bytes = b"") -> tuple[int, bytes, bytes]:
        """Call a command to its end: its exit code, output and errors."""
        caller = self.start(*command)
        out, err = caller.communicate(text, timeout=PATIENCE)
        return caller.returncode, out, err


@pytest.fixture
def guest(tmp_path: Path, running: RunningVm) -> Guest:
    state = StateFolder(tmp_path)
    mine = Image(tmp_path / "image")
    here = (Share("checkout", Path.cwd()), Share("cache", mine.guest_cache, writable=True))
    alive = replace(running, pid=os.getpid(), pid_started=process_start(os.getpid()) or 0, shares=here, image=mine)
    state.record.write_text(alive.to_json())
    return Guest(state)


@pytest.mark.parametrize(
    "words", [["a b", "$HOME", "it's", "*", ""], ["-n", "--", "`x`", "\\", "é"], ["x" * 100_000]], ids=range(3)
)
def test_each_word_arrives_as_it_is(guest: Guest, words: list[str]) -> None:
    script = "import os, sys; sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
    assert guest.run("python3", "-c", script, *words) == (0, "\0".join(words).encode(), b"")


def test_streams_and_exit_code_are_the_commands(guest: Guest) -> None:
    assert guest.run("sh", "-c", "pwd; echo oops >&2; exit 42") == (42, f"{Path.cwd()}\n".encode(), b"oops\n")
    assert guest.run("sh", "-c", "kill -KILL $$")[0] == 128 + signal.SIGKILL


def test_more_than_a_window_goes_through_and_back(guest: Guest) -> None:
    text = os.urandom(4 * WINDOW)
    assert guest.run("cat", text=text) == (0, text, b"")


def test_input_that_nobody_reads_holds_nothing_up(guest: Guest) -> None:
    assert guest.run("true", text=b"x" * 3 * WINDOW)[0] == 0
    assert guest.run("sh", "-c", "exec <&-; echo done", text=b"x" * 3 * WINDOW)[:2] == (0, b"done\n")


def test_a_command_that_is_not_there_is_told_in_one_line(guest: Guest) -> None:
    code, out, err = guest.run("no-such-program")
    assert (code, out) == (NOT_STARTED, b"")
    assert err == b"error: program no-such-program not found: install it: rocelab doctor\n"


def test_what_a_command_leaves_in_the_background_does_not_hold_the_call(guest: Guest) -> None:
    code, out, _ = guest.run("sh", "-c", "sleep 60 & echo $!")
    assert code == 0
    os.kill(int(out), signal.SIGKILL)


@pytest.mark.parametrize("words", ["", "-x -k port"])
def test_pytest_keeps_no_cache_in_the_guest_whatever_the_caller_tells_it(words: str) -> None:
    """The checkout is read-only there, and a warning that it cannot be kept would be an error."""
    asked = replace(asking("pytest"), environment={"PYTEST_ADDOPTS": words} if words else {})
    told = asked.whole_environment["PYTEST_ADDOPTS"]
    assert told == f"-p no:cacheprovider {words}".strip()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_reach_the_command(guest: Guest, number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    trapping = f"trap 'echo got {name}; exit 7' {name}; echo ready; while :; do sleep 0.01; done"
    caller = guest.start("env", "--default-signal", "sh", "-c", trapping)  # what nohup ignores, no shell can trap
    assert caller.stdout is not None
    assert caller.stdout.readline() == b"ready\n"
    caller.send_signal(number)
    out, _ = caller.communicate(timeout=PATIENCE)
    assert (caller.returncode, out) == (7, f"got {name}\n".encode())


def test_the_command_of_a_killed_caller_is_ended(guest: Guest, tmp_path: Path) -> None:
    fifo = tmp_path / "end"
    os.mkfifo(fifo)
    caller = guest.start("sh", "-c", f"exec 3>{fifo}; echo ready; exec sleep 60")
    with fifo.open("rb") as end:
        assert caller.stdout is not None
        assert caller.stdout.readline() == b"ready\n"
        caller.kill()
        caller.communicate()
        assert end.read() == b"", "the last writer is gone"
    assert guest.run("echo", "next")[:2] == (0, b"next\n")


@pytest.fixture
def ours() -> Iterator[socket.socket]:
    """The callers' end of a port that the agent serves: as QEMU's, it is the same for all of them."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    threading.Thread(target=agent.serve, args=(VirtioPort(theirs.detach()), Launcher()), daemon=True).start()
    with ours:
        yield ours


def asking(*argv: str) -> GuestRequest:
    return GuestRequest(argv, "/", {}, None, of_code())


def next_frame(ours: socket.socket) -> CallFrame:
    """The next frame from the guest."""
    header = ours.recv(9, socket.MSG_WAITALL)
    length = int.from_bytes(header[5:], "big")
    return CallFrame(
        int.from_bytes(header[:4], "big"), CallFrameKind(header[4]), ours.recv(length, socket.MSG_WAITALL)
    )


def test_nothing_starts_before_the_caller_says_go(ours: socket.socket, tmp_path: Path) -> None:
    ours.sendall(CallFrame(1, CallFrameKind.START, asking("touch", str(tmp_path / "started")).to_json()).encode())
    assert next_frame(ours) == CallFrame(1, CallFrameKind.ACCEPTED)
    ours.sendall(CallFrame(2, CallFrameKind.START, asking("echo", "second").to_json()).encode())
    assert next_frame(ours) == CallFrame(2, CallFrameKind.ACCEPTED)
    ours.sendall(CallFrame(2, CallFrameKind.GO).encode())
    assert next_frame(ours) == CallFrame(2, CallFrameKind.OUTPUT, b"second\n")
    assert next_frame(ours) == CallFrame(2, CallFrameKind.EXIT, b"0")
    assert not (tmp_path / "started").exists()


def test_a_new_caller_takes_the_place_of_one_that_was_not_seen_to_go(ours: socket.socket) -> None:
    ours.sendall(CallFrame(1, CallFrameKind.START, asking("sh", "-c", "echo $$; exec sleep 60").to_json()).encode())
    assert next_frame(ours) == CallFrame(1, CallFrameKind.ACCEPTED)
    ours.sendall(CallFrame(1, CallFrameKind.GO).encode())
    pid = int(next_frame(ours).payload)
    end = os.pidfd_open(pid)
    ours.sendall(CallFrame(2, CallFrameKind.START, asking("true").to_json()).encode())
    assert next_frame(ours) == CallFrame(2, CallFrameKind.ACCEPTED)
    assert process_start(pid) is None, "its command is ended first"
    os.close(end)


def read_all(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as pipe:
        return pipe.read()


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    launcher = Launcher()
    yield launcher
    launcher.close()


def run_both(launcher: Launcher, folder: Path, argv: list[str]) -> list[tuple[int, bytes, bytes]]:
    """What the resident's fork and a program of its own come to: exit code, output, errors."""
    (out, their_out), (err, their_err) = os.pipe(), os.pipe()
    asked = replace(asking("rocelab", *argv), directory=str(folder), environment={"NO_COLOR": "1"})
    with Path(os.devnull).open("rb") as null:
        command = launcher.start(asked, (null.fileno(), their_out, their_err))
    os.close(their_out)
    os.close(their_err)
    said = read_all(out), read_all(err)
    assert isinstance(command, Fork)
    environment = {**os.environ, "NO_COLOR": "1"}
    program = [sys.executable, "-P", "-m", "lab", *argv]
    plain = subprocess.run(program, capture_output=True, cwd=folder, env=environment, check=False)
    return [(command.code(), *said), (plain.returncode, plain.stdout, plain.stderr)]


@pytest.mark.parametrize(("argv", "code"), [(["--version"], 0), (["topology", "check", "none.yaml"], 2)], ids=[0, 2])
def test_the_resident_answers_as_a_program_of_its_own(
    launcher: Launcher, tmp_path: Path, argv: list[str], code: int
) -> None:
    fork, program = run_both(launcher, tmp_path, argv)
    assert fork == program
    assert program[0] == code


def test_an_exception_that_nobody_handles_ends_the_resident_s_fork_as_it_does_a_program(
    launcher: Launcher, tmp_path: Path
) -> None:
    """The outermost frames of its traceback, which are not the command's, are those of another caller."""
    fork, program = run_both(launcher, tmp_path, ["--debug", "nonsense"])
    assert fork[:2] == program[:2] == (1, b"")
    assert fork[2].splitlines()[-1] == program[2].splitlines()[-1] != b""
    assert b"Traceback" in fork[2]


BEING_A_FORK = """
import sys
from lab.cli import resident
from lab.vm.calls.request import GuestRequest
resident.run(GuestRequest((sys.argv[1],), "/", {}, None, ""), lambda: exec(sys.argv[0], {}))
"""


@pytest.mark.parametrize("closed", [False, True], ids=["read", "unread"])
@pytest.mark.parametrize(
    "code",
    ["", "raise SystemExit", "raise SystemExit(7)", "raise SystemExit(True)", "raise SystemExit('in words')",
     "raise SystemExit(('a', 1))", "raise ValueError('odd')"],
)  # fmt: skip
def test_a_command_of_the_resident_ends_as_python_ends(code: str, closed: bool) -> None:
    """When nobody reads what it printed, Python ends with 120, and rocelab as a program that SIGPIPE ended."""
    ends = []
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd()), "PYTHONUNBUFFERED": ""}
    for words in ([BEING_A_FORK, f"print('said'); {code}"], [f"print('said'); {code}"]):
        out, theirs = os.pipe()
        if closed:
            os.close(out)
        argv = [sys.executable, "-c", *words]
        process = subprocess.Popen(argv, stdout=theirs, stderr=subprocess.PIPE, env=environment)
        os.close(theirs)
        told = process.communicate()[1].splitlines()
        ends.append((process.returncode, b"" if closed else read_all(out), told[-1:]))
    fork, python = ends
    if closed:
        assert (fork[0], python[0]) == (BROKEN_PIPE, 120)
    else:
        assert fork == python


def test_a_resident_of_other_code_is_replaced(launcher: Launcher) -> None:
    """The one that goes ends when its commands have."""
    null = os.open(os.devnull, os.O_RDWR)
    ends = []
    for code in ("one", "two", "two"):
        command = launcher.start(replace(asking("rocelab", "--version"), code=code), (null, null, null))
        assert isinstance(command, Fork)
        assert command.code() == 0
        assert launcher._resident is not None
        ends.append(launcher._resident)
    os.close(null)
    assert ends[0] is not ends[1] is ends[2]
    assert ends[0].wait(PATIENCE) == 0


def test_the_guest_keeps_what_the_callers_clock_says(
    guest: Guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When each command began, and when the one before it ended."""
    monkeypatch.setattr(wall_clock, "PAIRS", tmp_path / "pairs")
    began = time.time()
    for _ in range(2):
        assert guest.run("true")[0] == 0
    pairs = [tuple(map(float, line.split())) for line in (tmp_path / "pairs").read_text().splitlines()]
    boots, walls = zip(*pairs, strict=True)
    assert len(pairs) == 3  # a start, its end, and a start
    assert began - 1 <= walls[0] <= walls[1] <= walls[2] <= time.time() + 1
    assert boots[0] <= boots[1] <= boots[2]


def test_times_of_day_in_the_guest_are_of_the_callers_zone(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "XYZ-5:45")
    assert guest.run("date", "+%z")[1] == b"+0545\n"


def test_an_errand_that_does_not_end_is_given_up(guest: Guest) -> None:
    """The VM's lock is held meanwhile."""
    assert guest_command.run(guest.state, 0, "echo", "done") == "done"
    with pytest.raises(OperationFailed, match=r"sleep 600 did not end in the VM within 0\.2 s: rocelab vm down"):
        guest_command.run(guest.state, 0, "sleep", "600", timeout=0.2)
    with pytest.raises(OperationFailed, match="sh -c exit 3 failed in the VM: exit code 3"):
        guest_command.run(guest.state, 0, "sh", "-c", "exit 3")
    endless = "while :; do echo; sleep 0.01; done"
    with pytest.raises(OperationFailed, match="did not end in the VM"):
        guest_command.run(guest.state, 0, "sh", "-c", endless, timeout=0.2)
