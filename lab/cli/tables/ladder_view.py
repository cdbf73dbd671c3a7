"""``rocelab analyze --qp``: one connection as a ladder between two columns of hosts."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from lab.cli.kit.output import stdout
from lab.errors import UsageError
from lab.units import counted, format_size

if TYPE_CHECKING:
    from lab.analysis.flows.qp_connections import Connection
    from lab.analysis.results.analysis_facts import AnalysisFacts
    from lab.analysis.views.ladder import Ladder, Rung

_RUNGS: Final = 200
"""Lines that are printed; JSON has all of them."""
_TIME: Final = 13
_LEAST: Final = 60
"""Smallest width in characters."""
_MOST: Final = 100
_GREATEST: Final = 2**24 - 1


def parse_qp(text: str, option: str = "--qp ") -> tuple[int, str | None]:
    """Parse ``0x11``, or ``0x11@10.0.0.5`` if several hosts use that number."""
    number, _, host = text.partition("@")
    try:
        qp = int(number, 0)
    except ValueError as error:
        raise UsageError(f"{option}{text}: {number!r} is no queue pair", "write 0x11, or 0x11@10.0.0.5") from error
    if not 0 <= qp <= _GREATEST:
        raise UsageError(f"{option}{text}: a queue pair is from 0 to {_GREATEST:#x}", "write 0x11, or 0x11@10.0.0.5")
    return qp, host or None


def the_connection(facts: AnalysisFacts, text: str, option: str = "--qp ") -> Connection:
    """Return the connection with the queue pair ``text``; UsageError if there is none, or more than one."""
    from lab.analysis.flows.qp_connections import connections  # noqa: PLC0415 - needed only for a ladder

    qp, host = parse_qp(text, option)
    found = connections(facts, qp, host)
    if not found:
        there = sorted({f"{flow.qp:#x}" for flow in facts.flows})
        some = ", ".join(there[:8]) + (", ..." if len(there) > 8 else "")
        raise UsageError(f"{option}{text}: no such queue pair in {facts.file}", f"there is {some or 'none'}")
    if len(found) > 1:
        told = "; ".join(map(str, found[:4]))
        raise UsageError(
            f"{option}{text} is in {len(found)} connections: {told}",
            f"name the host too, like {option}{qp:#x}@{found[0].right.host}",
        )
    return found[0]


def as_data(told: Ladder) -> dict[str, Any]:
    """Return the ladder for ``--json``."""
    return asdict(told)


def draw(told: Ladder) -> None:
    """Print the ladder in the width of the terminal."""
    width = max(_LEAST, min(_MOST, stdout.width)) - _TIME
    left, right = str(told.connection.left), str(told.connection.right)
    room = width - len(left)
    _line(f"{'at s':>{_TIME - 2}}  {left}{right:>{room}}" if room > len(right) else f"{left} and {right}")
    for rung in told.rungs[:_RUNGS]:
        _line(f"{rung.time:>{_TIME - 2}.6f}  {_arrow(rung, width)}")
    more = len(told.rungs) + told.more - _RUNGS
    if more > 0:
        kept = "--json has all" if not told.more else f"--json has {len(told.rungs)}"
        _line(f"... and {counted(more, 'more rung')}; {kept}, or choose by --filter, like 'psn in 40..60'")
    of = told.connection
    where = of.there if of.there == of.back else f"{of.there}, and {of.back} on the way back"
    _line(f"as seen at {where}; pauses at {', '.join(of.links)}")


def _arrow(rung: Rung, width: int) -> str:
    text = _text(rung)
    if rung.there is None:
        return f"|{f' {text} ':·^{width - 2}}|"
    inside = width - 4
    if rung.there:
        return f"|{f'- {text} ':-<{inside}}->|"
    return f"|<-{f' {text} -':->{inside}}|"


def _text(rung: Rung) -> str:
    if rung.there is None:
        what = "all classes" if rung.priority is None else f"priority {rung.priority}"
        return f"{_times(rung)}{rung.kind} {what} {_whose(rung)}"
    parts = [f"{_times(rung)}{rung.kind}" if rung.kind not in {"request", "response"} else rung.what]
    if rung.psn is not None:
        parts.append(f"PSN {rung.psn}" if rung.last == rung.psn else f"PSN {rung.psn}..{rung.last}")
    if rung.kind in {"request", "response"}:
        parts.append(f"({format_size(rung.bytes)})" if rung.bytes else "")
        parts += ["again"] * rung.again
        parts += [f"{rung.missing} missing before"] * bool(rung.missing)
    elif rung.what:
        parts.append(rung.what)
    parts += [f"{rung.marked} CE" if rung.packets > 1 else "CE"] * bool(rung.marked)
    return " ".join(part for part in parts if part)


def _times(rung: Rung) -> str:
    return f"{rung.packets} x " if rung.packets > 1 else ""


def _whose(rung: Rung) -> str:
    if rung.direction == "in":
        return f"stops {rung.link}"
    return f"sent by {rung.link}" if rung.direction else f"at {rung.link}"


def _line(text: str) -> None:
    stdout.print(text, markup=False, highlight=False, soft_wrap=True)
