"""The ``rocelab`` command: global options, the table of commands, and how errors end it."""

from __future__ import annotations

import os
import re
import signal
import sys
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, NoReturn

import typer
from typer._click.exceptions import NoArgsIsHelpError
from typer._click.exceptions import UsageError as MisusedCommand

from lab import __version__
from lab.cli.command_hints import instead_of
from lab.cli.kit.output import JsonStream, end_unread, print_error, print_json
from lab.cli.kit.recorded_command import recorded
from lab.cli.lazy import LazyGroup
from lab.errors import ExitCode, Interrupted, LabError, UsageError
from lab.model.values.suggest import suggest

if TYPE_CHECKING:
    from typer._click.core import Command, Context


class Commands(LazyGroup):
    """Every command, in the order in which a newcomer meets them."""

    commands_at: ClassVar = {
        "doctor": ("lab.cli.machine.doctor", "doctor"),
        "topology": ("lab.cli.fabrics.topology", "app"),
        "examples": ("lab.cli.fabrics.examples", "app"),
        "up": ("lab.cli.fabrics.up", "up"),
        "adopt": ("lab.cli.fabrics.adopt", "adopt"),
        "down": ("lab.cli.fabrics.down", "down"),
        "ls": ("lab.cli.fabrics.down", "list_fabrics"),
        "status": ("lab.cli.fabrics.status", "status"),
        "inspect": ("lab.cli.fabrics.inspect", "inspect"),
        "path": ("lab.cli.fabrics.path", "path"),
        "exec": ("lab.cli.fabrics.node", "execute"),
        "shell": ("lab.cli.fabrics.node", "shell"),
        "vtysh": ("lab.cli.fabrics.node", "vtysh"),
        "rdma": ("lab.cli.traffic.rdma", "app"),
        "counters": ("lab.cli.traffic.counters", "counters"),
        "congestion": ("lab.cli.traffic.congestion", "congestion"),
        "qos": ("lab.cli.traffic.qos_commands", "app"),
        "scenario": ("lab.cli.incidents.scenario", "app"),
        "fault": ("lab.cli.incidents.fault", "app"),
        "expect": ("lab.cli.traffic.expect", "expect"),
        "capture": ("lab.cli.packets.capture", "capture"),
        "dissect": ("lab.cli.packets.dissect", "dissect"),
        "analyze": ("lab.cli.packets.analyze", "analyze"),
        "follow": ("lab.cli.packets.follow", "follow"),
        "extcap": ("lab.cli.packets.extcap", "extcap"),
        "craft": ("lab.cli.packets.craft", "craft"),
        "record": ("lab.cli.incidents.record", "app"),
        "top": ("lab.cli.incidents.top", "top"),
        "replay": ("lab.cli.incidents.replay", "replay"),
        "diagnose": ("lab.cli.incidents.diagnose", "diagnose"),
        "report": ("lab.cli.incidents.report", "report"),
        "compare": ("lab.cli.incidents.compare", "compare"),
        "export": ("lab.cli.fabrics.export", "app"),
        "import": ("lab.cli.fabrics.import_lab", "app"),
        "vm": ("lab.cli.machine.vm", "app"),
        "docs": ("lab.cli.machine.docs", "docs"),
    }

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """As Typer does it; UsageError for a word that is no command, with the command that was probably meant."""
        if args and args[0] not in self.commands_at and not ctx.resilient_parsing:
            remedy = instead_of(args[0]) or suggest(args[0], self.commands_at, "rocelab --help lists all commands")
            raise UsageError(f"there is no command {args[0]}", remedy)
        return super().resolve_command(ctx, args)


_MEANT: Final = re.compile(r"\.? (?:Did you mean (?P<names>.*)\?|\(Possible options: (?P<options>.*)\))$", re.DOTALL)
"""How Typer's errors end that have found commands or options of a similar name."""

app = typer.Typer(cls=Commands, rich_markup_mode="rich")


def _print_version(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        typer.echo(f"rocelab {__version__}")
        raise typer.Exit


def _send_to_vm(context: typer.Context, wanted: bool | None) -> bool | None:
    """Run the command line in the VM, without its ``--vm``, and end with its exit code.

    Without ``--vm`` or ``--no-vm``, ``lab.cli.vm_routing`` decides. Commands about the VM itself stay here, and
    inside the VM there is nothing to do.
    """
    words = sys.argv[1:]
    command = next((index for index, word in enumerate(words) if not word.startswith("-")), len(words))
    own = words[command:]
    here = context.resilient_parsing or os.environ.get("ROCELAB_IN_VM") or own[:1] == ["vm"] or _asks_for_help(own)
    here = here or (own[:1] == ["top"] and "--stream" not in own)  # it draws here, and has samples come from there
    if not here and (wanted or (wanted is None and _follows_to_vm(words))):
        from lab.cli.machine.vm import send  # noqa: PLC0415 - paid for only by those who use the VM

        kept = [word for word in words[:command] if word not in {"--vm", "--no-vm"}]
        raise typer.Exit(send(["rocelab", *kept, *words[command:]]))
    return wanted


def _asks_for_help(words: list[str]) -> bool:
    """Whether it is answered here and the same: no VM is started for it. What a node is to run has its own help."""
    ours = words[: words.index("--")] if "--" in words else words
    return "--help" in (ours[1:2] if ours[:1] == ["exec"] else ours)


def _follows_to_vm(words: list[str]) -> bool:
    from lab.cli.vm_routing import follows_to_vm  # noqa: PLC0415 - in the VM nobody asks

    return follows_to_vm(words)


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
            callback=_send_to_vm,
            is_eager=True,
            help="Run the command in the VM, or here. [default: where the fabric is that it is about]",
        ),
    ] = None,
) -> None:
    """Break an AI fabric on your laptop: real RoCEv2 over FRR leaf-spine fabrics in network namespaces."""


def _interrupt(number: int, _frame: object) -> NoReturn:
    raise Interrupted(f"ended by {signal.Signals(number).name}")


def main() -> None:
    """Run the command line; every expected error becomes one line and the exit code of its kind.

    Where nobody reads the output to its end, as before ``| head``, it is 141, as of a program that SIGPIPE ended.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        try:
            with recorded():
                _run()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        end_unread()
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # as which Typer ends with 1
            end_unread()
        raise


def _run() -> NoReturn:
    """End with the exit code of the command line."""
    try:
        try:
            sys.exit(app(prog_name="rocelab", standalone_mode=False) or ExitCode.PASS)
        except NoArgsIsHelpError as asked:
            asked.show()
            sys.exit(ExitCode.USAGE)
        except MisusedCommand as misuse:
            raise _refused(misuse) from misuse
    except LabError as error:
        if "--debug" in _rocelabs(sys.argv[1:]):
            raise
        _tell(error)
        sys.exit(error.exit_code)


def _refused(misuse: MisusedCommand) -> UsageError:
    """Typer's error about a command line as rocelab's own, with what was probably meant as its remedy."""
    command = misuse.ctx.command_path if misuse.ctx is not None else "rocelab"
    said = misuse.format_message().rstrip(".")
    meant = _MEANT.search(said)
    said = said[: meant.start()] if meant else said
    found = re.findall(r"[\w-]+", meant["names"] or meant["options"]) if meant else []
    names = " or ".join(map(repr, get_close_matches(said.split()[-1], found, n=1) or found))
    remedy = f"did you mean {names}?" if meant else f"{command} --help lists what it takes"
    return UsageError(f"{command}: {said[:1].lower()}{said[1:]}", remedy)


def _rocelabs(words: list[str]) -> list[str]:
    """The words that are rocelab's, less those of a program that it is to run, which may have the same options."""
    ours = words[: words.index("--")] if "--" in words else words
    command = next((index for index, word in enumerate(ours) if not word.startswith("-")), len(ours))
    if ours[command : command + 1] == ["exec"] or ours[command : command + 2] == ["vm", "run"]:
        return ours[:command]
    return ours


def _tell(error: LabError) -> None:
    """One line for people; who asked for JSON gets that, too, where there is no answer or part of one."""
    if "--json" in _rocelabs(sys.argv[1:]) and not JsonStream.begun:
        print_json({"error": error.as_data()})
    print_error(error)
