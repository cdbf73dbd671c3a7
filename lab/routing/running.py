"""Read the running configuration of a router, and restore an earlier one.

FRR indents its running configuration by one space for each context: ``router bgp``, ``address-family``.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Final, TypeAlias

from lab.errors import OperationFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lab.routing.daemons import Router

Line: TypeAlias = tuple[str, ...]
"""A line of configuration, preceded by its contexts."""
_SHOW: Final = "show running-config no-header"
_LEAVES: Final = ("exit", "end")
_UNKNOWN: Final = "Unknown command"
_SILENT: Final = ("!", "Building", "Current")


def running(router: Router) -> list[Line]:
    """Return the running configuration of all daemons; raise OperationFailed if vtysh does not answer."""
    done = router.ask(_SHOW)
    if done.returncode:
        raise OperationFailed(f"{router.name}: vtysh does not answer", "is its daemon running? rocelab status")
    return parse(done.stdout)


def parse(text: str) -> list[Line]:
    """Return the lines of ``show running-config`` in their order, including contexts."""
    found: list[Line] = []
    above: list[str] = []
    for written in text.splitlines():
        line = written.strip()
        if line and not line.startswith(_SILENT) and line.split("-")[0] not in _LEAVES:
            depth = sum(1 for _ in takewhile(str.isspace, written))
            above[depth:] = [line]
            found.append(tuple(above))
    return found


def way_back(now: Sequence[Line], before: Sequence[Line]) -> Iterator[Line]:
    """Yield the lines that turn ``now`` into ``before``, each preceded by its contexts."""
    missing = [line for line in before if line not in now]
    surplus = [line for line in now if line not in before]
    whole = set(surplus)
    for line in surplus:
        if line[:-1] not in whole:  # removing its context removes it
            yield (*line[:-1], _negated(line[-1]))
    yield from missing


def apply(router: Router, lines: Iterable[Line]) -> None:
    """Enter lines in their contexts; raise OperationFailed if a line is rejected."""
    words = [word for line in lines for word in ("configure terminal", *line, "end")]
    if not words:
        return
    done = router.ask(*words)
    said = " ".join((done.stdout + done.stderr).split())
    if done.returncode or said.startswith("%"):
        raise OperationFailed(f"{router.name}: FRR does not take the lines: {said or 'vtysh says nothing'}")


def restore(router: Router, before: Sequence[Line]) -> None:
    """Restore the configuration ``before``; raise OperationFailed with a line that still differs."""
    lines = list(way_back(running(router), before))
    kept = [line for line in lines if line in before]
    for line in lines:
        if line not in kept:
            _withdraw(router, line)
    apply(router, kept)
    for line in way_back(running(router), before):
        raise OperationFailed(f"{router.name}: {' / '.join(line)} is not to be had", f"rocelab vtysh {router.name}")


def _withdraw(router: Router, line: Line) -> None:
    """Enter a line that negates another one, without its last word (the value) if the daemon does not know it.

    FRR's ospfd accepts ``no maximum-paths``, but not ``no maximum-paths 1``.
    """
    try:
        apply(router, [line])
    except OperationFailed as error:
        shorter = line[-1].rpartition(" ")[0]
        if _UNKNOWN not in error.message or " " not in shorter:
            raise
        apply(router, [(*line[:-1], shorter)])


def _negated(line: str) -> str:
    return line.removeprefix("no ") if line.startswith("no ") else f"no {line}"
