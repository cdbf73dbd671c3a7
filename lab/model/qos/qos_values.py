"""QoS values as users write them: classes, sizes or times of a queue, alphas, probabilities, weights."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema

from lab.model.qos.port import CLASSES, DSCPS, MAX_SIZE
from lab.model.qos.profile import STRICT, UNLIMITED
from lab.model.topology import MAX_INTERFACE_NAME, MAX_NODE_NAME, RATE_RANGE
from lab.model.values.fields import named, ranged, written
from lab.model.values.yamltext import show
from lab.units import format_rate, format_size, format_time, parse_rate, parse_size, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable

ALPHAS: Final = tuple(Fraction(2) ** shift for shift in range(-7, 4))
"""The dynamic thresholds of switch ASICs."""
MAX_WEIGHT: Final = 255

_ALPHA = re.compile(r"[0-9]{1,3}(?:/[1-9][0-9]{0,2}|\.[0-9]{1,7})?", re.ASCII)
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,12})?)(%?)", re.ASCII)
_TIME_RANGE: Final = (0.0, 10.0)
_DRAIN_RANGE: Final = (10**3, RATE_RANGE[1])


def _number_below(count: int, what: str) -> Callable[[Any], int]:
    """Return a validator for a key, which is text in YAML: a number from 0 to ``count - 1``."""

    def check(value: Any) -> int:
        text = str(value)
        if re.fullmatch("0|[1-9][0-9]?", text, re.ASCII) and int(text) < count:
            return int(text)
        raise ValueError(f"{show(value)} is not {what}; choose 0 to {count - 1}")

    return check


def _key(count: int, what: str, pattern: str) -> Any:
    return Annotated[
        int, PlainValidator(_number_below(count, what)), WithJsonSchema({"type": "string", "pattern": pattern})
    ]


def _check_amount(value: Any) -> int | float:
    """Return bytes as an int, or seconds as a float."""
    text = written(value, "size or time", "40KB, or 3ms of the link's rate").strip()
    try:
        amount = parse_time(text) if text.endswith("s") else parse_size(text)
    except ValueError as error:
        message = f"{text!a} is neither a size nor a time; write it like 40KB, or 3ms of the link's rate"
        raise ValueError(message) from error
    if isinstance(amount, float) and not _TIME_RANGE[0] <= amount <= _TIME_RANGE[1]:
        raise ValueError(f"{format_time(amount)} is out of range; choose 0 ns to 10 s")
    if amount > MAX_SIZE:
        raise ValueError(f"{format_size(amount)} is out of range; choose 0 B to {format_size(MAX_SIZE)}")
    return amount


def _check_alpha(value: Any) -> Fraction:
    text = written(value, "power of two", "1/8, 0.5 or 2").strip()
    if not _ALPHA.fullmatch(text):
        raise ValueError(f"{text!a} is not a power of two; write it like 1/8, 0.5 or 2")
    alpha = Fraction(text)
    if alpha not in ALPHAS:
        raise ValueError(f"{text} is not an alpha that switches have; choose {', '.join(map(str, ALPHAS))}")
    return alpha


def _check_probability(value: Any) -> float:
    text = written(value, "probability", "0.1 or 10%").strip()
    match = _SHARE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!a} is not a probability; write it like 0.1 or 10%")
    share = float(match[1]) / 100 if match[2] else float(match[1])
    if share > 1:
        raise ValueError(f"{text} is out of range; choose 0 to 1, or 0% to 100%")
    return share


def _check_weight(value: Any) -> int | str:
    text = written(value, "DWRR weight", "50, or strict").strip()
    if text == STRICT:
        return STRICT
    if not re.fullmatch("-?[0-9]{1,9}", text, re.ASCII):
        raise ValueError(f"{text!a} is not a DWRR weight; write it like 50, or strict")
    if not 1 <= int(text) <= MAX_WEIGHT:
        raise ValueError(f"a weight of {text} is out of range; choose 1 to {MAX_WEIGHT}, or strict")
    return int(text)


_NO_DRAIN: Final = {UNLIMITED, "none"}
"""Values for a NIC without a drain rate."""


def _check_drain(value: Any) -> int | str:
    text = written(value, "rate", "50Mbit, or unlimited").strip().lower()
    if text in _NO_DRAIN:
        return UNLIMITED
    rate = parse_rate(text)
    if not _DRAIN_RANGE[0] <= rate <= _DRAIN_RANGE[1]:
        low, high = map(format_rate, _DRAIN_RANGE)
        raise ValueError(f"{format_rate(rate)} is out of range; choose {low} to {high}, or unlimited")
    return rate


def _one_or_more(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


_WORD: Final = "[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
_PORT: Final = f"^{_WORD}:(?:swp|eth)[1-9][0-9]{{0,3}}$"
_NAME_FORM: Final = "use lowercase letters, digits and single hyphens between them, and start with a letter"

DscpKey: TypeAlias = _key(DSCPS, "a DSCP", "^(?:[0-9]|[1-5][0-9]|6[0-3])$")  # type: ignore[valid-type]
PriorityKey: TypeAlias = _key(CLASSES, "a priority", "^[0-7]$")  # type: ignore[valid-type]
PcpKey: TypeAlias = _key(CLASSES, "a PCP", "^[0-7]$")  # type: ignore[valid-type]
QueueKey: TypeAlias = _key(CLASSES, "a queue", "^[0-7]$")  # type: ignore[valid-type]
GroupKey: TypeAlias = _key(CLASSES, "a priority group", "^[0-7]$")  # type: ignore[valid-type]
Class: TypeAlias = Annotated[int, Field(ge=0, le=CLASSES - 1)]
Size: TypeAlias = Annotated[
    int,
    ranged(parse_size, format_size, (0, MAX_SIZE), "size", "400KB or 2MB"),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["2MB"]}),
]
Amount: TypeAlias = Annotated[
    int | float,
    PlainValidator(_check_amount),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["40KB", "3ms"]}),
]
Alpha: TypeAlias = Annotated[
    Fraction,
    PlainValidator(_check_alpha),
    WithJsonSchema(
        {"type": ["string", "number"], "examples": ["1/8", 1], "enum": [*map(str, ALPHAS), *map(float, ALPHAS)]}
    ),
]
Probability: TypeAlias = Annotated[
    float,
    PlainValidator(_check_probability),
    WithJsonSchema({"type": ["string", "number"], "examples": ["10%", 0.1]}),
]
Span: TypeAlias = Annotated[
    float,
    ranged(parse_time, format_time, (0.001, 60.0), "time", "200ms"),
    WithJsonSchema({"type": ["string", "number"], "examples": ["200ms"]}),
]
DwrrWeight: TypeAlias = Annotated[
    int | str,
    PlainValidator(_check_weight),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": MAX_WEIGHT}, {"const": STRICT}]}),
]
DrainRate: TypeAlias = Annotated[
    int | str,
    PlainValidator(_check_drain),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["50Mbit", UNLIMITED, "none"]}),
]
ProfileName: TypeAlias = Annotated[
    str,
    BeforeValidator(named(f"^{_WORD}$", MAX_NODE_NAME, "a profile's name", _NAME_FORM)),
    WithJsonSchema({"type": "string", "pattern": f"^{_WORD}$", "maxLength": MAX_NODE_NAME}),
]
Names: TypeAlias = Annotated[
    list[str],
    BeforeValidator(_one_or_more),
    Field(max_length=16),
    WithJsonSchema(
        {"type": ["string", "array"], "items": {"type": "string"}, "examples": ["lab", ["nvidia", "mine"]]}
    ),
]
PortName: TypeAlias = Annotated[
    str,
    BeforeValidator(
        named(_PORT, MAX_NODE_NAME + MAX_INTERFACE_NAME + 1, "an interface", "write it like leaf1:swp3 or h1:eth1")
    ),
    WithJsonSchema({"type": "string", "pattern": _PORT}),
]
