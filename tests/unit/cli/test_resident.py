"""The process that forks commands, with a caller that speaks as its command ends."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.patience import PATIENCE

SCRIPT: Final = """
import json, os, socket, sys
from lab.cli import resident

agent, let_go = os.pipe()
os.close(let_go)  # the resident ends when no command is left
resident._AGENT = agent
caller, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sys.argv[1])
    listener.listen()
    serving = resident.Resident(listener)
    child = os.posix_spawn("/bin/true", ["true"], {})
    serving._callers[caller.fileno()] = serving._children[child] = caller
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    serving._waker.send(b"x")
    match sys.argv[2]:
        case "signals":
            far.send(json.dumps({"signal": 2}).encode())
        case "hangs up":
            far.shutdown(socket.SHUT_WR)
        case "is gone":
            caller.send(b"{}")  # and that unread
            far.close()
    assert serving.serve() is None
    print("nobody there" if far.fileno() < 0 else far.recv(100).decode())
"""


@pytest.mark.parametrize(
    ("does", "told"), [("signals", '{"exit": 0}'), ("hangs up", '{"exit": 0}'), ("is gone", "nobody there")]
)
def test_who_speaks_as_its_command_ends_is_told_its_end(tmp_path: Path, does: str, told: str) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "listener"), does]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.stdout, done.stderr) == (f"{told}\n", "")


REFUSING: Final = """
import errno, os, socket, sys
from lab.cli import resident

agent, let_go = os.pipe()
resident._AGENT = agent
def refuse():
    raise OSError(errno.EAGAIN, "no more processes")
caller, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
running, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sys.argv[1])
    listener.listen()
    serving = resident.Resident(listener)
    child = os.posix_spawn("/bin/true", ["true"], {})
    serving._callers = {caller.fileno(): caller, running.fileno(): running}
    serving._children[child] = running
    os.fork = refuse
    streams = [os.open(os.devnull, os.O_RDWR) for _ in range(int(sys.argv[2]))]
    before = len(os.listdir("/proc/self/fd"))
    socket.send_fds(far, [b"{}"], streams)
    assert serving._receive(caller) is None
    print(repr(far.recv(10)), len(os.listdir("/proc/self/fd")) - before)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    serving._waker.send(b"x")
    os.close(let_go)
    assert serving.serve() is None
    print(other.recv(100).decode())
"""


@pytest.mark.parametrize("streams", [3, 2], ids=["no process to be had", "no descriptor to be had"])
def test_a_command_that_cannot_be_forked_ends_no_other(tmp_path: Path, streams: int) -> None:
    """Its caller sees the connection end, and starts a program of its own; no descriptor is left but the caller's."""
    command = [sys.executable, "-c", REFUSING, str(tmp_path / "listener"), str(streams)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.stdout, done.stderr) == ("b'' -1\n{\"exit\": 0}\n", "")
