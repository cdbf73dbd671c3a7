"""``rocelab drift``: compare a running fabric with its plan, or two moments of a recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.kit.complete import FabricOption, run_names
from lab.cli.kit.option_value import read_optional_seconds
from lab.cli.kit.output import JsonFlag, print_json, stdout, table
from lab.cli.kit.run_name import folder_of
from lab.errors import ExitCode, UsageError
from lab.model.hosts import unknown_node
from lab.units import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from lab.audit.difference import Difference
    from lab.backends.fabric_state import FabricState

_NS = 10**9
_TOLERANCE = 0.05
"""Seconds: half of the last digit that is shown."""
_NAMED = 3
"""Objects of one row of the table that are listed by name."""


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The differences of two states, and what the states are."""

    fabric: str
    against: str
    now: str
    nodes: Collection[str]
    differences: list[Difference]


def drift(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]",
            help="A recording: its directory, or its name. \\[default: the running fabric]",
            autocompletion=run_names,
        ),
    ] = None,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="The earlier moment of the recording.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="The later moment of the recording.")
    ] = None,
    node: Annotated[list[str] | None, typer.Option(help="Only this node; repeatable.")] = None,
    fabric: FabricOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare a running fabric with its plan: the state that rocelab built, or that a lab had when it was adopted.

    It compares all settings of all nodes: interfaces, addresses, routes, rules, sysctls, qdiscs, filters, FRR's
    configuration and sessions, ports, RDMA devices. rocelab drift RUN compares two moments of a recording, by default
    its beginning and its end. Exit code 0 if nothing differs, 1 if something does.
    """
    if run is None and (begin is not None or end is not None):
        raise UsageError("--from and --to need a recording", "rocelab drift RUN --from 0 --to 10")
    if run is not None and fabric is not None:
        raise UsageError("a recording and a fabric are both named", "name one of them")
    found = (
        _of_a_fabric(fabric)
        if run is None
        else _of_a_run(run, read_optional_seconds("--from", begin), read_optional_seconds("--to", end))
    )
    for name in node or ():
        if name not in found.nodes:
            raise unknown_node(name, found.nodes)
    differences = [each for each in found.differences if not node or each.node in node]
    if as_json:
        print_json(
            {
                "fabric": found.fabric,
                "against": found.against,
                "now": found.now,
                "drift": bool(differences),
                "differences": differences,
            }
        )
    else:
        _show(found, differences)
    raise typer.Exit(ExitCode.FAIL if differences else ExitCode.PASS)


def _refuse_in_challenge(state: FabricState) -> None:
    if state.challenge.exists():
        raise UsageError(
            f"a challenge hides a fault in {state.name}, which its plan would show",
            "find it with diagnose and the usual commands, or end it: rocelab scenario fix",
        )


def _of_a_fabric(name: str | None) -> _Comparison:
    from lab.audit.baseline import load_baseline  # noqa: PLC0415 - only what is asked for
    from lab.audit.difference import PLAN, compare  # noqa: PLC0415
    from lab.audit.reader import audit  # noqa: PLC0415
    from lab.backends.fabric_state import find_fabric  # noqa: PLC0415
    from lab.cli.kit.open_fabric import reading  # noqa: PLC0415

    _refuse_in_challenge(find_fabric(name))  # for all users, also without root
    with reading(name) as fabric:
        _refuse_in_challenge(fabric.state)
        plan = load_baseline(fabric)
        return _Comparison(
            fabric=fabric.name,
            against=PLAN,
            now="now",
            nodes=plan.nodes.keys(),
            differences=compare(audit(fabric), plan),
        )


def _of_a_run(run: str, begin: float | None, end: float | None) -> _Comparison:
    from lab.audit.difference import compare  # noqa: PLC0415 - see _of_a_fabric
    from lab.telemetry.read.audits import read_audits  # noqa: PLC0415
    from lab.telemetry.read.recording import Recording  # noqa: PLC0415 - NumPy

    recording = Recording.open(folder_of(run))
    moments = read_audits(recording.folder)
    if not moments:
        raise UsageError(
            f"{recording.name} has no settings of nodes", "rocelab record start records them; scenarios do not"
        )
    seconds = [(moment.ns - recording.clock.start) / _NS for moment in moments]
    earlier = 0 if begin is None else _at(begin, seconds, recording.name)
    later = len(moments) - 1 if end is None else _at(end, seconds, recording.name)
    begins, ends = (f"{max(0.0, seconds[number]):.1f} s" for number in (earlier, later))
    now, then = moments[later].state, moments[earlier].state
    return _Comparison(
        fabric=then.fabric, against=begins, now=ends, nodes=then.nodes.keys(), differences=compare(now, then, begins)
    )


def _at(wanted: float, seconds: Sequence[float], name: str) -> int:
    """Return the last moment that is not after ``wanted`` seconds. UsageError if there is none."""
    found = [number for number, each in enumerate(seconds) if each <= wanted + _TOLERANCE]
    if not found:
        known = ", ".join(f"{max(0.0, each):.1f}" for each in seconds)
        raise UsageError(f"{name} has no settings of nodes at {wanted:g} s", f"it has them at {known} s")
    return found[-1]


def _show(found: _Comparison, differences: Sequence[Difference]) -> None:
    if not differences:
        _say(f"{found.fabric}: no difference between {found.against} and {found.now}")
        return
    nodes = {each.node for each in differences}
    _say(f"{found.fabric}: {counted(len(differences), 'difference')} on {counted(len(nodes), 'node')}")
    heads = ("node", "object", "setting", found.against, found.now)
    stdout.print(table("differences", heads, list(_rows(differences))))


def _rows(differences: Sequence[Difference]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table: objects of a kind with the same change on a node share a row."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for each in differences:
        change = (each.node, each.kind, each.field, each.expected, each.value)
        groups.setdefault(change, []).append(each.object)
    for (node, _, setting, expected, value), objects in groups.items():
        more = len(objects) - _NAMED
        named = ", ".join(objects[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        yield node, named, setting, expected, value


def _say(line: str) -> None:
    stdout.print(line, markup=False, highlight=False, soft_wrap=True)
