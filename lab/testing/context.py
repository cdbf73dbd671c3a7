"""A fabric for the length of a block: what pytest's fixtures are in a test, for a script of one's own."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab.testing.fabric_fixture import FabricFixture, Faults, Recordings
from lab.testing.marker import FabricRequest
from lab.testing.pool import FabricPool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_KEEPER: Final = "block"


@dataclass(frozen=True)
class RunningFabric:
    """A fabric that is up, and what a script does with it."""

    fabric: FabricFixture
    fault: Faults
    recording: Recordings


@contextlib.contextmanager
def running(
    topology: str | Path | Mapping[str, Any], *, rdma: bool = True, folder: Path | None = None
) -> Iterator[RunningFabric]:
    """Build a fabric under a name of its own, and take it down behind the block, whatever happens in it.

    ``topology`` is a YAML file (here, or one of rocelab's own), or what would stand in one. Captures and recordings
    go to ``folder``, or away with the block. Raises as ``lifecycle.up``; UsageError where there is no such file.
    """
    pool = FabricPool()
    with contextlib.ExitStack() as ends:
        kept = folder or Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="rocelab-")))
        asked = FabricRequest(topology, rdma=rdma).load([Path.cwd()], "<topology>")
        ends.callback(pool.close)
        fabric = FabricFixture(pool.get(_KEEPER, asked), kept)
        faults = Faults(fabric)
        ends.callback(faults.heal)
        yield RunningFabric(fabric, faults, Recordings(fabric))
