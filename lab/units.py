"""Parse and format sizes, rates and times, in the units that the code computes in.

The code computes in int bytes, int bits per second and float seconds. Rates are decimal (1 Gbit = 10**9 bit/s), as on
port labels. Sizes are decimal (KB) or binary (KiB), as their suffix says.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Final

PAUSE_QUANTUM_BITS: Final = 512
"""One pause quantum in bit times of the link (IEEE 802.3 clause 31B.2)."""
WIRE_OVERHEAD: Final = 24
"""Bytes of preamble, start delimiter, FCS and inter-frame gap per frame (IEEE 802.3 clauses 3.1.1 and 4.4.2)."""

_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*(?:/s)?)\s*\Z", re.ASCII)
_DIGITS: Final = 40
"""The most digits of a number. Numbers that are longer may exceed a float."""
_DECIMAL: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SIZES: Final = {prefix + "b": factor for prefix, factor in _DECIMAL.items()} | {
    "": 1,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}
_RATES: Final = {
    prefix + suffix: factor for prefix, factor in _DECIMAL.items() for suffix in ("bit", "bit/s", "b/s")
} | {"": 1}
_TWO_MEANINGS: Final = re.compile(r"\s*([\d.]+\s*[kmgt]?)bps\s*\Z", re.ASCII | re.IGNORECASE)
_TIMES: Final = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
    "": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}


_LENGTHS: Final = {"cm": Fraction(1, 100), "m": Fraction(1), "km": Fraction(1000), "": Fraction(1)}


def _scaled(text: str, units: dict[str, int] | dict[str, Fraction], what: str, example: str) -> Fraction:
    match = _NUMBER.match(text)
    factor = units.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"{text!r} is not a {what}; write it like {example}")
    if len(match[1]) > _DIGITS:
        raise ValueError(f"a {what} of {len(match[1])} digits is out of range; write it like {example}")
    return Fraction(match[1]) * factor


def _whole(value: Fraction, text: str, unit: str) -> int:
    if value.denominator != 1:
        raise ValueError(f"{text!r} is not a whole number of {unit}; write one that is")
    return int(value)


def parse_size(text: str) -> int:
    """Parse ``"400KB"``, ``"64KiB"`` or ``"1500"`` into bytes; raise ValueError with the reason."""
    return _whole(_scaled(text, _SIZES, "size", "64KiB, 400KB or 9000"), text, "bytes")


def parse_rate(text: str) -> int:
    """Parse ``"100Mbit"`` or ``"10Gb/s"`` into bits per second; raise ValueError with the reason.

    ``bps`` is rejected as ambiguous: it means bytes per second in tc(8), and bits elsewhere.
    """
    if match := _TWO_MEANINGS.match(text):
        raise ValueError(f"{text!r} can mean bits, or bytes as in tc; write {match[1]}bit")
    return _whole(_scaled(text, _RATES, "rate", "100Mbit or 10Gbit"), text, "bits per second")


def parse_time(text: str) -> float:
    """Parse ``"300ms"``, ``"5us"`` or ``"2s"`` into seconds; raise ValueError with the reason."""
    return float(_scaled(text, _TIMES, "time", "5us, 300ms or 2s"))


def parse_length(text: str) -> float:
    """Parse ``"40m"``, ``"2km"`` or ``"30cm"`` into metres; raise ValueError with the reason."""
    return float(_scaled(text, _LENGTHS, "length", "5m, 300m or 2km"))


def _format(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    for factor, unit in steps:
        if abs(value) >= factor:
            return f"{value / factor:.4g} {unit}"
    factor, unit = steps[-1]
    return f"{value / factor:.4g} {unit}"


def counted(number: int, what: str, several: str = "") -> str:
    """Return a number with its noun: ``1 packet``, ``2 packets``; ``several`` is an irregular plural."""
    return f"{number} {what if number == 1 else several or what + 's'}"


RATE_STEPS: Final = ((1e12, "Tb/s"), (1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1, "b/s"))
"""Divisors of bit/s, largest first, each with its unit. A divisor applies to values from the divisor upwards."""
SIZE_STEPS: Final = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1, "B"))
"""The same for bytes."""
TIME_STEPS: Final = ((1, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
"""The same for seconds."""


def format_rate(bits_per_second: float) -> str:
    """Format a rate like ``"97.3 Mb/s"``: four digits, decimal prefixes."""
    return _format(bits_per_second, RATE_STEPS)


def format_size(size: float) -> str:
    """Format a size like ``"65.54 KB"``: four digits, decimal prefixes."""
    return _format(size, SIZE_STEPS)


def format_time(seconds: float) -> str:
    """Format a time like ``"8.2 us"``: four digits."""
    return _format(seconds, TIME_STEPS)


def exact_rate(bits_per_second: int) -> str:
    """Format a rate like ``"100Mbit"`` without rounding: ``parse_rate`` and tc(8) read the same number."""
    factor, unit = next(
        (factor, unit)
        for factor, unit in ((10**9, "Gbit"), (10**6, "Mbit"), (10**3, "kbit"), (1, "bit"))
        if bits_per_second % factor == 0
    )
    return f"{bits_per_second // factor}{unit}"


def exact_time(seconds: float) -> str:
    """Format a time like ``"5us"`` without rounding: ``parse_time`` reads the same number."""
    for factor, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")):
        written = f"{round(seconds / factor)}{unit}"
        if parse_time(written) == seconds:
            return written
    return f"{Decimal(repr(seconds)):f}s"


def quanta_to_seconds(quanta: int, rate: int) -> float:
    """Return the seconds that a pause of ``quanta`` lasts on a link of ``rate`` bit/s (IEEE 802.3 clause 31B.2)."""
    return quanta * PAUSE_QUANTUM_BITS / rate


def seconds_to_quanta(seconds: float, rate: int) -> int:
    """Return the quanta, rounded up, that cover ``seconds`` at ``rate`` bit/s (IEEE 802.3 clause 31B.2)."""
    exact = Fraction(seconds) * rate / PAUSE_QUANTUM_BITS
    return -(-exact.numerator // exact.denominator)
