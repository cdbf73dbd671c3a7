"""The ``rocelab`` command: its global options, and the handling of errors."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from lab import __version__
from lab.cli.command_groups import Commands
from lab.cli.command_line import Invocation
from lab.cli.command_registry import find_command
from lab.cli.kit.output import JsonStream, discard_output, end_unread, guard_output, print_error, print_json
from lab.cli.kit.recorded_command import recorded
from lab.cli.typer_internals import MisusedCommand, NoArgsIsHelpError
from lab.errors import EnvironmentLacks, ExitCode, ExpectedError, Interrupted, UsageError
from lab.kernel.process.signals import outside_contexts, send_lost_again

if TYPE_CHECKING:
    from collections.abc import Sequence

_MEANT: Final = re.compile(r"\.? (?:Did you mean (?P<names>.*)\?|\(Possible options: (?P<options>.*)\))$", re.DOTALL)
"""The end of Typer's errors that suggest commands or options with a similar name."""
_NO_OPTION: Final = "No such option"
_ELSEWHERE: Final = {"rocelab craft --opcode": "the opcode is the KIND: rocelab craft write, for example"}
"""Remedies for options that other tools have, by command and option."""
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end rocelab."""
_ALIKE: Final = 0.65
"""How similar an option is that is suggested: difflib finds --opcode and --pace alike, mostly for their hyphens."""
_NO_COMMAND: Final = "No such command"
"""The beginning of Typer's error about a group that lacks a command."""
_EXTRA: Final = re.compile(r"Got unexpected extra argument(?:\(s\))? \((?P<word>\S+)\)")
"""Typer's error about one word too many."""

app = typer.Typer(cls=Commands, rich_markup_mode="rich")


def _print_version(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        typer.echo(f"rocelab {__version__}")
        raise typer.Exit


@app.callback(no_args_is_help=True)
def options(
    debug: Annotated[bool, typer.Option(help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    vm: Annotated[
        bool | None,
        typer.Option(
            "--vm/--no-vm",
            envvar="ROCELAB_VM",
            help="Run the command in the VM, or here. \\[default: where the fabric runs on which it acts]",
        ),
    ] = None,
) -> None:
    """Break an AI fabric on your laptop: real RoCEv2 over FRR leaf-spine fabrics in network namespaces."""


def _interrupt(number: int) -> NoReturn:
    raise Interrupted(f"ended by {signal.Signals(number).name}")


def main() -> None:
    """Run the command line. An expected error prints one line, and exits with the code of its kind.

    If the reader closes the output early, as ``head`` does, the exit code is 141, as after SIGPIPE.
    """
    try:
        for number in _ENDING:
            signal.signal(number, outside_contexts(_interrupt))
        send_lost_again(Interrupted)
        guard_output()
        try:
            with recorded():
                _run()
        finally:
            _flush()
    except (EnvironmentLacks, Interrupted) as error:  # of the last output; or before the command, or after it
        _end(error)
    except RuntimeError as error:  # Python 3.11 has it for an error in __set_name__: a class was being created
        if not isinstance(error.__cause__, Interrupted):
            raise
        _end(error.__cause__)
    except BrokenPipeError:
        end_unread()
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # Typer's own exit code for it is 1
            end_unread()
        raise


def _end(error: ExpectedError) -> NoReturn:
    """Print an error and exit. Only its line is left to be written, and that may have no reader."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_DFL)
    print_error(error)
    sys.exit(error.exit_code)


def _flush() -> None:
    """Write the last output. If that is interrupted, it is discarded: Python would wait for its reader at exit."""
    try:
        sys.stdout.flush()
    except Interrupted as error:
        discard_output()
        print_error(error)
        sys.exit(error.exit_code)


def _run() -> NoReturn:
    """Exit with the exit code of the command line."""
    invocation = Invocation()
    try:
        try:
            sys.exit(app(prog_name="rocelab", standalone_mode=False, obj=invocation) or ExitCode.PASS)
        except NoArgsIsHelpError as asked:
            asked.show()
            sys.exit(ExitCode.USAGE)
        except MisusedCommand as misuse:
            invocation.refused = misuse.ctx
            raise _usage_error(misuse, invocation) from misuse
    except (ExpectedError, OSError, MemoryError) as error:
        expected = error if isinstance(error, ExpectedError) else _expected(error)
        if invocation.debug or expected is None:
            raise
        if invocation.wants_json and not JsonStream.begun:
            print_json({"error": expected.as_data()})
        print_error(expected)
        sys.exit(expected.exit_code)


def _expected(error: OSError | MemoryError) -> ExpectedError | None:
    """Return the expected error for what the kernel refuses in any command; None where only a traceback helps."""
    if isinstance(error, MemoryError):
        return EnvironmentLacks("there is not enough memory for this", "use a smaller input, or raise ulimit -v")
    where = f"{error.filename}: " if error.filename is not None else ""
    if isinstance(error, PermissionError) and os.geteuid() != 0:
        return EnvironmentLacks(f"{where}permission denied", "run it as root, for example with sudo")
    if error.errno == errno.ENAMETOOLONG:
        return UsageError(f"{where}the name is too long for a file", "choose a shorter one")
    return None


def _command_in(words: Sequence[str]) -> str:
    """Return the command that the words after ``rocelab`` name: Typer does not say which option lacks its value."""
    last = 0
    while last < len(words) and find_command(words[: last + 1]):
        last += 1
    return " ".join(["rocelab", *words[:last]])


def _similar(word: str, names: Sequence[str]) -> list[str]:
    """Return the most similar name; options are compared without the hyphens that all of them begin with."""
    bare = {name.lstrip("-"): name for name in names}
    return [bare[name] for name in get_close_matches(word.lstrip("-"), bare, n=1, cutoff=_ALIKE)]


def _usage_error(misuse: MisusedCommand, invocation: Invocation) -> UsageError:
    """Return Typer's error about a command line as rocelab's own; its remedy is the most similar name."""
    command = misuse.ctx.command_path if misuse.ctx is not None else _command_in(invocation.words[invocation.start :])
    message = misuse.format_message().rstrip(".")
    meant = _MEANT.search(message)
    message = message[: meant.start()] if meant else message
    similar = re.findall(r"[\w-]+", meant["names"] or meant["options"]) if meant else []
    word = message.split()[-1]
    if message.startswith(_NO_OPTION):
        similar = _similar(word, similar)
    names = " or ".join(map(repr, get_close_matches(word, similar, n=1) or similar))
    remedy = f"did you mean {names}?" if names else f"{command} --help lists what it takes"
    remedy = _ELSEWHERE.get(f"{command} {word}", remedy)
    if not meant and message.startswith(_NO_COMMAND) and (entry := find_command(command.split()[1:])):
        remedy = f"it has {', '.join(each.name for each in entry.below)}"
    extra = _EXTRA.fullmatch(message)
    options = [name for each in misuse.ctx.command.params for name in each.opts] if misuse.ctx is not None else []
    if extra and "--fabric" in options and all(name.startswith("-") for name in options):
        remedy = f"a fabric is an option: {command} --fabric {extra['word'].removesuffix('.yaml').rpartition('/')[2]}"
    return UsageError(f"{command}: {message[:1].lower()}{message[1:]}", remedy)
