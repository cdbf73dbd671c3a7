"""What somebody asks for: a kind, a place and parameters, as written; checked against a fabric before anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lab.errors import UsageError
from lab.faults.catalogue import KINDS
from lab.faults.fault_place import find_place
from lab.faults.parameters import read
from lab.model.values.suggest import suggest
from lab.model.values.yamltext import show

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lab.backends.backend import Fabric
    from lab.faults.fault import Fault, Parameters
    from lab.faults.fault_place import FaultPlace
    from lab.model.topology import Topology


@dataclass(frozen=True)
class FaultRequest:
    """A fault as people write it; parameters are those that were given."""

    kind: str
    place: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind} at {self.place}"


def understand(fabric: Fabric, wish: FaultRequest) -> Fault[Any]:
    """What a wish means in a fabric; UsageError and InvalidInput say what of it means nothing."""
    kind = find_kind(wish.kind)
    parameters = read_parameters(kind, wish.parameters)
    return kind(fabric, place_of(fabric.topology, kind, wish.place), parameters)


def read_parameters(kind: type[Fault[Any]], written: Mapping[str, Any]) -> Parameters:
    """The parameters of a kind; InvalidInput names all that are wrong."""
    return read(kind.parameters, written, kind.name, f"rocelab fault show {kind.name}")


def place_of(topology: Topology, kind: type[Fault[Any]], name: str) -> FaultPlace:
    """What a place means to a kind; UsageError when it means nothing there."""
    try:
        return find_place(topology, kind.form, name)
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
