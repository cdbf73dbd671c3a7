"""Values as people write them: names, ends of links, rates, sizes, times and prefixes, parsed and checked.

A validator's ValueError reads "what is wrong; the remedy". The JSON Schema of each type describes the written form.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

from pydantic import BeforeValidator, ConfigDict, PlainValidator, WithJsonSchema

from lab.model.topology import DELAY_RANGE, MAX_FABRIC_NAME, MAX_NODE_NAME, MTU_RANGE, RATE_RANGE
from lab.model.values import yamltext
from lab.units import format_rate, format_time, parse_rate, parse_size, parse_time

if TYPE_CHECKING:
    from collections.abc import Callable

SECTION: Final = ConfigDict(frozen=True, strict=True, extra="forbid", use_attribute_docstrings=True)
"""The configuration of sections: unknown keys are errors, types are strict, and values are immutable."""

_WORD: Final = "[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
NAME: Final = f"^{_WORD}$"
"""The pattern of names of fabrics, nodes and tenants."""
_END: Final = f"{_WORD}(?::(?:swp|eth)[1-9][0-9]{{0,3}})?"
_ENDPOINT: Final = f"^{_END}$"
_PAIR: Final = f"^{_END}--{_END}$"


_Number = TypeVar("_Number", int, float)
_INTERVAL_RANGE: Final = (0.01, 60.0)
_FRR_CHARACTERS: Final = r"\t\n\x20-\x7e"
_MAX_FRR_LINES: Final = 20_000


def written(value: Any, what: str, example: str) -> str:
    """Return ``value`` as text; raise ValueError if it is neither text nor a number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"must be a {what}; write it like {example}")
    text = str(value)
    if len(text) > 64:
        raise ValueError(f"is not a {what}; write it like {example}")
    return text


def ranged(
    parse: Callable[[str], _Number],
    show: Callable[[float], str],
    bounds: tuple[_Number, _Number],
    what: str,
    example: str,
) -> BeforeValidator:
    """Return a validator for ``what``, with ``parse`` to read and ``show`` to write it; bounds are inclusive."""

    def check(value: Any) -> _Number:
        number = parse(written(value, what, example))
        low, high = bounds
        if not low <= number <= high:
            raise ValueError(f"{show(number)} is out of range; choose {show(low)} to {show(high)}")
        return number

    return BeforeValidator(check)


def named(pattern: str, limit: int, what: str, form: str) -> Callable[[Any], str]:
    """Return a validator for ``what``, text that matches ``pattern`` with up to ``limit`` characters."""

    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError(f"{what} must be text; {form}")
        if not re.fullmatch(pattern.rstrip("$"), value, re.ASCII):
            raise ValueError(f"{yamltext.show(value)} is not {what}; {form}")
        if len(value) > limit:
            raise ValueError(
                f"{value[:40]!r} has {len(value)} characters; the kernel has room for {limit}, shorten it"
            )
        return value

    return check


def _scalar(value: Any) -> str | int | float | bool:
    if not isinstance(value, str | int | float | bool) or len(str(value)) > 1000:
        raise ValueError("must be text, a number, true or false; write it as behind `rocelab fault inject`")
    return value


def _frr_lines(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text; write the lines below `leaf1: |`")
    if len(value) > _MAX_FRR_LINES:
        raise ValueError(f"has {len(value)} characters; write at most {_MAX_FRR_LINES}")
    if found := re.search(rf"[^{_FRR_CHARACTERS}]", value):
        raise ValueError(f"has the character {found[0]!a}; remove it, FRR takes printable ASCII, tabs and line ends")
    return value


def _network(kind: type[IPv4Network] | type[IPv6Network], example: str) -> PlainValidator:
    def check(value: Any) -> IPv4Network | IPv6Network:
        text = written(value, "prefix", example)
        try:
            return kind(text)
        except ValueError as error:
            why = (
                "has host bits set"
                if "host bits" in str(error)
                else f"is not an IPv{6 if ':' in example else 4} prefix"
            )
            raise ValueError(f"{text!a} {why}; write it like {example}") from error

    return PlainValidator(check)


NAME_FORM: Final = "use lowercase letters, digits and single hyphens between them, and start with a letter"

check_fabric_name: Final = named(NAME, MAX_FABRIC_NAME, "a fabric's name", NAME_FORM)
"""Return the name, or raise ValueError."""

FabricName: TypeAlias = Annotated[
    str,
    BeforeValidator(check_fabric_name),
    WithJsonSchema({"type": "string", "pattern": NAME, "maxLength": MAX_FABRIC_NAME}),
]
NodeName: TypeAlias = Annotated[
    str,
    BeforeValidator(named(NAME, MAX_NODE_NAME, "a node's name", NAME_FORM)),
    WithJsonSchema({"type": "string", "pattern": NAME, "maxLength": MAX_NODE_NAME}),
]
End: TypeAlias = Annotated[
    str,
    BeforeValidator(
        named(_ENDPOINT, MAX_NODE_NAME + 8, "an end of a link", "write a node's name, or leaf1:swp3 or h1:eth1")
    ),
    WithJsonSchema({"type": "string", "pattern": _ENDPOINT, "examples": ["leaf1", "leaf1:swp3"]}),
]
LinkName: TypeAlias = Annotated[
    str,
    BeforeValidator(
        named(_PAIR, 2 * MAX_NODE_NAME + 18, "a link", "write it like leaf2--spine1 or leaf2:swp1--spine1:swp2")
    ),
    WithJsonSchema({"type": "string", "pattern": _PAIR}),
]
FrrLines: TypeAlias = Annotated[
    str,
    BeforeValidator(_frr_lines),
    WithJsonSchema({"type": "string", "pattern": f"^[{_FRR_CHARACTERS}]*$", "maxLength": _MAX_FRR_LINES}),
]
Rate: TypeAlias = Annotated[
    int,
    ranged(parse_rate, format_rate, RATE_RANGE, "rate", "100Mbit or 10Gbit"),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["100Mbit", "1Gbit", "10Gbit"]}),
]
Mtu: TypeAlias = Annotated[
    int,
    ranged(parse_size, "{:g} bytes".format, MTU_RANGE, "size", "9000"),
    WithJsonSchema({"type": "integer", "minimum": MTU_RANGE[0], "maximum": MTU_RANGE[1], "examples": [1500, 9000]}),
]
Delay: TypeAlias = Annotated[
    float,
    ranged(parse_time, format_time, DELAY_RANGE, "time", "5us or 2ms"),
    WithJsonSchema({"type": ["string", "number"], "examples": ["5us", "1ms"]}),
]
Interval: TypeAlias = Annotated[
    float,
    ranged(parse_time, format_time, _INTERVAL_RANGE, "time", "300ms or 1s"),
    WithJsonSchema({"type": ["string", "number"], "examples": ["300ms", "1s"]}),
]
Moment: TypeAlias = Annotated[
    float,
    ranged(parse_time, format_time, (0.0, 86_400.0), "time", "500ms or 2s"),
    WithJsonSchema({"type": ["string", "number"], "examples": ["500ms", "2s"]}),
]
Span: TypeAlias = Annotated[
    float,
    ranged(parse_time, format_time, (0.001, 86_400.0), "time", "500ms or 2s"),
    WithJsonSchema({"type": ["string", "number"], "examples": ["500ms", "2s"]}),
]
Scalar: TypeAlias = Annotated[
    Any,
    BeforeValidator(_scalar),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
]
Pool4: TypeAlias = Annotated[
    IPv4Network,
    _network(IPv4Network, "10.0.0.0/16"),
    WithJsonSchema({"type": "string", "format": "ipv4network", "examples": ["10.0.0.0/16"]}),
]
Pool6: TypeAlias = Annotated[
    IPv6Network,
    _network(IPv6Network, "fdc0:0:1::/48"),
    WithJsonSchema({"type": "string", "format": "ipv6network", "examples": ["fdc0:0:1::/48"]}),
]
