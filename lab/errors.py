"""Every error that rocelab raises on purpose, with the object it is about and the remedy.

::

    ExpectedError                 exit code
    +-- Interrupted             130   Ctrl-C, or a signal that ends rocelab
    +-- LabError
        +-- UsageError            2   the request is not possible or not valid
        |   +-- InvalidInput      2   a file or value that breaks rules; carries all problems at once
        +-- EnvironmentLacks      4   the machine lacks something that this needs
        |   +-- FabricBusy        4   another rocelab command holds the fabric
        +-- OperationFailed       1   the operation was valid, and failed
            +-- CommandFailed     1   an external program exited with an error
            +-- NotConverged      1   the fabric did not converge in time
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class ExitCode(IntEnum):
    """The exit codes of rocelab."""

    PASS = 0
    FAIL = 1
    USAGE = 2
    UNKNOWN = 3
    ENVIRONMENT = 4
    INTERRUPTED = 130


class ExpectedError(BaseException):
    """An error with a one-line message: the object, what is wrong with it, and the remedy."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAIL

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}: {self.remedy}" if self.remedy else self.message

    def as_data(self) -> dict[str, Any]:
        """Return the error for programs: kind (the class name), message, remedy and exit_code.

        These keys are stable.
        """
        return {
            "kind": type(self).__name__,
            "message": self.message,
            "remedy": self.remedy,
            "exit_code": int(self.exit_code),
        }


class Interrupted(ExpectedError):
    """Ctrl-C, or a signal that ends rocelab. Code that goes on after a LabError does not go on after this."""

    exit_code = ExitCode.INTERRUPTED


class LabError(ExpectedError, Exception):
    """An operation that rocelab refuses, or that failed."""


class UsageError(LabError):
    """The request is not possible or not valid."""

    exit_code = ExitCode.USAGE


@dataclass(frozen=True, order=True)
class Problem:
    """An invalid entry of a file: one broken rule."""

    path: str
    """The place in the file, for example links[3].rate."""
    message: str
    remedy: str
    line: int = 0
    """0 if it is not known."""

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return f"{where}{self.message}; {self.remedy}"


class InvalidInput(UsageError):
    """A file or value breaks rules; ``problems`` holds all of them."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__("\n".join(self._describe(problem) for problem in self.problems))

    def as_data(self) -> dict[str, Any]:
        """Return the usual keys, ``source``, and ``problems`` (path, message, remedy, line; 0: unknown)."""
        return super().as_data() | {"source": self.source, "problems": [asdict(each) for each in self.problems]}

    def _describe(self, problem: Problem) -> str:
        return f"{self.source}:{problem.line}: {problem}" if problem.line else f"{self.source}: {problem}"


@contextmanager
def writing(path: object, remedy: str = "name another file") -> Iterator[None]:
    """Turn an OSError while writing the result ``path``, which the user named, into a UsageError.

    It is the one place of this error and its exit code. A file that is new is removed again: on a full disk it would
    be empty. A capture or a recording that breaks off later is different: its data is valid until then, and the error
    is OperationFailed.
    """
    new = False
    try:
        new = isinstance(path, Path) and not (path.is_symlink() or path.exists())
        yield
    except OSError as error:
        if new and isinstance(path, Path):
            with suppress(OSError):  # a folder, or nothing was made
                path.unlink()
        raise UsageError(f"cannot write {path}: {error.strerror or error}", remedy) from error


class EnvironmentLacks(LabError):
    """The machine lacks something that this needs."""

    exit_code = ExitCode.ENVIRONMENT


class FabricBusy(EnvironmentLacks):
    """Another rocelab command holds the fabric."""


class OperationFailed(LabError):
    """The operation was valid, and failed."""


class CommandFailed(OperationFailed):
    """An external program exited with an error: ``returncode`` and ``stderr``."""

    def __init__(self, argv: Sequence[str], returncode: int, stderr: str) -> None:
        self.argv = tuple(argv)
        self.returncode = returncode
        self.stderr = stderr
        lines = [line for line in stderr.splitlines() if line.strip()]
        said = lines[-1].strip() if lines else "it printed no error"
        super().__init__(f"{' '.join(self.argv)} ended with {returncode}: {said}")


class NotConverged(OperationFailed):
    """The fabric did not converge in time; the message names the missing routes or sessions."""
