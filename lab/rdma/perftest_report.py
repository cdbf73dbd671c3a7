"""Parsers of perftest's output, which is not trusted: pure functions from text to numbers.

perftest's JSON report is often invalid: version 4.5 quotes neither keys nor words and ends every list with a comma,
other versions print ``nan``, and a full disk truncates it. So fields are searched one by one. A field is only
accepted if something follows its value, because a number may be truncated, and if no other occurrence contradicts it.
The printed table holds the same numbers and is the second source.

Both give throughput twice, as MiB/s (which 4.5 labels MB/s) and as messages per second. They must agree, and the less
rounded one is used. perftest's own latency statistics are not used: they leave out the largest samples, report the
second largest as the maximum, and compute the deviation in whole, overflowing microseconds.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIELD: Final = re.compile(r'"?\b([A-Za-z][\w.]*)"?[ \t]*:[ \t]*(?:"([^"\n]*)"|([^\s,{}":]+))(?=[\s,}])')
_WANTED: Final = ("Mtu", "MsgSize", "n_iterations", "BW_peak", "BW_average", "MsgRate")
_ROW: Final = re.compile(r"^ *(\d+) +(\d+) +([\d.]+) +([\d.]+)[ \t]+([\d.]+) *\n", re.MULTILINE)
_MTU: Final = re.compile(r"^ Mtu +: (\d+)\[B\]", re.MULTILINE)
_QP: Final = re.compile(r"^ (local|remote) address: .*\bQPN 0x([0-9a-f]+)", re.MULTILINE)
_SIDES: Final = ("local", "remote")
_SAMPLE: Final = re.compile(r"^(\d+), (\S+)\n", re.MULTILINE)
_IN_CYCLES: Final = re.compile(r"^#, cycles$", re.MULTILINE)
_MIB: Final = 2**20
_MEGA: Final = 10**6
_BANDWIDTH_STEP: Final = 0.01 * _MIB
"""The last printed digit of the throughput, in bytes per second."""
_RATE_STEP: Final = 1e-6 * _MEGA
"""The last printed digit of the message rate, in messages per second."""


class NoMessage(ValueError):
    """The report is complete, and states that no message was completed."""


@dataclass(frozen=True, slots=True)
class BandwidthReport:
    """One test: messages of ``size`` bytes over all QPs, the path MTU, and the duration.

    ``seconds`` is by perftest's own clock, the CPU's cycle counter; infinite if that ran backwards.
    """

    size: int
    messages: int
    mtu: int
    seconds: float


def read_fields(text: str) -> dict[str, str]:
    """Return all complete ``key: value`` pairs of JSON-like text whose key has no other value."""
    found: dict[str, str] = {}
    contradicted: set[str] = set()
    for match in _FIELD.finditer(text):
        key, value = match[1], match[3] if match[2] is None else match[2]
        if found.setdefault(key, value) != value:
            contradicted.add(key)
    return {key: value for key, value in found.items() if key not in contradicted}


def parse_bandwidth(json: str, printed: str, size: int) -> BandwidthReport:
    """Parse the report of a test with messages of ``size`` bytes: the JSON if it is valid, else the table.

    ValueError describes the errors in both; it is NoMessage if both state that no message was completed.
    """
    try:
        return _from_json(json, size)
    except ValueError as in_json:
        try:
            return _from_table(printed, size)
        except ValueError as in_table:
            none = isinstance(in_json, NoMessage) and isinstance(in_table, NoMessage)
            kind = NoMessage if none else ValueError
            raise kind(f"{in_json} in its JSON, {in_table} in its table") from None


def _from_json(text: str, size: int) -> BandwidthReport:
    fields = read_fields(text)
    if missing := [name for name in _WANTED if name not in fields]:
        raise ValueError(f"no {missing[0]}")
    return _checked(fields, size)


def _from_table(text: str, size: int) -> BandwidthReport:
    rows, mtus = set(_ROW.findall(text)), set(_MTU.findall(text))
    if len(rows) != 1 or len(mtus) != 1:
        raise ValueError("no one row of results")
    return _checked(dict(zip(_WANTED, (mtus.pop(), *rows.pop()), strict=True)), size)


def _checked(fields: Mapping[str, str], expected: int) -> BandwidthReport:
    size, messages, mtu = (int(fields[name]) for name in ("MsgSize", "n_iterations", "Mtu"))
    if size != expected:
        raise ValueError(f"message size {size}")
    average, rate = fields["BW_average"], fields["MsgRate"]
    by_bandwidth, by_rate = _number(average) * _MIB, _number(rate) * _MEGA * size
    bandwidth_step, rate_step = _BANDWIDTH_STEP, _RATE_STEP * size
    if abs(by_bandwidth - by_rate) > bandwidth_step + rate_step:
        raise ValueError(f"contradicting figures ({average} MiB/s, {rate} million messages/s)")
    best = by_bandwidth if bandwidth_step < rate_step else by_rate
    if messages == 0:
        raise NoMessage("no message")
    return BandwidthReport(
        size=size, messages=messages, mtu=mtu, seconds=messages * size / best if best else math.inf
    )


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{text} for a number")
    return value


def parse_cycles(printed: str, iterations: int) -> tuple[float, ...]:
    """Return all samples of ``--report-unsorted --report-cycles``, in cycles: one fewer than iterations.

    A counter that went backwards yields a sample of about 2^64. ValueError if a sample is missing or is no number.
    """
    if not _IN_CYCLES.search(printed):
        raise ValueError("no samples in cycles")
    found = _SAMPLE.findall(printed)
    if [int(number) for number, _ in found] != list(range(1, iterations)):
        raise ValueError(f"{len(found)} samples instead of {iterations - 1}")
    return tuple(_number(value) for _, value in found)


def parse_qps(printed: str) -> tuple[list[int], list[int]]:
    """Return the numbers of the QPs that perftest connected, local and remote; empty if it printed none."""
    local, remote = ([int(number, 16) for side, number in _QP.findall(printed) if side == which] for which in _SIDES)
    return local, remote


def parse_mtu(printed: str) -> int:
    """Return the path MTU that perftest uses, in bytes; ValueError if it is not printed."""
    found = set(_MTU.findall(printed))
    if len(found) != 1:
        raise ValueError("no path MTU")
    return int(found.pop())
