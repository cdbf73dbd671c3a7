"""A fabric of a test's own, and faults in it, in words as they are typed."""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lab.backends import lifecycle, registry
from lab.faults import fault_engine
from lab.faults.fault_request import FaultRequest, parse_words
from lab.model.load import load_topology
from tests import backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.backends.backend import Fabric
    from lab.faults.ledger import Entry


@contextmanager
def built(topology: str) -> Iterator[Fabric]:
    """The fabric of a topology's text, for as long as the block lasts."""
    fabric, _ = lifecycle.up(load_topology(topology), registry.backend(backend.chosen()))
    yield fabric
    lifecycle.down(fabric.state)


def inject(fabric: Fabric, text: str) -> Entry:
    """Inject what ``rocelab fault inject`` would, by the words that come behind it."""
    kind, place, *words = shlex.split(text)
    return fault_engine.inject(fabric, FaultRequest(kind, place, parse_words(words)))
