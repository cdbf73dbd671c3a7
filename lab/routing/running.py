"""What a router is configured with while it runs, and the way back to it from what it has become.

FRR writes its running configuration with a space for each level below a context: ``router bgp``, ``address-family``.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Final, TypeAlias

from lab.errors import OperationFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lab.routing.daemons import Router

Line: TypeAlias = tuple[str, ...]
"""A line of configuration behind the contexts that it is in."""
_SHOW: Final = "show running-config no-header"
_LEAVES: Final = ("exit", "end")
_UNKNOWN: Final = "Unknown command"
_SILENT: Final = ("!", "Building", "Current")


def running(router: Router) -> list[Line]:
    """The running configuration of all its daemons; OperationFailed when vtysh does not answer."""
    done = router.ask(_SHOW)
    if done.returncode:
        raise OperationFailed(f"{router.name}: vtysh does not answer", "is its daemon running? rocelab status")
    return parse(done.stdout)


def parse(text: str) -> list[Line]:
    """The lines of ``show running-config``, contexts among them, in their order."""
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
    """What to type, each line behind its contexts, so that ``now`` becomes ``before``."""
    missing = [line for line in before if line not in now]
    surplus = [line for line in now if line not in before]
    whole = set(surplus)
    for line in surplus:
        if line[:-1] not in whole:  # with its context it goes too
            yield (*line[:-1], _negated(line[-1]))
    yield from missing


def apply(router: Router, lines: Iterable[Line]) -> None:
    """Type lines, each in its contexts; OperationFailed with the first that is not taken."""
    words = [word for line in lines for word in ("configure terminal", *line, "end")]
    if not words:
        return
    done = router.ask(*words)
    said = " ".join((done.stdout + done.stderr).split())
    if done.returncode or said.startswith("%"):
        raise OperationFailed(f"{router.name}: FRR does not take the lines: {said or 'vtysh says nothing'}")


def restore(router: Router, before: Sequence[Line]) -> None:
    """Have the router be configured as ``before``; OperationFailed names a line that stays different."""
    lines = list(way_back(running(router), before))
    kept = [line for line in lines if line in before]
    for line in lines:
        if line not in kept:
            _withdraw(router, line)
    apply(router, kept)
    for line in way_back(running(router), before):
        raise OperationFailed(f"{router.name}: {' / '.join(line)} is not to be had", f"rocelab vtysh {router.name}")


def _withdraw(router: Router, line: Line) -> None:
    """Type a line that takes another one back; some daemons know it only without its last word, the value.

    ospfd of FRR takes ``no maximum-paths``, and not ``no maximum-paths 1``.
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
