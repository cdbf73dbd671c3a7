"""What somebody asks for: a kind, a place and parameters, as written; checked against a fabric before anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from lab.errors import InvalidInput, Problem, UsageError
from lab.faults.catalogue import KINDS
from lab.faults.place import find_place
from lab.model.suggest import suggest
from lab.model.yamltext import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pydantic_core import ErrorDetails

    from lab.backends.base import Fabric
    from lab.faults.fault import Fault, Parameters


@dataclass(frozen=True)
class Wish:
    """A fault as people write it; parameters are those that were given."""

    kind: str
    place: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind} at {self.place}"


def understand(fabric: Fabric, wish: Wish) -> Fault[Any]:
    """What a wish means in a fabric; UsageError and InvalidInput say what of it means nothing."""
    kind = find_kind(wish.kind)
    parameters = _parameters(kind, wish.parameters)
    try:
        return kind(fabric, find_place(fabric.topology, kind.form, wish.place), parameters)
    except UsageError as error:
        raise UsageError(f"{kind.name}: {error.message}", error.remedy or f"a place is {kind.form.value}") from error


def find_kind(name: str) -> type[Fault[Any]]:
    """The kind of this name; UsageError when there is none."""
    if name not in KINDS:
        raise UsageError(f"there is no kind of fault {name!r}", suggest(name, KINDS, "rocelab fault ls --kinds"))
    return KINDS[name]


def parse_words(words: Iterable[str]) -> dict[str, str]:
    """Parameters written ``name=value``; UsageError for a word that is not, or comes twice."""
    found: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise UsageError(f"{show(word)} is no parameter", "write it like probability=1%")
        if name in found:
            raise UsageError(f"parameter {name} is given twice", "leave one out")
        found[name] = value
    return found


def _parameters(kind: type[Fault[Any]], written: Mapping[str, Any]) -> Parameters:
    try:
        return kind.parameters.model_validate(written)
    except ValidationError as error:
        problems = [_problem(kind, detail) for detail in error.errors()]
        raise InvalidInput(kind.name, sorted(set(problems))) from error


def _problem(kind: type[Fault[Any]], detail: ErrorDetails) -> Problem:
    key = ".".join(str(part) for part in detail["loc"])
    known = [field.alias or name for name, field in kind.parameters.model_fields.items()]
    if detail["type"] == "extra_forbidden":
        others = f"it has {', '.join(known)}" if known else "it has none"
        return Problem(key, "is no parameter of this kind", suggest(key, known, others))
    if detail["type"] == "missing":
        return Problem(key, "is missing", f"give {key}=...: see rocelab fault show {kind.name}")
    message, _, remedy = str(detail.get("ctx", {}).get("error", detail["msg"])).partition("; ")
    return Problem(key, message, remedy or f"see rocelab fault show {kind.name}")
