"""A second rocelab command as a child of this one: it runs where the fabric runs, connected by a socket."""

from __future__ import annotations

import socket
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final, NoReturn

from lab.cli.command_line import global_options
from lab.errors import EnvironmentLacks, OperationFailed, UsageError
from lab.kernel.process import process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.kernel.process.process import Process

PROGRAM: Final = (sys.executable, "-P", "-m", "lab")
"""The command ``rocelab``. With -P, Python runs no modules of the current folder, which can be any project's."""
_ERROR: Final = "error: "
"""The word that ``lab.cli.kit.output.print_error`` writes before an error."""
_KINDS: Final = {int(kind.exit_code): kind for kind in (UsageError, OperationFailed, EnvironmentLacks)}
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
        kind = _KINDS.get(code) if last.startswith(_ERROR) else None
        sys.stderr.writelines(f"{line}\n" for line in [*lines[1:], *([] if kind or not last else [last])])
        if kind is not None:  # with --json, it is the document, too
            message, colon, remedy = last.removeprefix(_ERROR).rpartition(": ")
            raise kind(message if colon else remedy, remedy if colon else "")
        if code <= 0:
            why = f": the command that reads them was ended by signal {-code}" if code else ""
            raise OperationFailed(f"the fabric's samples ended{why}", "rocelab ls lists running fabrics")
        sys.exit(code)


@contextmanager
def child_command(*words: str) -> Iterator[ChildCommand]:
    """Run ``rocelab words...`` with the global options of this command; it is stopped at the end."""
    argv = [*PROGRAM, *global_options(), *words]
    ours, theirs = socket.socketpair()
    with ours, theirs, tempfile.TemporaryFile() as said:
        end, errors = theirs.fileno(), said.fileno()
        with process.ended(lambda: process.start(argv, stdin=end, stdout=end, stderr=errors)) as child:
            theirs.close()
            try:
                yield ChildCommand(ours, child, said)
            finally:
                process.stop(child, _GRACE)
