"""What tcpdump sees at an interface, read by tshark: the judges of what is on the wire."""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_BUFFER: Final = "32768"
"""KiB: more than a few seconds of a link at 100 Mb/s need, of which 200 bytes of each packet are kept."""
_LOOKS: Final = 100
_PAUSE: Final = 0.1


@contextmanager
def captured(namespace: str, interface: str, file: Path, *words: str) -> Iterator[None]:
    """What tcpdump sees while it is open; it is waited for until it listens, and ends when all is written."""
    options = ["--immediate-mode", "-U", "-s", "200", "-B", _BUFFER, "-i", interface, "-w", str(file), *words]
    argv = ["ip", "netns", "exec", namespace, "tcpdump", *options]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as tcpdump:
        assert tcpdump.stderr is not None
        assert "listening" in tcpdump.stderr.readline()
        yield
        _await_all(tcpdump, tcpdump.stderr)
        tcpdump.terminate()
        assert "0 packets dropped by kernel" in tcpdump.stderr.read().splitlines()


def _await_all(tcpdump: subprocess.Popen[str], said: IO[str]) -> None:
    """Wait until it has read all that the kernel has for it: what it has not when it is ended is lost.

    The kernel's count is of both directions. When nothing is sent any more, and its own does not grow, it has all.
    """
    before = -1
    for _ in range(_LOOKS):
        tcpdump.send_signal(signal.SIGUSR1)  # which has it print its counts, by tcpdump(1)
        captured = int(said.readline().split()[1])
        if captured == before:
            return
        before = captured
        time.sleep(_PAUSE)
    raise AssertionError(f"{captured} packets, and there are more")


def fields(file: Path, display: str, *names: str) -> list[list[str]]:
    """What tshark reads in the packets that it shows."""
    shown = [word for name in names for word in ("-e", name)]
    argv = ["tshark", "-r", str(file), "-Y", display, "-T", "fields", *shown]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=240, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]
