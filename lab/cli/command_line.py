"""A parsed command line: its command, its values, and the words that name files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from typer.core import TyperCommand, TyperGroup

from lab.cli.command_entry import Attended, CommandEntry, Target
from lab.cli.command_registry import find_command
from lab.cli.typer_internals import TypedWord, get_current_context, remaining_words, typed_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.cli.typer_internals import Command, Context
    from lab.vm.calls.handover import NamedFile

_WRITTEN: Final = {"--output", "--plot"}
"""Options whose file the command writes, even if the file name is a default."""
_UNKNOWN: Final = CommandEntry("")


class Invocation:
    """The command line of this process: Typer's ``Context.obj``, filled while Typer parses."""

    def __init__(self) -> None:
        self.words: list[TypedWord] = []
        """The words after ``rocelab``."""
        self.start = 0
        """Index of the command's name in ``words``: only global options stand before it."""
        self.debug = False
        self.line: CommandLine | None = None
        """The parsed command line; None until a command is about to run."""
        self.refused: Context | None = None
        """The context of the command or group whose words Typer could not parse."""

    @property
    def wants_json(self) -> bool:
        """Whether errors are also printed as JSON; if Typer cannot parse the line, ``--json`` in it decides."""
        if self.line is not None:
            return self.line.wants_json
        command = self.refused.command if self.refused is not None else None
        if isinstance(command, TyperCommand) and not any("--json" in each.opts for each in command.params):
            return False
        words = list(map(str, self.words))
        return "--json" in (words[: words.index("--")] if "--" in words else words)


class CommandLine(NamedTuple):
    """The parsed command line after ``rocelab``."""

    context: Context
    """The context of the command, or of the innermost group if the words name no command in it."""
    path: tuple[str, ...]
    """The names of the command and the groups around it: ``("fault", "heal")``."""
    words: tuple[TypedWord, ...] = ()
    """The words after ``rocelab``."""
    start: int = 0
    """Index of the command's first name in ``words``."""

    @property
    def entry(self) -> CommandEntry:
        """The registry's entry; an empty one if the words name no command."""
        return find_command(self.path) or _UNKNOWN

    @property
    def values(self) -> dict[str, Any]:
        """Values by parameter name, defaults included; a value that cannot be converted is None."""
        return self.context.params if self.path else {}

    @property
    def fabric(self) -> str | None:
        """The running fabric that ``--fabric`` names."""
        fabric: str | None = self._value_of("--fabric")
        return fabric

    @property
    def wants_json(self) -> bool:
        """Whether ``--json`` is given."""
        return bool(self._value_of("--json"))

    @property
    def target(self) -> Target:
        """The default place of the command, without ``--vm`` and ``--no-vm``."""
        return self.entry.target_of(self.values)

    @property
    def in_vm(self) -> bool | None:
        """The value of ``--vm``, ``--no-vm`` or ``ROCELAB_VM``; None without any of them."""
        wanted: bool | None = self.context.find_root().params.get("vm")
        return wanted

    @property
    def argv(self) -> list[str]:
        """The command line without ``--vm`` and ``--no-vm``."""
        return ["rocelab", *(["--debug"] if self.context.find_root().params.get("debug") else []), *self.command]

    @property
    def command(self) -> list[str]:
        """The words from the command's name on."""
        return list(map(str, self.words[self.start :]))

    @property
    def arguments(self) -> list[str]:
        """The words after the command's name: groups have no options of their own."""
        return self.command[len(self.path) :]

    def attended(self, *, terminal: bool) -> bool:
        """Return whether the command must run in real time: see ``Attended``. ``terminal``: it runs on a terminal."""
        if self.values.get(self.entry.attended_option):
            return True
        return self.entry.attended is Attended.ALWAYS or (terminal and self.entry.attended is Attended.ON_TERMINAL)

    def files(self, argv: Sequence[str]) -> list[NamedFile]:
        """Return the files that the parameters name, with their places in ``argv``, which ends with ``command``."""
        from lab.vm.calls.handover import NamedFile  # noqa: PLC0415 - only for what runs in the VM

        shift = len(argv) - len(self.words)
        found = []
        for parameter in self.context.command.params if self.path else ():
            value = self.values.get(parameter.name)
            written = bool(_WRITTEN.intersection(parameter.opts))
            typed = typed_words(self.context, parameter)
            for number, file in enumerate(value if isinstance(value, list | tuple) else [value]):
                named = isinstance(file, Path) or (written and isinstance(file, str))
                if not named or str(file) == "-":
                    continue
                if number < len(typed):
                    found.append(NamedFile(str(typed[number]), written, (typed[number].place + shift,)))
                elif written and str(file) != ".":
                    found.append(
                        NamedFile(text=str(Path(file)), written=written, places=(), option=parameter.opts[0])
                    )
        return found

    def _value_of(self, option: str) -> Any:
        parameters = self.context.command.params if self.path else ()
        return next((self.values.get(each.name) for each in parameters if option in each.opts), None)


def running_line() -> CommandLine:
    """Return the command line of the running command."""
    context = get_current_context()
    invocation = context.ensure_object(Invocation)
    return CommandLine(context, path_of(context), tuple(invocation.words), invocation.start)


def global_options() -> list[str]:
    """Return the options before the running command, for a second rocelab that runs in the same way."""
    options = get_current_context().find_root().params
    where = {True: ["--vm"], False: ["--no-vm"], None: []}[options.get("vm")]
    return [*where, *(["--debug"] if options.get("debug") else [])]


def with_places(words: Sequence[str]) -> list[TypedWord]:
    """Return the words with their places."""
    return [TypedWord(word, place) for place, word in enumerate(words)]


def path_of(context: Context) -> tuple[str, ...]:
    """Return the names of a command and the groups around it, without ``rocelab``."""
    names: list[str] = []
    while context.parent is not None:
        names.insert(0, str(context.info_name))
        context = context.parent
    return tuple(names)


def parse(rocelab: Command, words: Sequence[str]) -> CommandLine:
    """Parse the words after ``rocelab``; nothing is run.

    Values that cannot be converted are None. Unknown commands result in a ``CommandLine`` without a path.
    """
    typed = with_places(words)
    command = rocelab
    context = command.make_context("rocelab", list(typed), resilient_parsing=True)
    start = len(typed) - len(remaining_words(context))
    while isinstance(command, TyperGroup):
        name, *rest = remaining_words(context) or [""]
        below = command.get_command(context, name)
        if below is None:
            return CommandLine(context, (), tuple(typed), start)
        command = below
        context = command.make_context(name, rest, parent=context, resilient_parsing=True)
    return CommandLine(context, path_of(context), tuple(typed), start)
