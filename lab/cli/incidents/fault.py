"""``rocelab fault``: inject faults into a running fabric, list them, and heal them."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.cli.command_line import running_line
from lab.cli.kit import recorded_command
from lab.cli.kit.complete import FabricOption, node_names
from lab.cli.kit.interrupt import ends_on_signals
from lab.cli.kit.open_fabric import open_fabric, tell
from lab.cli.kit.option_value import read_value
from lab.cli.kit.output import JsonFlag, print_json, stderr, stdout, table
from lab.errors import UsageError
from lab.faults import fault_engine, helper_process
from lab.faults.catalogue import KINDS
from lab.faults.fault_request import FaultRequest, find_kind, parse_words, understand
from lab.faults.parameters import listed
from lab.faults.timing import Timing
from lab.scenario.challenges.challenge_record import lasting, refuse_another, visible
from lab.units import counted, parse_time

if TYPE_CHECKING:
    from lab.backends.backend import Fabric
    from lab.faults.fault import Fault
    from lab.faults.ledger import Entry

app = typer.Typer(no_args_is_help=True, help="Inject faults into a running fabric, and remove them.")


def kind_names() -> list[str]:
    """Complete the kinds of faults."""
    return list(KINDS)


@app.command("ls")
def list_(
    kinds: Annotated[bool, typer.Option("--kinds", help="List the kinds of faults instead.")] = False,
    fabric: FabricOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List the injected faults of a running fabric. Faults that scenario break hides are not listed."""
    if kinds:
        _list_kinds(as_json)
        return
    running = open_fabric(fabric)
    found = visible(running.state, fault_engine.running(running))
    if as_json:
        print_json([_facts(entry) for entry in found])
        return
    rows = [(entry.number, entry.kind, entry.place, _written(entry.parameters), _state(entry)) for entry in found]
    stdout.print(table(f"faults of {running.name}", ("number", "kind", "place", "parameters", "state"), rows))


def _list_kinds(as_json: bool) -> None:
    if as_json:
        print_json([_described(kind) for kind in KINDS.values()])
    else:
        rows = [(name, kind.form.name.lower(), kind.summary()) for name, kind in KINDS.items()]
        stdout.print(table("kinds of faults", ("kind", "place", "what happens"), rows))


@app.command()
def show(
    kind: Annotated[
        str, typer.Argument(help="A kind that rocelab fault ls --kinds lists.", autocompletion=kind_names)
    ],
    as_json: JsonFlag = False,
) -> None:
    """Show what a kind of fault does, its possible locations, and its parameters."""
    described = _described(find_kind(kind))
    if as_json:
        print_json(described)
        return
    stdout.print(f"{described['kind']}\n", style="bold cyan", highlight=False)
    stdout.print(described["meaning"], markup=False, highlight=False)
    stdout.print(f"\nplace: {described['place']}", markup=False, highlight=False)
    rows = [(each["name"], each["default"], each["meaning"]) for each in described["parameters"]]
    if rows:
        stdout.print(table("parameters", ("name", "default", "meaning"), rows))


@app.command()
def inject(
    kind: Annotated[
        str, typer.Argument(help="A kind that rocelab fault ls --kinds lists.", autocompletion=kind_names)
    ],
    place: Annotated[
        str, typer.Argument(help="Location: leaf1:swp1, leaf1--spine1, h1, ...", autocompletion=node_names)
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=VALUE]...", help="Parameters as NAME=VALUE; see rocelab fault show KIND."),
    ] = None,
    after: Annotated[str, typer.Option(metavar="TIME", help="Wait this long before the fault starts.")] = "0s",
    lasting: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="Remove the fault after this time.")
    ] = None,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Repeat the fault at this interval; needs --for.")
    ] = None,
    times: Annotated[
        int | None, typer.Option(help="Number of repetitions with --every. \\[default: until Ctrl-C]")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="With --every: random intervals with that mean; the same seed gives the same intervals."),
    ] = None,
    background: Annotated[bool, typer.Option("--background", help="Run the timed fault in the background.")] = False,
    fabric: FabricOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Inject a fault. It lasts until rocelab fault heal, or for the time of --for; Ctrl-C removes it.

    A link that flaps:  [bold]fault inject link-down leaf1:swp1 --every 2s --for 500ms --times 10[/]

    A NIC that pauses its leaf:  [bold]fault inject pause-storm h4[/]

    A leaf that marks late:  [bold]fault inject port-config leaf1 set=ecn.3.kmin=43KB[/]
    """
    running = open_fabric(fabric)
    refuse_another(running.state)
    wish = FaultRequest(kind, place, parse_words(words or []))
    timing = Timing(
        after=_seconds("--after", after) or 0.0,
        lasting=_seconds("--for", lasting),
        every=_seconds("--every", every),
        times=times,
        seed=seed,
    )
    understand(running, wish)
    if background and not timing.attended:
        raise UsageError("--background needs --after or --for", "add one of them, or omit --background")
    if background:
        _leave_running(running)
        stderr.print(f"{wish}, {timing}: rocelab fault ls shows its number", markup=False, highlight=False)
    elif timing.attended:
        _attend(running, wish, timing, as_json)
    else:
        began = time.monotonic_ns()
        entry = fault_engine.inject(running, wish, waiting=tell)
        _record(running, "inject", entry, began)
        _tell(entry, as_json)


def _seconds(option: str, text: str | None) -> float | None:
    return None if text is None else read_value(option, text, parse_time)


def _attend(running: Fabric, wish: FaultRequest, timing: Timing, as_json: bool) -> None:
    ended = threading.Event()

    def wait(seconds: float) -> bool:
        return not ended.wait(seconds) and running.state.exists()

    with ends_on_signals(ended.set):
        came = fault_engine.attend(running, wish, timing, wait, tell, changed=partial(_record, running))
    if as_json:
        print_json({"kind": wish.kind, "place": wish.place, "came": came, "interrupted": ended.is_set()})
    else:
        stderr.print(f"{wish} came {counted(came, 'time')}", markup=False, highlight=False)


def _leave_running(running: Fabric) -> None:
    """Start the same command again as a background process, without ``--background``."""
    helper_process.leave(running, [word for word in running_line().arguments if word != "--background"])


def _tell(entry: Entry, as_json: bool) -> None:
    if as_json:
        print_json(_facts(entry))
    elif find_kind(entry.kind).instant:
        stderr.print(f"{entry}: done", markup=False, highlight=False)
    else:
        stderr.print(
            f"fault {entry.number}: {entry}; rocelab fault heal {entry.number} removes it",
            markup=False,
            highlight=False,
        )


@app.command()
def heal(
    numbers: Annotated[
        list[int] | None, typer.Argument(metavar="[NUMBER]...", help="Numbers that rocelab fault ls lists.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Remove all faults.")] = False,
    fabric: FabricOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Remove faults and restore the previous state, the last fault first."""
    if every == bool(numbers):
        raise UsageError("heal takes numbers, or --all", "rocelab fault ls lists the numbers")
    running = open_fabric(fabric)
    healed = fault_engine.heal(running, _healable(running, None if every else numbers), tell)
    for entry in healed:
        _record(running, "heal", entry, time.monotonic_ns())
    if as_json:
        print_json([_facts(entry) for entry in healed])
    else:
        stderr.print(f"{counted(len(healed), 'fault')} healed", markup=False, highlight=False)


def _healable(running: Fabric, numbers: list[int] | None) -> list[int] | None:
    """Return the faults to heal; during a challenge, its hidden faults are excluded.

    UsageError for the number of a hidden fault, so that it reveals neither number nor kind.
    """
    if lasting(running.state) is None:
        return numbers
    known = [entry.number for entry in visible(running.state, fault_engine.running(running))]
    for number in numbers or ():
        if number not in known:
            raise UsageError(
                f"there is no fault {number} that you have injected", "rocelab scenario fix ends a challenge"
            )
    return known if numbers is None else numbers


def _record(running: Fabric, did: str, entry: Entry, ns: int) -> None:
    """Write to the active recordings when the injection of a fault began, or its healing ended."""
    if not entry.timing:
        parameters = {name: str(value) for name, value in entry.parameters.items()}
        recorded_command.injected(running.state, ns, did, entry.kind, entry.place, parameters)


def _facts(entry: Entry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "kind": entry.kind,
        "place": entry.place,
        "parameters": {name: str(value) for name, value in entry.parameters.items()},
        "whole": entry.whole,
        "timing": entry.timing,
        "pid": entry.holder.pid if entry.holder else None,
    }


def _state(entry: Entry) -> str:
    if entry.timing:
        return f"comes and goes: {entry.timing}"
    return "there" if entry.whole else "half there"


def _written(parameters: Any) -> str:
    return " ".join(f"{name}={value}" for name, value in parameters.items())


def _described(kind: type[Fault[Any]]) -> dict[str, Any]:
    return {
        "kind": kind.name,
        "place": kind.form.value,
        "meaning": "\n".join(line.removeprefix("    ") for line in (kind.__doc__ or "").strip().splitlines()),
        "instant": kind.instant,
        "parameters": listed(kind.parameters),
    }
