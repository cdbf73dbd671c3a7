"""External programs whose output is read line by line while they run."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import deque
from typing import TYPE_CHECKING

from lab.errors import CommandFailed
from lab.kernel.process import process

if TYPE_CHECKING:
    from collections.abc import Callable

_KEPT_LINES = 20


def stream(argv: process.Argv, on_line: Callable[[str], None], *, grace: float = 5.0) -> None:
    """Run a program to its end and pass each line of its output to ``on_line`` as it is printed.

    CommandFailed carries the last lines. If the caller is interrupted, the program gets SIGTERM. After ``grace``
    seconds its whole session is killed. The function returns when the last process has closed the output.
    """
    child = process.start(argv, stdout=process.PIPE, stderr=process.STDOUT)
    last: deque[str] = deque(maxlen=_KEPT_LINES)
    assert child.stdout is not None  # noqa: S101 - stdout is a pipe
    with child.stdout as lines:
        try:
            for line in lines:
                last.append(line.rstrip())
                on_line(line.rstrip())
            returncode = child.wait()
        except BaseException:
            process.stop(child, grace)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            lines.read()
            raise
    if returncode != 0:
        raise CommandFailed([str(word) for word in argv], returncode, "\n".join(last))
