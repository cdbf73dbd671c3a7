"""Output of SONiC's ``show`` commands for an emulated switch, in SONiC's format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.model.qos.port import CLASSES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

EMULATED: Final = "Emulated by rocelab"
"""The first line of every answer."""


def pfc_counters(counted: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """``show pfc counters``: received and sent PFC frames that pause."""
    for way, heading in (("rx", "Port Rx"), ("tx", "Port Tx")):
        heads = [heading, *(f"PFC{number}" for number in range(CLASSES))]
        rows = [
            [port, *(f"{values[f'{way}_prio{number}_pause']:,}" for number in range(CLASSES))]
            for port, values in counted.items()
        ]
        yield from _table(heads, rows)
        yield ""


def group_watermark_shared(counted: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """``show priority-group watermark shared``: peak buffer bytes, without headroom."""
    yield "Ingress shared pool occupancy per PG:"
    yield from _per_class(counted, "PG", "pg{}_watermark_bytes")


def group_watermark_headroom(counted: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """``show priority-group watermark headroom``: peak headroom bytes."""
    yield "Ingress headroom per PG:"
    yield from _per_class(counted, "PG", "pg{}_headroom_watermark_bytes")


def queue_watermark(counted: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """``show queue watermark unicast``: peak queue depth in bytes."""
    yield "Egress shared pool occupancy per unicast queue:"
    yield from _per_class(counted, "UC", "queue{}_watermark_bytes")


def queue_counters(counted: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """``show queue counters``: packets that each queue sent, and dropped for any reason."""
    heads = ["Port", "TxQ", "Counter/pkts", "Counter/bytes", "Drop/pkts", "Drop/bytes"]
    for port, values in counted.items():
        rows = []
        for number in range(CLASSES):
            drops = [_dropped(values, number, unit) for unit in ("packets", "bytes")]
            sent = [values[f"queue{number}_{unit}"] for unit in ("packets", "bytes")]
            rows.append([port, f"UC{number}", *(f"{value:,}" for value in (*sent, *drops))])
        yield from _table(heads, rows)
        yield ""


def _dropped(values: Mapping[str, int], number: int, unit: str) -> int:
    return sum(
        value
        for name, value in values.items()
        if name.startswith(f"queue{number}_drop_") and name.endswith(f"_{unit}")
    )


def _per_class(counted: Mapping[str, Mapping[str, int]], head: str, name: str) -> Iterator[str]:
    heads = ["Port", *(f"{head}{number}" for number in range(CLASSES))]
    yield from _table(
        heads,
        [[port, *(str(values[name.format(each)]) for each in range(CLASSES))] for port, values in counted.items()],
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Return a table like Python's tabulate in the format "simple", which SONiC uses; cells are right-aligned."""
    wide = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for cells in (heads, ["-" * width for width in wide], *rows):
        yield "  ".join(cell.rjust(width) for cell, width in zip(cells, wide, strict=True))


SHOW: Final[Mapping[str, Callable[[Mapping[str, Mapping[str, int]]], Iterator[str]]]] = {
    "pfc counters": pfc_counters,
    "priority-group watermark shared": group_watermark_shared,
    "priority-group watermark headroom": group_watermark_headroom,
    "queue counters": queue_counters,
    "queue watermark unicast": queue_watermark,
    "queue watermark": queue_watermark,
}
"""The commands, by the words after ``show``."""
