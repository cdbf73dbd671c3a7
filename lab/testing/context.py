"""A fabric for the length of a block: pytest's fixtures for use in scripts."""

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
    """A running fabric with the means to inject faults and record."""

    fabric: FabricFixture
    fault: Faults
    recording: Recordings


@contextlib.contextmanager
def running(
    topology: str | Path | Mapping[str, Any], *, rdma: bool = True, folder: Path | None = None
) -> Iterator[RunningFabric]:
    """Build a fabric with a unique name, and take it down at the end of the block, whatever happens.

    ``topology`` is a YAML file (in the current folder or one of rocelab's), or a mapping with its content. Captures
    and recordings go to ``folder``; without one they are deleted. Raises the errors of ``lifecycle.up``, and
    UsageError if there is no such file.
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
