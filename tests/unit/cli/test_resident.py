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
