"""The fuzzer's targets on its seeds, and on some hundred damaged ones that are always the same."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.seeds import SEEDS
from tests.fuzz.targets import TARGETS

ROUNDS = 60


@pytest.mark.parametrize("name", TARGETS)
def test_seeds(name: str) -> None:
    for seed in SEEDS[name]():
        TARGETS[name](seed)


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_seeds(name: str) -> None:
    rng = random.Random(name)
    for _ in range(ROUNDS):
        TARGETS[name](damaged(rng.choice(SEEDS[name]()), rng))


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Octets changed, a piece repeated or left out, or the end cut off."""
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        changed[rng.randrange(len(changed))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    first, last = sorted(rng.randrange(len(changed)) for _ in range(2))
    piece = changed[first:last]
    return bytes(
        rng.choice(
            [changed, changed[:last], changed[:first] + changed[last:], changed[:last] + piece + changed[last:]]
        )
    )
