"""What a test asks for with ``@pytest.mark.rocelab(...)``: which fabric, and how long it is to live."""

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
    """How long a fabric lives, in pytest's words."""

    FUNCTION = "function"
    MODULE = "module"
    SESSION = "session"


@dataclass(frozen=True)
class FabricRequest:
    """A fabric that is wanted: a file, or what would stand in one."""

    topology: str | Path | Mapping[str, Any] | None = None
    scope: FabricScope = FabricScope.FUNCTION
    rdma: bool = True

    def with_marker(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> FabricRequest:
        """The same with what a marker says; UsageError for what it cannot say."""
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
        """The fabric: of a file in the first of the folders that has it, or of a mapping, which is called ``name``.

        UsageError when there is none, InvalidInput when it breaks rules.
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
    """A scope by its name; UsageError lists them."""
    if word not in list(FabricScope):
        raise UsageError(f"there is no scope {word!r}", f"choose {', '.join(FabricScope)}")
    return FabricScope(str(word))


def _found(file: Path, folders: Iterable[Path]) -> Path:
    """The file where it is; where it is nowhere, as it was written."""
    return next((folder / file for folder in folders if (folder / file).is_file()), file)
