"""Parse the values of a packet description from text. Errors name the bounds or an example."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from pydantic import BeforeValidator

from lab.model.values.suggest import suggest
from lab.model.values.yamltext import show
from lab.units import parse_rate, parse_time
from lab.wire.headers import CLASSES

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import Enum

MAX_PAYLOAD: Final = 4096
"""Bytes of data in one packet: the largest path MTU."""
MAX_QUANTA: Final = 0xFFFF

_MAC: Final = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}")
_DIGITS: Final = re.compile(r"-?(?:0x[0-9a-f]{1,16}|[0-9]{1,20})", re.ASCII | re.IGNORECASE)
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2}\s*)*", re.ASCII)

Span: TypeAlias = int | float
"""The length of a pause: an int is in quanta, a float in seconds."""


def _scalar(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"must be one value, not {show(value)}; write it on one line")
    return str(value)


def _integer(value: Any, low: int, high: int) -> int:
    text = _scalar(value)
    bounds = f"choose {low} to {high}" + (f" ({high:#x})" if high > MAX_PAYLOAD else "")
    if not _DIGITS.fullmatch(text):
        raise ValueError(f"{show(value)} is not a whole number; {bounds}")
    number = int(text, 16 if "x" in text.lower() else 10)
    if not low <= number <= high:
        raise ValueError(f"{show(value)} is out of range; {bounds}")
    return number


def between(low: int, high: int) -> BeforeValidator:
    """Return a validator for a whole number from ``low`` to ``high``, both included."""
    return BeforeValidator(lambda value: _integer(value, low, high))


def bits(count: int) -> BeforeValidator:
    """Return a validator for a whole number of ``count`` bits."""
    return between(0, 2**count - 1)


def choice(names: dict[str, Any]) -> BeforeValidator:
    """Return a validator for a key of ``names``, which returns its value."""

    def check(value: Any) -> Any:
        text = _scalar(value)
        if text not in names:
            remedy = suggest(text.lower(), names, f"choose {', '.join(names)}")
            raise ValueError(f"{show(value)} is not known; {remedy}")
        return names[text]

    return BeforeValidator(check)


def _parsed(parse: Callable[[str], Any], example: str) -> BeforeValidator:
    def check(value: Any) -> Any:
        text = _scalar(value)
        try:
            return parse(text)
        except ValueError as error:
            raise ValueError(f"{show(value)} cannot be read; write it like {example}") from error

    return BeforeValidator(check)


def _mac(text: str) -> str:
    if not _MAC.fullmatch(text.lower()):
        raise ValueError(text)
    return text.lower()


def _octets(text: str) -> bytes:
    if not _HEX.fullmatch(text):
        raise ValueError(text)
    return _fitting(bytes.fromhex(text))


def _fitting(octets: bytes) -> bytes:
    if len(octets) > MAX_PAYLOAD:
        raise ValueError(f"more than {MAX_PAYLOAD} bytes")
    return octets


def _span(text: str) -> Span:
    return _integer(text, 0, MAX_QUANTA) if _DIGITS.fullmatch(text) else parse_time(text)


def _rate(text: str) -> int:
    if (rate := parse_rate(text)) == 0:
        raise ValueError(text)
    return rate


def _classes(text: str) -> dict[int, Span]:
    pairs = [pair.partition("=") for pair in text.split(",")]
    found = {_integer(name.strip(), 0, CLASSES - 1): _span(span.strip()) for name, _, span in pairs}
    if len(found) < len(pairs):
        raise ValueError(f"a class is named twice: {text}")
    return found


def named(choices: type[Enum]) -> BeforeValidator:
    """Return a validator for a member of ``choices``, by its value."""
    return choice({choice.value: choice for choice in choices})


Address: TypeAlias = Annotated[str, _parsed(lambda text: str(ip_address(text)), "10.0.0.1 or fd00::1")]
Mac: TypeAlias = Annotated[str, _parsed(_mac, "02:00:00:00:00:01")]
Bits16: TypeAlias = Annotated[int, bits(16)]
Bits24: TypeAlias = Annotated[int, bits(24)]
Bits32: TypeAlias = Annotated[int, bits(32)]
Bits64: TypeAlias = Annotated[int, bits(64)]
Text: TypeAlias = Annotated[
    bytes, _parsed(lambda text: _fitting(text.encode()), f"text of up to {MAX_PAYLOAD} bytes")
]
Octets: TypeAlias = Annotated[bytes, _parsed(_octets, f"'de ad be ef', up to {MAX_PAYLOAD} bytes")]
Classes: TypeAlias = Annotated[dict[int, Span], _parsed(_classes, "3=65535,4=0 or 3=100us, each class once")]
Quanta: TypeAlias = Annotated[Span, _parsed(_span, "65535 or 100us")]
Rate: TypeAlias = Annotated[int, _parsed(_rate, "100Mbit or 10Gbit")]
