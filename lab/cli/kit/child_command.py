"""A second rocelab command as a child of this one: it runs where the fabric runs, connected by a socket."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import tempfile
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final, NoReturn

from lab.cli.command_line import global_options
from lab.cli.kit.output import ERRORS
from lab.errors import (
    EnvironmentLacks,
    ExpectedError,
    FabricBusy,
    Interrupted,
    InvalidInput,
    NotConverged,
    OperationFailed,
    Problem,
    UsageError,
)
from lab.kernel.process import process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.kernel.process.process import Process

PROGRAM: Final = (sys.executable, "-P", "-m", "lab")
"""The command ``rocelab``. With -P, Python runs no modules of the current folder, which can be any project's."""
_KINDS: Final = (Interrupted, UsageError, EnvironmentLacks, FabricBusy, OperationFailed, NotConverged)
"""Errors without fields of their own: each is raised here as it is."""
_GRACE: Final = 10.0
"""Seconds for the child to end; in the VM, the command is not a child of this process."""


@dataclass(frozen=True, slots=True)
class ChildCommand:
    """A running command; ``stream`` is connected to its standard input and output."""

    stream: socket.socket
    _process: Process
    _said: IO[bytes]

    def report_end(self) -> NoReturn:
        """Raise the error of the command, which has ended, after what else it printed. Without one, exit as it did.

        OperationFailed if it has no exit code of its own, because it ended well or was killed.
        """
        code = process.wait(self._process, _GRACE)
        self._said.seek(0)
        *lines, last = ["", *self._said.read().decode(errors="replace").splitlines()]
        error = _error_in(last)
        sys.stderr.writelines(f"{line}\n" for line in [*lines[1:], *([] if error or not last else [last])])
        if error is not None:  # with --json, it is the document, too
            raise error
        if code <= 0:
            why = f": the command that reads them was ended by signal {-code}" if code else ""
            raise OperationFailed(f"the fabric's samples ended{why}", "rocelab ls lists running fabrics")
        sys.exit(code)


def _error_in(line: str) -> ExpectedError | None:
    """Return the error that ``print_error`` wrote to a line as JSON; None if it is another line."""
    try:
        error = json.loads(line)["error"]
        if "problems" in error:
            return InvalidInput(error["source"], [Problem(**each) for each in error["problems"]])
        named = {each.__name__: each for each in _KINDS}
        coded = {int(each.exit_code): each for each in reversed(_KINDS)}
        return (named.get(error["kind"]) or coded[error["exit_code"]])(error["message"], error["remedy"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


@contextlib.contextmanager
def child_command(*words: str) -> Iterator[ChildCommand]:
    """Run ``rocelab words...`` with the global options of this command; it is stopped at the end."""
    argv = [*PROGRAM, *global_options(), *words]
    within = process.Surroundings(environment={**os.environ, ERRORS: "json"})
    ours, theirs = socket.socketpair()
    with ours, theirs, tempfile.TemporaryFile() as said:
        end, errors = theirs.fileno(), said.fileno()
        with process.ended(lambda: process.start(argv, stdin=end, stdout=end, stderr=errors, within=within)) as child:
            theirs.close()
            try:
                yield ChildCommand(ours, child, said)
            finally:
                process.stop(child, _GRACE)
