"""Every error that rocelab raises on purpose, each with the object it is about and the remedy.

::

    LabError                  exit code
    +-- UsageError            2   the caller asked for something that cannot be
    |   +-- InvalidInput      2   a file or value that breaks rules; carries all problems at once
    +-- EnvironmentLacks      4   the machine has not got what this needs
    |   +-- Busy              4   another rocelab command holds the fabric
    +-- Interrupted         130   Ctrl-C, or a signal that asks us to end
    +-- OperationFailed       1   it was possible, and did not work
        +-- CommandFailed     1   an external program ended with an error
        +-- NotConverged      1   the fabric did not reach its state in time
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence


class ExitCode(IntEnum):
    """What the process returns."""

    PASS = 0
    FAIL = 1
    USAGE = 2
    UNKNOWN = 3
    ENVIRONMENT = 4
    INTERRUPTED = 130


class LabError(Exception):
    """One clear line: what is wrong with which object, then what to do about it."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAIL

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}: {self.remedy}" if self.remedy else self.message

    def as_data(self) -> dict[str, Any]:
        """The error for programs; these names stay: kind (of this class), message, remedy and exit_code."""
        return {
            "kind": type(self).__name__,
            "message": self.message,
            "remedy": self.remedy,
            "exit_code": int(self.exit_code),
        }


class UsageError(LabError):
    """The caller asked for something that cannot be."""

    exit_code = ExitCode.USAGE


@dataclass(frozen=True, order=True)
class Problem:
    """One broken rule: where (``links[3].rate``), what, the remedy, and the line of the source where known."""

    path: str
    message: str
    remedy: str
    line: int = 0

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return f"{where}{self.message}; {self.remedy}"


class InvalidInput(UsageError):
    """A file or value breaks rules; ``problems`` holds every one of them."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__("\n".join(self._describe(problem) for problem in self.problems))

    def as_data(self) -> dict[str, Any]:
        """As of every error, with ``source`` and all ``problems``: path, message, remedy, and line (0: unknown)."""
        return super().as_data() | {"source": self.source, "problems": [asdict(each) for each in self.problems]}

    def _describe(self, problem: Problem) -> str:
        return f"{self.source}:{problem.line}: {problem}" if problem.line else f"{self.source}: {problem}"


class EnvironmentLacks(LabError):
    """The machine has not got what this needs."""

    exit_code = ExitCode.ENVIRONMENT


class FabricBusy(EnvironmentLacks):
    """Another rocelab command holds the fabric."""


class Interrupted(LabError):
    """Ctrl-C, or a signal that asks us to end."""

    exit_code = ExitCode.INTERRUPTED


class OperationFailed(LabError):
    """It was possible, and did not work."""


class CommandFailed(OperationFailed):
    """An external program ended with an error; ``returncode`` and ``stderr`` say how."""

    def __init__(self, argv: Sequence[str], returncode: int, stderr: str) -> None:
        self.argv = tuple(argv)
        self.returncode = returncode
        self.stderr = stderr
        lines = [line for line in stderr.splitlines() if line.strip()]
        said = lines[-1].strip() if lines else "it printed no error"
        super().__init__(f"{' '.join(self.argv)} ended with {returncode}: {said}")


class NotConverged(OperationFailed):
    """The fabric did not reach its state in time; the message names what is missing."""
