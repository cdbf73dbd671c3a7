"""The filter language, by recursive descent.

::

    either    = both { "or" both }
    both      = single { "and" single }
    single    = "not" single | "(" either ")" | condition
    condition = field ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) value
              | field "in" value ".." value
              | ( "host" | "src" | "dst" ) ( address | name )
              | "roce" | "cnp" | "ack" | "nak" | "rnr" | "ce" | "ect" | "pfc" | "pause"
    field     = "qpn" | "psn" | "opcode" | "vni" | "dscp"

``&&``, ``||`` and ``!`` are ``and``, ``or`` and ``not``. Capitals do not matter, but in names of hosts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Final, NamedTuple, NoReturn, TypeAlias

from lab.errors import UsageError
from lab.wire.filter.expression import Address, All, Any, Expression, Field, Host, Not, Range, Side, Within
from lab.wire.frame import PAUSE_OPCODE, PFC_OPCODE
from lab.wire.opcodes import OPERATIONS, Opcode, opcode_name
from lab.wire.syndrome import AckKind

MAX_DEPTH: Final = 40
"""Parentheses and ``not`` inside each other."""
MAX_TEXT: Final = 4000
"""Characters of one filter."""
EXAMPLE: Final = "write for example: qpn==0x11 and psn in 100..200, opcode==write, not (ack or cnp), vni==10, host h1"

Resolve: TypeAlias = Callable[[str], Iterable[Address]]
"""Addresses of a host by its name; UsageError when there is none."""

_TOKEN: Final = re.compile(r"\s*(==|!=|<=|>=|&&|\|\||\.\.|[<>()!]|[0-9A-Za-z_:](?:[0-9A-Za-z_:-]|\.(?!\.))*)")
_SAME: Final = {"&&": "and", "||": "or", "!": "not"}
_FIELDS: Final = {field.value[0]: field for field in (Field.QPN, Field.PSN, Field.OPCODE, Field.VNI, Field.DSCP)}
_WORDS: Final = {
    "roce": Within(Field.OPCODE, ((0, 255),)),
    "cnp": Within(Field.OPCODE, ((Opcode.CNP, Opcode.CNP),)),
    "ack": Within(Field.ANSWER, ((AckKind.ACK, AckKind.ACK),)),
    "nak": Within(Field.ANSWER, ((AckKind.NAK, AckKind.NAK),)),
    "rnr": Within(Field.ANSWER, ((AckKind.RNR_NAK, AckKind.RNR_NAK),)),
    "ce": Within(Field.ECN, ((3, 3),)),
    "ect": Within(Field.ECN, ((1, 2),)),
    "pfc": Within(Field.CONTROL, ((PFC_OPCODE, PFC_OPCODE),)),
    "pause": Within(Field.CONTROL, ((PAUSE_OPCODE, PAUSE_OPCODE),)),
}
_SIDES: Final = {side.value: side for side in Side}
_COMPARISONS: Final[dict[str, Callable[[int, int], tuple[Range, ...]]]] = {
    "==": lambda value, _: ((value, value),),
    "!=": lambda value, most: ((0, value - 1), (value + 1, most)),
    "<": lambda value, _: ((0, value - 1),),
    "<=": lambda value, _: ((0, value),),
    ">": lambda value, most: ((value + 1, most),),
    ">=": lambda value, most: ((value, most),),
}
_FAMILIES: Final = {
    "send": "_SEND_",
    "write": "_RDMA_WRITE_",
    "read": "_RDMA_READ_",
    "atomic": "_(CMPSWAP|FETCHADD|ATOMIC_)",
    "flush": "_FLUSH",
    "ack": "_ACKNOWLEDGE",
    "cnp": "CNP",
    "rc": "^RC_",
    "xrc": "^XRC_",
    "uc": "UC_",
    "ud": "UD_",
}
"""Groups of opcodes, by what their names contain."""


def _full_name(value: int, opcode: Opcode) -> str:
    return opcode.name if value == opcode else opcode.name.replace("RC", opcode_name(value).partition(" ")[0], 1)


_OPCODES: Final = {_full_name(value, opcode).lower(): (value,) for value, opcode in OPERATIONS.items()} | {
    family: tuple(value for value, opcode in OPERATIONS.items() if re.search(part, _full_name(value, opcode)))
    for family, part in _FAMILIES.items()
}


class _Token(NamedTuple):
    text: str
    at: int  # characters before it


def parse(text: str, resolve: Resolve | None = None) -> Expression:
    """What ``text`` says; ``resolve`` knows the names of hosts, without it only addresses are understood.

    UsageError names the position, from 1, of what cannot be understood, and what may stand there.
    """
    if len(text) > MAX_TEXT:
        raise UsageError(f"a filter of {len(text)} characters", f"{MAX_TEXT} are the most")
    parser = _Parser(text, resolve or _unknown)
    expression = parser.either(0)
    if parser.token.text:
        parser.expected("'and', 'or' or the end")
    return expression


def _unknown(name: str) -> NoReturn:
    raise UsageError(f"no fabric is at hand to look up {name!r}", "write its IP address")


def _tokens(text: str) -> list[_Token]:
    tokens, at, end = [], 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            raise UsageError(f"filter, position {at + 1}: {text[at]!r} means nothing here", EXAMPLE)
        tokens.append(_Token(_SAME.get(found[1], found[1]), found.start(1)))
        at = found.end()
    return [*tokens, _Token("", end)]


class _Parser:
    def __init__(self, text: str, resolve: Resolve) -> None:
        self._tokens = iter(_tokens(text))
        self._resolve = resolve
        self.token = next(self._tokens)

    def expected(self, what: str) -> NoReturn:
        """Refuse the present token."""
        found = repr(self.token.text) if self.token.text else "the end"
        raise UsageError(f"filter, position {self.token.at + 1}: expected {what}, found {found}", EXAMPLE)

    def _take(self) -> str:
        text = self.token.text
        if text:
            self.token = next(self._tokens)
        return text

    def _accept(self, text: str) -> bool:
        return bool(self._take()) if self.token.text.lower() == text else False

    def either(self, depth: int) -> Expression:
        """Conditions joined by ``or``."""
        terms = [self._both(depth)]
        while self._accept("or"):
            terms.append(self._both(depth))
        return terms[0] if len(terms) == 1 else Any(tuple(terms))

    def _both(self, depth: int) -> Expression:
        terms = [self._single(depth)]
        while self._accept("and"):
            terms.append(self._single(depth))
        return terms[0] if len(terms) == 1 else All(tuple(terms))

    def _single(self, depth: int) -> Expression:
        if depth > MAX_DEPTH:
            self.expected(f"no more than {MAX_DEPTH} parentheses and 'not' inside each other")
        if self._accept("not"):
            return Not(self._single(depth + 1))
        if not self._accept("("):
            return self._condition()
        inside = self.either(depth + 1)
        if not self._accept(")"):
            self.expected("'and', 'or' or ')'")
        return inside

    def _condition(self) -> Expression:
        word = self.token.text.lower()
        if word in _WORDS:
            self._take()
            return _WORDS[word]
        if word in _FIELDS:
            self._take()
            return self._comparison(_FIELDS[word])
        if word not in _SIDES:
            self.expected(f"'not', '(', or one of {', '.join([*_FIELDS, *_SIDES, *_WORDS])}")
        self._take()
        return Host(_SIDES[word], self._addresses())

    def _comparison(self, field: Field) -> Within:
        if self._accept("in"):
            return Within(field, self._span(field))
        operator = self.token.text
        if operator not in _COMPARISONS:
            self.expected(f"{', '.join(_COMPARISONS)} or 'in' after {field.value[0]}")
        self._take()
        if field is Field.OPCODE and self.token.text.lower().replace("-", "_") in _OPCODES:
            return self._opcodes(operator)
        ranges = _COMPARISONS[operator](self._number(field), field.greatest)
        return Within(field, tuple(span for span in ranges if span[0] <= span[1]))

    def _opcodes(self, operator: str) -> Within:
        codes = set(_OPCODES[self.token.text.lower().replace("-", "_")])
        if operator not in {"==", "!="}:
            self.expected(f"a number after {operator}")
        self._take()
        wanted = codes if operator == "==" else set(range(256)) - codes
        return Within(Field.OPCODE, tuple(_runs(sorted(wanted))))

    def _span(self, field: Field) -> tuple[Range, ...]:
        """``A..B``; PSNs count in a circle (IBA vol. 1 section 9.7.1), so theirs may go over the top."""
        first = self._number(field)
        if not self._accept(".."):
            self.expected("'..' and the last value")
        place = self.token
        last = self._number(field)
        if first <= last:
            return ((first, last),)
        if field is not Field.PSN:
            self.token = place
            self.expected(f"{first} or more")
        return ((0, last), (first, field.greatest))

    def _number(self, field: Field) -> int:
        try:
            value = int(self.token.text, 0)
        except ValueError:
            value = -1
        if not 0 <= value <= field.greatest:
            also = " or the name of an opcode" if field is Field.OPCODE else ""
            self.expected(f"a number from 0 to {field.greatest}{also}")
        self._take()
        return value

    def _addresses(self) -> tuple[Address, ...]:
        if not self.token.text or not (self.token.text[0].isalnum() or self.token.text[0] in "_:"):
            self.expected("an IP address or the name of a host")
        text = self._take()
        try:
            return (ip_address(text),)
        except ValueError:
            return tuple(self._resolve(text))


def _runs(codes: list[int]) -> Iterable[Range]:
    """Sorted numbers as ranges without holes."""
    first = last = codes[0]
    for code in codes[1:]:
        if code != last + 1:
            yield first, last
            first = code
        last = code
    yield first, last
