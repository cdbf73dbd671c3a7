"""The fault engine: records faults of a running fabric in the ledger, injects them, and restores the state before."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lab.backends.adopted.adopted_lab import refuse_change
from lab.errors import LabError, OperationFailed, UsageError
from lab.faults.fault_request import FaultRequest, understand
from lab.faults.ledger import Entry, Holder, Ledger
from lab.faults.timing import attend as timed
from lab.kernel.netlink.interfaces import interfaces, no_interface
from lab.kernel.process import process, signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lab.backends.backend import Fabric
    from lab.faults.fault import Fault
    from lab.faults.timing import Timing
    from lab.kernel.process.locks import Waiting


def inject(
    fabric: Fabric, wish: FaultRequest, *, holder: Holder | None = None, waiting: Waiting | None = None
) -> Entry:
    """Inject a fault and return its ledger entry. On any failure the fabric is unchanged.

    With a ``holder`` the fault lasts no longer than that process. A command that holds the fabric is waited for, as
    in ``lifecycle.up``. Raises UsageError for an invalid request, a conflict with an existing fault, or an adopted
    lab.
    """
    refuse_change(fabric, "breaks")
    understand(fabric, wish)
    with fabric.state.locked(waiting):
        fabric = _still(fabric)
        ledger = Ledger.of(fabric.state)
        fault = understand(fabric, wish)
        _refuse_taken(fabric, ledger.entries(), fault)
        with _missing_ends_named(fabric, fault):
            before = fault.look()
            entry = Entry(
                number=0, kind=wish.kind, place=wish.place, parameters=wish.parameters, before=before, holder=holder
            )
            with signals.held():
                return _inject(fabric, ledger, entry)


def _inject(fabric: Fabric, ledger: Ledger, entry: Entry) -> Entry:
    entry = ledger.begin(entry)
    fault = fault_of(fabric, entry)
    try:
        fault.inject(entry.before)
    except BaseException:
        fault_of(replace(fabric), entry).heal(entry.before)  # a copy without cached state
        ledger.healed(entry)
        raise
    entry = ledger.injected(entry)
    if fault.instant:
        ledger.healed(entry)
    return entry


def attend(  # noqa: PLR0913 - what, when, and who is told
    fabric: Fabric,
    wish: FaultRequest,
    timing: Timing,
    wait: Callable[[float], bool],
    waiting: Waiting | None = None,
    *,
    changed: Callable[[str, Entry, int], None] = lambda _did, _entry, _ns: None,
) -> int:
    """Inject and heal a fault by its timing until ``wait`` returns False; return the number of injections.

    With a duration each injection is healed; without one the fault stays. ``changed`` is called after each injection,
    with the time in ns when it began, and after each healing, with that when it ended. Raises what ``inject`` does.
    """
    if understand(fabric, wish).instant and timing.lasting is not None:
        raise UsageError(f"{wish.kind} is over once it has happened", "leave --for out")
    holder = Holder.current()
    with fabric.state.locked(waiting):
        there = Ledger.of(_still(fabric).state)
        own = there.begin(
            Entry(
                number=0,
                kind=wish.kind,
                place=wish.place,
                parameters=wish.parameters,
                holder=holder,
                timing=str(timing),
            )
        )
    came: list[Entry] = []

    def begin() -> None:
        began = time.monotonic_ns()
        came.append(inject(fabric, wish, holder=holder if timing.lasting is not None else None, waiting=waiting))
        changed("inject", came[-1], began)

    def end() -> None:
        _end(fabric, came[-1], waiting)
        changed("heal", came[-1], time.monotonic_ns())

    try:
        timed(timing, begin, end, wait)
    finally:
        if fabric.state.exists():
            with fabric.state.locked(waiting):
                there.healed(own)
    return len(came)


def _end(fabric: Fabric, entry: Entry, waiting: Waiting | None) -> None:
    """Heal the fault, unless another process has done so."""
    if any(each.number == entry.number for each in running(fabric)):
        heal(fabric, [entry.number], waiting)


def heal(fabric: Fabric, numbers: Iterable[int] | None = None, waiting: Waiting | None = None) -> list[Entry]:
    """Heal the faults with these numbers, or all, in reverse order, and return them.

    Raises UsageError for an unknown number. If one fault cannot be healed, the others still are; the error is raised
    at the end.
    """
    there = running(fabric)
    chosen = list(there) if numbers is None else [_numbered(there, number) for number in numbers]
    _dismiss(chosen)
    with fabric.state.locked(waiting):
        fabric = _still(fabric)
        left = {entry.number for entry in running(fabric)}
        _heal(fabric, Ledger.of(fabric.state), [entry for entry in chosen if entry.number in left])
    return chosen


def _dismiss(entries: Iterable[Entry]) -> None:
    """Stop the processes that run timed faults. They heal their active faults when they are stopped."""
    for entry in entries:
        if entry.timing and entry.holder is not None and entry.holder.pid != os.getpid():
            process.dismiss(entry.holder.pid, meant=lambda _, holder=entry.holder: holder.lives)  # type: ignore[misc]


def abandoned(fabric: Fabric) -> list[Entry]:
    """Return faults whose holder is gone, or whose injection or healing was interrupted."""
    entries = Ledger.of(fabric.state).entries()
    return [entry for entry in entries if not (entry.whole if entry.holder is None else entry.holder.lives)]


def heal_abandoned(fabric: Fabric, waiting: Waiting | None = None) -> list[Entry]:
    """Heal abandoned faults. The next command on the fabric calls this."""
    if not abandoned(fabric):
        return []
    with fabric.state.locked(waiting):
        fabric = _still(fabric)
        left = abandoned(fabric)
        _heal(fabric, Ledger.of(fabric.state), left)
        return [entry for entry in left if not entry.timing]


def running(fabric: Fabric) -> tuple[Entry, ...]:
    """Return the active faults."""
    return Ledger.of(fabric.state).entries()


def _still(fabric: Fabric) -> Fabric:
    """Return the fabric with the changes of earlier commands. Raises UsageError if it was taken down."""
    if not fabric.state.ready:
        raise UsageError(f"fabric {fabric.name} was taken down", "rocelab ls lists what runs")
    return replace(fabric)


def _heal(fabric: Fabric, ledger: Ledger, entries: Sequence[Entry]) -> list[Entry]:
    healed, failures = [], list[LabError]()
    for entry in sorted(entries, key=lambda each: -each.number):
        try:
            with signals.held():
                if not entry.timing:
                    fault_of(fabric, entry).heal(entry.before)
                ledger.healed(entry)
        except LabError as error:
            failures.append(error)
        else:
            healed.append(entry)
        fabric = replace(fabric)
    if failures:
        first = failures[0]
        raise OperationFailed(f"a fault is not all healed: {first.message}", first.remedy or "rocelab fault heal")
    return healed


def _numbered(entries: Sequence[Entry], number: int) -> Entry:
    for entry in entries:
        if entry.number == number:
            return entry
    known = ", ".join(f"{entry.number} ({entry})" for entry in entries)
    raise UsageError(f"there is no fault {number}", f"there is {known}" if known else "no fault is injected")


def fault_of(fabric: Fabric, entry: Entry) -> Fault[Any]:
    """Return the fault of a ledger entry."""
    return understand(fabric, FaultRequest(entry.kind, entry.place, entry.parameters))


@contextmanager
def _missing_ends_named(fabric: Fabric, wanted: Fault[Any]) -> Iterator[None]:
    """Name the interfaces of the fault's place that its nodes have lost, if the block fails."""
    try:
        yield
    except OperationFailed as error:
        cables = (end for link in fabric.topology.links_of(wanted.place.node) for end in link.ends)
        for end in wanted.place.ends or [each for each in cables if each.node == wanted.place.node]:
            known: Iterable[str] = [end.interface]
            with suppress(LabError):  # its namespace is gone, too
                known = interfaces(fabric.namespace(end.node))
            if end.interface not in known:
                raise no_interface(f"{wanted}: {end.node}", end.interface) from error
        raise


def _refuse_taken(fabric: Fabric, entries: Iterable[Entry], wanted: Fault[Any]) -> None:
    claims = wanted.claims()
    for entry in entries:
        if entry.timing:
            continue
        common = sorted(claims & fault_of(fabric, entry).claims())
        if common:
            raise UsageError(
                f"{wanted}: fault {entry.number}, {entry}, has {common[0]} already",
                f"rocelab fault heal {entry.number} first",
            )
