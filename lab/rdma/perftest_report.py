"""What perftest says, read without trusting it: pure functions from its output to numbers.

Its JSON report is often not JSON: version 4.5 quotes neither keys nor words and ends every list with a comma,
others print ``nan``; a full disk cuts it short. So fields are looked for one by one, and one is only believed if
something follows its value (the rest of a number may be missing) and nothing contradicts it. The printed table
holds the same numbers and is the second source.

Both give throughput twice, as MiB/s (which 4.5 labels MB/s) and as messages per second. They must agree, and the
one that was rounded less is used. Its own latency statistics are not used: they leave out the largest samples,
call the second largest the maximum, and compute the deviation in whole, overflowing microseconds.
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
"""Bytes per second that the last printed digit of the throughput stands for."""
_RATE_STEP: Final = 1e-6 * _MEGA
"""Messages per second that the last printed digit of the message rate stands for."""


class NoMessage(ValueError):
    """The report is complete, and says that no message was completed."""


@dataclass(frozen=True, slots=True)
class BandwidthReport:
    """One test: messages of ``size`` bytes over all QPs, payload bytes of a packet, and how long it took.

    ``seconds`` is by perftest's own clock, the CPU's cycle counter, and infinite where that ran backwards.
    """

    size: int
    messages: int
    mtu: int
    seconds: float


def read_fields(text: str) -> dict[str, str]:
    """All ``key: value`` in something like JSON that are complete and not contradicted by another of the key."""
    found: dict[str, str] = {}
    contradicted: set[str] = set()
    for match in _FIELD.finditer(text):
        key, value = match[1], match[3] if match[2] is None else match[2]
        if found.setdefault(key, value) != value:
            contradicted.add(key)
    return {key: value for key, value in found.items() if key not in contradicted}


def parse_bandwidth(json: str, printed: str, size: int) -> BandwidthReport:
    """The report of a test of messages of ``size`` bytes, from the JSON if it will do, else from the table.

    ValueError says what is wrong with both; it is NoMessage when both say that no message was completed.
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
    return BandwidthReport(size, messages, mtu, messages * size / best if best else math.inf)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{text} for a number")
    return value


def parse_cycles(printed: str, iterations: int) -> tuple[float, ...]:
    """Every sample that ``--report-unsorted --report-cycles`` printed, in cycles: one fewer than iterations.

    A counter that went backwards shows as a sample of some 2^64. ValueError when any is missing or is no number.
    """
    if not _IN_CYCLES.search(printed):
        raise ValueError("no samples in cycles")
    found = _SAMPLE.findall(printed)
    if [int(number) for number, _ in found] != list(range(1, iterations)):
        raise ValueError(f"{len(found)} samples instead of {iterations - 1}")
    return tuple(_number(value) for _, value in found)


def parse_qps(printed: str) -> tuple[list[int], list[int]]:
    """The numbers of the QPs that perftest connected, at its own side and at the other; empty where it names none."""
    local, remote = ([int(number, 16) for side, number in _QP.findall(printed) if side == which] for which in _SIDES)
    return local, remote


def parse_mtu(printed: str) -> int:
    """The path MTU that perftest settled on, in bytes; ValueError when it does not say."""
    found = set(_MTU.findall(printed))
    if len(found) != 1:
        raise ValueError("no path MTU")
    return int(found.pop())
