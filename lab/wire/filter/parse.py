"""Parse the filter language by recursive descent.

::

    either    = both { "or" both }
    both      = single { "and" single }
    single    = "not" single | "(" either ")" | condition
    condition = field ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) value
              | field "in" value ".." value
              | ( "host" | "src" | "dst" ) [ "==" | "!=" ] ( address | network | name )
              | "interface" ( "==" | "!=" ) name
              | "conn" "==" qpn [ "@" address ]
              | word

``lab.wire.filter.words`` has the fields and words, and their names in Wireshark. ``&&``, ``||`` and ``!`` are
``and``, ``or`` and ``not``. Case is ignored, except in names of hosts and interfaces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from ipaddress import ip_address, ip_network
from typing import Final, NamedTuple, NoReturn, TypeAlias

from lab.errors import UsageError
from lab.model.values.suggest import suggest
from lab.wire.filter import words
from lab.wire.filter.expression import (
    Address,
    AddressSide,
    All,
    Any,
    Expression,
    FilterField,
    HostCondition,
    LinkCondition,
    Not,
    Range,
    Within,
)

MAX_DEPTH: Final = 40
"""Nesting depth of parentheses and ``not``."""
MAX_TEXT: Final = 4000
"""Characters of one filter."""
EXAMPLE: Final = "write for example: qpn==0x11 and psn in 100..200, opcode==write, not (ack or cnp), vni==10, host h1"

Resolve: TypeAlias = Callable[[str], Iterable[Address]]
"""Returns the addresses of a host name; UsageError if the host is unknown."""
Connect: TypeAlias = Callable[[str], Expression]
"""Returns the filter for both directions of a connection, from one of its QPs: 0x11 or 0x11@10.0.0.5."""

_TOKEN: Final = re.compile(r"\s*(==|!=|<=|>=|&&|\|\||\.\.|[<>()!]|[0-9A-Za-z_:](?:[0-9A-Za-z_:/@-]|\.(?!\.))*)")
_SAME: Final = {"&&": "and", "||": "or", "!": "not"}
_COMPARISONS: Final[dict[str, Callable[[int, int], tuple[Range, ...]]]] = {
    "==": lambda value, _: ((value, value),),
    "!=": lambda value, most: ((0, value - 1), (value + 1, most)),
    "<": lambda value, _: ((0, value - 1),),
    "<=": lambda value, _: ((0, value),),
    ">": lambda value, most: ((value + 1, most),),
    ">=": lambda value, most: ((value, most),),
}


class _Token(NamedTuple):
    text: str
    at: int  # characters before it


def parse(text: str, resolve: Resolve | None = None, connect: Connect | None = None) -> Expression:
    """Parse a filter. ``resolve`` looks up host names; without it, only addresses are accepted.

    ``connect`` looks up connections; without it, ``conn`` is rejected. UsageError gives the position of the error,
    from 1, and what is expected there.
    """
    if len(text) > MAX_TEXT:
        raise UsageError(f"a filter of {len(text)} characters", f"{MAX_TEXT} are the most")
    parser = _Parser(text, resolve or _unknown, connect or _unconnected)
    expression = parser.either(0)
    if parser.token.text:
        parser.expected("'and', 'or' or the end")
    return expression


def _unknown(name: str) -> NoReturn:
    raise UsageError(f"no fabric is running to look up {name!r}", "write its IP address")


def _unconnected(qp: str) -> NoReturn:
    raise UsageError(
        f"conn=={qp}: the two ends of a connection are known of a file only", "write host A and host B instead"
    )


def _tokens(text: str) -> list[_Token]:
    tokens, at, end = [], 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            remedy = "write == to compare" if text[at] == "=" else EXAMPLE
            raise UsageError(f"filter, position {at + 1}: {text[at]!r} means nothing here", remedy)
        tokens.append(_Token(_SAME.get(found[1], found[1]), found.start(1)))
        at = found.end()
    return [*tokens, _Token("", end)]


class _Parser:
    def __init__(self, text: str, resolve: Resolve, connect: Connect) -> None:
        self._tokens = iter(_tokens(text))
        self._resolve = resolve
        self._connect = connect
        self._operator = ""  # of the last comparison
        self.token = next(self._tokens)

    def expected(self, what: str) -> NoReturn:
        """Reject the current token."""
        found = repr(self.token.text) if self.token.text else "the end"
        self._wrong(f"expected {what}, found {found}", EXAMPLE)

    def _wrong(self, what: str, remedy: str) -> NoReturn:
        raise UsageError(f"filter, position {self.token.at + 1}: {what}", remedy)

    def _take(self) -> str:
        text = self.token.text
        if text:
            self.token = next(self._tokens)
        return text

    def _accept(self, text: str) -> bool:
        return bool(self._take()) if self.token.text.lower() == text else False

    def either(self, depth: int) -> Expression:
        """Parse conditions joined by ``or``."""
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
            self.expected(f"at most {MAX_DEPTH} nested parentheses and 'not'")
        if self._accept("not"):
            return Not(self._single(depth + 1))
        if not self._accept("("):
            return self._condition()
        inside = self.either(depth + 1)
        if not self._accept(")"):
            self.expected("'and', 'or' or ')'")
        return inside

    def _condition(self) -> Expression:
        told = self.token.text.lower()
        word = words.ALIASES.get(told, told)
        if word not in words.CONDITIONS:
            self._refuse(told)
        self._take()
        if told == words.TAGS:
            return self._any_tag()
        where = words.WHERE.get(told)
        if where is None:
            return self._meaning(word)
        if where[0] is FilterField.VERSION and word in words.SIDES:
            return self._host_of(where[1], words.SIDES[word])
        return _only(self._meaning(word), where)

    def _any_tag(self) -> Expression:
        """Parse a condition on the VLAN of any tag; ``!=`` applies to all tags."""
        last = self._comparison(FilterField.VLAN)
        first = Within(FilterField.SVLAN, last.ranges)
        if self._operator != "!=":
            return Any((last, first))
        return All((last, Any((first, Not(Within(FilterField.SVLAN, ((0, FilterField.SVLAN.greatest),)))))))

    def _meaning(self, word: str) -> Expression:
        if word in words.WORDS:
            return words.WORDS[word]
        if word in words.FIELDS:
            return self._comparison(words.FIELDS[word])
        if word == words.PORT:
            return self._port()
        if word == words.INTERFACE:
            return self._name(word, LinkCondition)
        if word == words.CONNECTION:
            return self._name(word, self._connect)
        return self._host(words.SIDES[word])

    def _refuse(self, word: str) -> NoReturn:
        """Reject a word that begins no condition."""
        first = ("'not'", "'('", f"or one of {', '.join(words.CONDITIONS)}")
        if not word or not word[0].isalpha() or word in {"and", "or", "in"}:
            self.expected(", ".join(first))
        if word.startswith(words.AETH):
            self._wrong(f"there is no condition {word!r}", "the conditions on responses are ack, nak and rnr")
        remedy = suggest(word, [*words.CONDITIONS, *words.ALIASES], f"there is {', '.join(words.CONDITIONS)}")
        self._wrong(f"there is no condition {word!r}", remedy)

    def _port(self) -> Expression:
        """Parse a condition on either port; ``!=`` applies to both."""
        source = self._comparison(FilterField.SPORT)
        other = Within(FilterField.DPORT, source.ranges)
        return All((source, other)) if self._operator == "!=" else Any((source, other))

    def _name(self, word: str, meaning: Callable[[str], Expression]) -> Expression:
        operator = self._take()
        if operator not in {"==", "!="}:
            self.expected(f"== or != after {word}")
        if not self.token.text or not (self.token.text[0].isalnum() or self.token.text[0] == "_"):
            self.expected(f"a name after {word}")
        found = meaning(self._take())
        return found if operator == "==" else Not(found)

    def _host(self, side: AddressSide) -> Expression:
        operator = self._take() if self.token.text in {"==", "!="} else ""
        found = self._addresses(side)
        return Not(found) if operator == "!=" else found

    def _host_of(self, version: int, side: AddressSide) -> Expression:
        """Parse a host condition of one version of IP; ``!=`` also requires that version, as in Wireshark."""
        operator = self._take() if self.token.text in {"==", "!="} else ""
        place = self.token
        given = self._addresses(side)
        addresses = tuple(each for each in given.addresses if each.version == version)
        networks = tuple(each for each in given.networks if each.version == version)
        if not addresses and not networks:
            self.token = place
            self._wrong(f"no address of IPv{version} is given", f"{side.value} takes those of both versions")
        host = HostCondition(side, addresses, networks)
        same = Within(FilterField.VERSION, ((version, version),))
        return All((Not(host), same)) if operator == "!=" else host

    def _comparison(self, field: FilterField) -> Within:
        operator = self._operator = self.token.text
        if self._accept("in"):
            return Within(field, self._span(field))
        if operator not in _COMPARISONS:
            self.expected(f"{', '.join(_COMPARISONS)} or 'in' after {field.value[0]}")
        self._take()
        named = words.NAMED.get(field, {}).get(self.token.text.lower().replace("-", "_"))
        if named is not None:
            return self._named(field, set(named), operator)
        ranges = _COMPARISONS[operator](self._number(field), field.greatest)
        return Within(field, tuple(span for span in ranges if span[0] <= span[1]))

    def _named(self, field: FilterField, values: set[int], operator: str) -> Within:
        if operator not in {"==", "!="}:
            self.expected(f"a number after {operator}")
        self._take()
        wanted = values if operator == "==" else set(range(field.greatest + 1)) - values
        return Within(field, tuple(_runs(sorted(wanted))))

    def _span(self, field: FilterField) -> tuple[Range, ...]:
        """Parse ``A..B``. PSNs wrap (IBA vol. 1 section 9.7.1), so a range of PSNs may, too."""
        first = self._number(field)
        if not self._accept(".."):
            self.expected("'..' and the last value")
        place = self.token
        last = self._number(field)
        if first <= last:
            return ((first, last),)
        if field is not FilterField.PSN:
            self.token = place
            self.expected(f"{first} or more")
        return ((0, last), (first, field.greatest))

    def _number(self, field: FilterField) -> int:
        try:
            value = int(self.token.text, 0)
        except ValueError:
            value = -1
        if not 0 <= value <= field.greatest:
            also = {FilterField.OPCODE: " or the name of an opcode", FilterField.ICRC: ", ok, bad or unknown"}.get(
                field, ""
            )
            self.expected(f"a number from 0 to {field.greatest}{also}")
        self._take()
        return value

    def _addresses(self, side: AddressSide) -> HostCondition:
        if not self.token.text or not (self.token.text[0].isalnum() or self.token.text[0] in "_:"):
            self.expected("an IP address or the name of a host")
        text = self.token.text
        if text.lower() == words.PORT:  # tcpdump's syntax
            self._wrong(f"{side.value} takes hosts", "of ports write sport==4791 or dport==4791")
        try:
            found = (
                HostCondition(side, (), (ip_network(text),))
                if "/" in text
                else HostCondition(side, (ip_address(text),))
            )
        except ValueError as error:
            if "/" in text:
                self.expected(f"a network like 10.0.0.0/24 ({error})")
            found = HostCondition(side, tuple(self._resolve(text)))
        self._take()
        return found


def _only(found: Expression, where: tuple[FilterField, int]) -> Expression:
    """Restrict a condition to the headers of one protocol, as Wireshark does."""
    match found:
        case Within(field, ranges):
            return Within(field, ranges, where)
        case All(terms):
            return All(tuple(_only(term, where) for term in terms))
        case Any(terms):
            return Any(tuple(_only(term, where) for term in terms))
        case _:
            return found


def _runs(codes: list[int]) -> Iterable[Range]:
    """Yield sorted numbers as contiguous ranges."""
    first = last = codes[0]
    for code in codes[1:]:
        if code != last + 1:
            yield first, last
            first = code
        last = code
    yield first, last
