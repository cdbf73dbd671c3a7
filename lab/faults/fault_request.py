"""Fault requests: kind, place and parameters as written, checked against a fabric before any change."""

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
    """A requested fault, with the parameters that were given."""

    kind: str
    place: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind} at {self.place}"


def understand(fabric: Fabric, wish: FaultRequest) -> Fault[Any]:
    """Return the requested fault. Raises UsageError or InvalidInput for invalid parts."""
    kind = find_kind(wish.kind)
    parameters = read_parameters(kind, wish.parameters)
    return kind(fabric, place_of(fabric.topology, kind, wish.place), parameters)


def read_parameters(kind: type[Fault[Any]], written: Mapping[str, Any]) -> Parameters:
    """Return the parameters of a kind. Raises InvalidInput that lists all invalid ones."""
    return read(kind.parameters, written, kind.name, f"rocelab fault show {kind.name}")


def place_of(topology: Topology, kind: type[Fault[Any]], name: str) -> FaultPlace:
    """Return the place that a name denotes for a kind. Raises UsageError for an invalid one."""
    try:
        return find_place(topology, kind.form, name)
    except UsageError as error:
        raise UsageError(f"{kind.name}: {error.message}", error.remedy or f"a place is {kind.form.value}") from error


def find_kind(name: str) -> type[Fault[Any]]:
    """Return the kind with this name. Raises UsageError if there is none."""
    if name not in KINDS:
        raise UsageError(f"there is no kind of fault {name!r}", suggest(name, KINDS, "rocelab fault ls --kinds"))
    return KINDS[name]


def parse_words(words: Iterable[str]) -> dict[str, str]:
    """Parse parameters ``name=value``. Raises UsageError for a word of another form, or a duplicate name."""
    found: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise UsageError(f"{show(word)} is no parameter", "write it like probability=1%")
        if name in found:
            raise UsageError(f"parameter {name} is given twice", "leave one out")
        found[name] = value
    return found
