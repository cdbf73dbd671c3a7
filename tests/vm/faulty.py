"""A fabric of a test's own, and faults in it, in words as they are typed."""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lab.backends import lifecycle, registry
from lab.faults import engine
from lab.faults.wish import Wish, parse_words
from lab.model.load import load_topology
from tests import backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.backends.base import Fabric
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
    return engine.inject(fabric, Wish(kind, place, parse_words(words)))
