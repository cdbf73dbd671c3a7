"""The columns of ``rocelab dissect --columns``: one line for each packet with the selected fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from lab.errors import UsageError
from lab.model.values.suggest import suggest
from lab.terminal_text import printable
from lab.wire.opcodes import opcode_name
from lab.wire.summary import ECN_NAMES, describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lab.wire.frame import DecodedFrame

Cell = str | int | float | bool | None


class Shown(NamedTuple):
    """A packet with its place and time; ``rate`` is the link's rate in bit/s, if the file contains it."""

    number: int
    time: str
    interface: str
    direction: str
    rate: int | None
    frame: DecodedFrame

    @property
    def layer(self) -> DecodedFrame:
        """The innermost frame of a tunnelled packet, otherwise the frame itself."""
        found = self.frame
        while found.inner is not None:
            found = found.inner
        return found


class _Column(NamedTuple):
    width: int
    of: Callable[[Shown], Cell]


COLUMNS: Final[dict[str, _Column]] = {
    "number": _Column(6, lambda seen: seen.number),
    "time": _Column(13, lambda seen: seen.time),
    "interface": _Column(12, lambda seen: seen.interface),
    "direction": _Column(3, lambda seen: seen.direction),
    "src": _Column(15, lambda seen: seen.layer.src),
    "dst": _Column(15, lambda seen: seen.layer.dst),
    "protocol": _Column(8, lambda seen: seen.layer.protocol),
    "opcode": _Column(24, lambda seen: None if seen.layer.bth is None else opcode_name(seen.layer.bth.opcode)),
    "qpn": _Column(8, lambda seen: None if seen.layer.bth is None else f"{seen.layer.bth.destqp:#08x}"),
    "psn": _Column(8, lambda seen: None if seen.layer.bth is None else seen.layer.bth.psn),
    "ackreq": _Column(6, lambda seen: None if seen.layer.bth is None else int(seen.layer.bth.ackreq)),
    "answer": _Column(24, lambda seen: None if seen.layer.aeth is None else str(seen.layer.aeth.syndrome)),
    "msn": _Column(8, lambda seen: None if seen.layer.aeth is None else seen.layer.aeth.msn),
    "payload": _Column(7, lambda seen: seen.layer.payload),
    "length": _Column(6, lambda seen: seen.frame.length),
    "sport": _Column(5, lambda seen: seen.layer.sport),
    "dport": _Column(5, lambda seen: seen.layer.dport),
    "dscp": _Column(4, lambda seen: seen.layer.dscp),
    "ecn": _Column(7, lambda seen: None if seen.layer.ecn is None else ECN_NAMES[seen.layer.ecn]),
    "ttl": _Column(3, lambda seen: seen.frame.ttl),
    "vlan": _Column(4, lambda seen: seen.frame.vlan),
    "pcp": _Column(3, lambda seen: seen.frame.pcp),
    "vni": _Column(8, lambda seen: seen.frame.vni),
    "icrc": _Column(7, lambda seen: None if seen.layer.icrc is None else seen.layer.icrc.value.lower()),
    "info": _Column(1, lambda seen: describe(seen.frame, seen.rate)),
}
"""The columns by name: minimum width and value. In tunnels, ``ttl``, ``vlan``, ``pcp`` and ``vni`` are outer."""


def parse_columns(text: str) -> tuple[str, ...]:
    """Parse column names separated by commas; UsageError for an unknown name."""
    names = tuple(name.strip() for name in text.lower().split(","))
    for name in names:
        if name not in COLUMNS:
            remedy = suggest(name, COLUMNS, f"choose of {','.join(COLUMNS)}")
            raise UsageError(f"--columns: there is no column {name!r}", remedy)
    return names


def head(names: Iterable[str]) -> str:
    """Return the header line."""
    return _line((name, name) for name in names)


def row(names: Iterable[str], seen: Shown) -> str:
    """Return the line of a packet."""
    return _line((name, COLUMNS[name].of(seen)) for name in names)


def cells(names: Iterable[str], seen: Shown) -> dict[str, Cell]:
    """Return the cells of a packet for JSON."""
    return {name: COLUMNS[name].of(seen) for name in names}


def _line(pairs: Iterable[tuple[str, Cell]]) -> str:
    """Return the cells as a line; numbers and their heads are right-aligned."""
    parts = []
    for name, cell in pairs:
        text, width = printable("" if cell is None else str(cell)), COLUMNS[name].width
        parts.append(f"{text:>{width}}" if name in _RIGHT else f"{text:<{width}}")
    return "  ".join(parts).rstrip() + "\n"


_RIGHT: Final = frozenset(
    (
        "number",
        "time",
        "psn",
        "ackreq",
        "msn",
        "payload",
        "length",
        "sport",
        "dport",
        "dscp",
        "ttl",
        "vlan",
        "pcp",
        "vni",
    )
)
