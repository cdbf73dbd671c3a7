"""Parse YAML strictly into plain data, with the line of every value.

Only mappings with text keys, lists and scalars are accepted. Anchors, aliases, tags and several documents in one file
are rejected, so that a text cannot expand beyond its own size. Plain scalars follow the YAML 1.2 core schema: only
``true``, ``false``, ``null``, decimal integers and fractions are not text. So ``no``, ``1:30`` and ``0x10`` stay
text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import yaml

from lab.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Path: TypeAlias = tuple[str | int, ...]
Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"

MAX_TEXT: Final = 2**20
"""The most characters of one file; 2,000 nodes with every link take half of it."""
MAX_DEPTH: Final = 16
"""The deepest nesting of lists and mappings."""
MAX_VALUES: Final = 100_000
"""The most scalars, lists and mappings in one file."""
_MAX_PROBLEMS: Final = 100

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,39})\Z")
_FRACTION = re.compile(r"-?[0-9]{1,17}\.[0-9]{1,17}\Z")
_FORBIDDEN = re.compile("[^\\t\\n\\r -~\\x85\\xa0-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""Characters that YAML 1.2.2 section 5.1 does not allow: controls and halves of surrogate pairs."""
_WORDS: Final[dict[str, bool | None]] = {"": None, "~": None, "null": None, "true": True, "false": False}
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass
class Document:
    """The data of a text, the line of each value (from 1), and the problems of its YAML."""

    data: Value = None
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def line(self, path: Path) -> int:
        """Return the line of ``path``, or of the nearest enclosing value."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return 1


def format_path(path: Sequence[str | int]) -> str:
    """Format ``("links", 3, "rate")`` as ``links[3].rate``; parts other than plain keys are quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            shown = part if re.fullmatch(r"[\w-]{1,64}", part, re.ASCII) else show(part)
            text += f".{shown}" if text else shown
    return text


def show(value: object) -> str:
    """Format ``value`` as written: text quoted, long values cut, always on one printable line."""
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    shown = ascii(value)
    return shown if len(shown) <= 60 else f"{shown[:50]}...{shown[-1]}"


def read_yaml(text: str, source: str) -> Document:
    """Parse ``text``; raise InvalidInput if it is not YAML. ``problems`` lists YAML features that are not allowed."""
    if len(text) > MAX_TEXT:
        limit = Problem("", f"has more than {MAX_TEXT} characters", "use a generator or split the fabric")
        raise InvalidInput(source, [limit])
    if forbidden := _FORBIDDEN.search(text):
        line = text.count("\n", 0, forbidden.start()) + 1
        control = Problem(
            path="",
            message=f"has the control character {show(forbidden[0])}",
            remedy="remove it; save as UTF-8",
            line=line,
        )
        raise InvalidInput(source, [control])
    try:
        return _Builder(text).document
    except yaml.YAMLError as error:
        raise InvalidInput(source, [_syntax_problem(error)]) from error
    except _TooMuchError as error:
        raise InvalidInput(source, [error.problem]) from error


def _syntax_problem(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    said = [getattr(error, name, None) for name in ("context", "problem", "reason")]
    why = ": ".join(str(text) for text in said if text)
    where = f" (column {mark.column + 1})" if mark else ""
    remedy = "check the indentation, brackets and quotes here and just above"
    return Problem(
        path="", message=f"is not valid YAML: {why}{where}", remedy=remedy, line=mark.line + 1 if mark else 1
    )


class _TooMuchError(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


class _Builder:
    """Folds the parser's events into one document; the depth limit bounds its recursion."""

    def __init__(self, text: str) -> None:
        self.document = Document()
        self._events: Iterator[Any] = iter(yaml.parse(text, _LOADER))
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if self.document.lines:
                    self._complain((), "is a second document", "keep one fabric in one file", event)
                    return
                self.document.data = self._value(next(self._events), ())

    def _complain(self, path: Path, message: str, remedy: str, event: Any) -> None:
        if len(self.document.problems) < _MAX_PROBLEMS:
            self.document.problems.append(
                Problem(path=format_path(path), message=message, remedy=remedy, line=event.start_mark.line + 1)
            )

    def _value(self, event: Any, path: Path) -> Value:
        line = event.start_mark.line + 1
        self.document.lines.setdefault(path, line)
        if len(path) > MAX_DEPTH:
            raise _TooMuchError(
                Problem(path="", message=f"nests deeper than {MAX_DEPTH} levels", remedy="flatten it", line=line)
            )
        if len(self.document.lines) > MAX_VALUES:
            raise _TooMuchError(
                Problem(path="", message=f"has more than {MAX_VALUES} values", remedy="use a generator", line=line)
            )
        if isinstance(event, yaml.AliasEvent):
            self._complain(path, f"is an alias (*{event.anchor})", "write the value out", event)
            return None
        if event.anchor is not None:
            self._complain(path, f"has an anchor (&{event.anchor})", "remove it; anchors are not used here", event)
        if event.tag is not None:
            self._complain(path, f"has a tag ({show(event.tag)})", "remove it; tags are not used here", event)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(path)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(path)
        return _scalar(event)

    def _list(self, path: Path) -> list[Value]:
        items: list[Value] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(event, (*path, len(items))))
        return items

    def _mapping(self, path: Path) -> dict[str, Value]:
        found: dict[str, Value] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = event.value if isinstance(event, yaml.ScalarEvent) else None
            if key is None:
                self._complain(path, "has a key that is not text", "write keys as plain words", event)
                self._value(event, (*path, "?"))
                self._value(next(self._events), (*path, "?"))
                continue
            here = (*path, key)
            if key in found:
                first = self.document.lines[here]
                self._complain(here, f"is there twice, first in line {first}", "keep one of them", event)
                self._value(next(self._events), (*path, "?"))
                continue
            self.document.lines[here] = event.start_mark.line + 1
            found[key] = self._value(next(self._events), here)
        return found


def _scalar(event: Any) -> Value:
    text: str = event.value
    if not event.implicit[0]:
        return text
    if text.lower() in _WORDS and text in {text.lower(), text.title(), text.upper()}:
        return _WORDS[text.lower()]
    if _INTEGER.match(text):
        return int(text)
    return float(text) if _FRACTION.match(text) else text
