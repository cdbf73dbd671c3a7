"""The marker ``@pytest.mark.rocelab(...)``: the fabric of a test, and how long it lives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab.backends.lifecycle import without_rdma
from lab.errors import UsageError
from lab.faults import declared
from lab.kernel.process import time_source
from lab.model.load import load_topology, read_topology
from lab.model.values.suggest import suggest
from lab.scenario.library import OWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lab.model.topology import Topology

_KEYS: Final = ("topology", "scope", "rdma")
_EXAMPLE: Final = 'write @pytest.mark.rocelab(topology="fabric.yaml", scope="module")'


class FabricScope(StrEnum):
    """The lifetime of a fabric, as a pytest scope."""

    FUNCTION = "function"
    MODULE = "module"
    SESSION = "session"


@dataclass(frozen=True)
class FabricRequest:
    """A requested fabric: a topology file, or a mapping with its content."""

    topology: str | Path | Mapping[str, Any] | None = None
    scope: FabricScope = FabricScope.FUNCTION
    rdma: bool = True

    def with_marker(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> FabricRequest:
        """Return a copy with the keywords of a marker. Raises UsageError for invalid ones."""
        if arguments:
            raise UsageError(f"marker rocelab: {arguments[0]!r} has no name", _EXAMPLE)
        for key in keywords:
            if key not in _KEYS:
                raise UsageError(f"marker rocelab has no {key!r}", suggest(key, _KEYS, _EXAMPLE))
        said = dict(keywords)
        if "scope" in said:
            said["scope"] = scope_of(said["scope"])
        if not isinstance(said.get("topology", ""), str | Path | Mapping):
            raise UsageError("marker rocelab: topology is neither a file nor a mapping", _EXAMPLE)
        return replace(self, **said)

    def load(self, folders: Iterable[Path], name: str) -> Topology:
        """Return the topology, from the first folder that contains the file, or from a mapping.

        ``name`` denotes a mapping in errors. Raises UsageError if there is no topology, InvalidInput if it is
        invalid.
        """
        if self.topology is None:
            raise UsageError("the test names no topology", _EXAMPLE)
        if isinstance(self.topology, Mapping):
            text = json.dumps({"name": "test", **self.topology})  # YAML has JSON in it
            found = load_topology(text, name, time_source.reaction(), declared.check)
        else:
            found = read_topology(
                _found(Path(self.topology), [*folders, OWN.parent / "topologies"]),
                time_source.reaction(),
                declared.check,
            )
        return found if self.rdma else without_rdma(found)


def scope_of(word: object) -> FabricScope:
    """Return a scope by name. Raises UsageError that lists all scopes."""
    if word not in list(FabricScope):
        raise UsageError(f"there is no scope {word!r}", f"choose {', '.join(FabricScope)}")
    return FabricScope(str(word))


def _found(file: Path, folders: Iterable[Path]) -> Path:
    """Return the path of an existing file in one of the folders, or else the file as written."""
    return next((folder / file for folder in folders if (folder / file).is_file()), file)
