"""The properties of a command that are needed before its module is imported: an entry of ``command_registry``.

Entries are named tuples, because Python creates such a class in a tenth of the time of a dataclass.
"""

from __future__ import annotations

from enum import Enum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Target(Enum):
    """The default place of a command, without ``--vm`` and ``--no-vm``."""

    FABRIC = auto()
    """Where the fabric runs: here or in the VM."""
    HERE = auto()
    """Here; in the VM with ``--vm``. For files, recordings, and commands that build fabrics or check this machine."""
    HOST = auto()
    """On the host, also with ``--vm``: the command manages the VM, or draws on the user's terminal."""


class TargetByOption(NamedTuple):
    """A target that depends on whether a parameter has a value other than its empty default."""

    parameter: str
    """The parameter's name in the command's function."""
    given: Target
    absent: Target


class Attended(Enum):
    """Whether the command must run in real time, even in a VM that skips idle time."""

    NEVER = auto()
    ON_TERMINAL = auto()
    """Real time on a terminal, because a person types into the command."""
    ALWAYS = auto()
    """Always real time: it observes or disturbs the fabric as long as the user wants."""


class Suggestion(NamedTuple):
    """Words that newcomers try as commands, and the error's remedy, in which ``{word}`` stands for the word."""

    words: tuple[str, ...]
    remedy: str


class CommandEntry(NamedTuple):
    """A command, or a group of commands."""

    name: str
    function: str = ""
    """``MODULE:NAME`` below ``lab.cli``, a function or a Typer app; "" if the Typer app of its group contains it."""
    target: Target | TargetByOption = Target.HERE
    attended: Attended = Attended.NEVER
    attended_option: str = ""
    """The name of the parameter whose flag makes the command attended."""
    open_ended: bool = False
    """Whether the user decides how long it runs, so that its duration is not reported."""
    recorded: bool = False
    """Whether active recordings of its fabric contain its command line and output."""
    checkpointed: bool = False
    """Whether a VM that ran only this command may be saved as a checkpoint, and restored instead of running it."""
    after_vm: str = ""
    """``MODULE:FUNCTION`` below ``lab.cli``, called on the host with the VM's cache folder after the command."""
    answers: Mapping[str, str] = MappingProxyType({})
    """Models of ``--json`` in ``lab.cli.answers`` by the option that selects them: "" without an option."""
    suggestion: Suggestion | None = None
    below: tuple[CommandEntry, ...] = ()

    @property
    def targets(self) -> set[Target]:
        """All possible targets of the command."""
        if isinstance(self.target, TargetByOption):
            return {self.target.given, self.target.absent}
        return {self.target}

    def target_of(self, values: Mapping[str, Any]) -> Target:
        """Return the target of a call with these values, by parameter name."""
        if isinstance(self.target, TargetByOption):
            return self.target.given if values.get(self.target.parameter) else self.target.absent
        return self.target
