"""Packets that are alike where a walk looks: one walk for all of them, and the same answer as for each alone."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from lab.analysis.decode.header_walk_columns import Strata
from lab.analysis.decode.packet_templates import LEAST, shapes
from lab.analysis.read.packet_batch import SLACK
from tests.fuzz.seeds import frames
from tests.unit.analysis import packets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.analysis.read.packet_batch import Ints, Octets

NEXT_HEADER = 20


def _laid(several: Sequence[bytes], more: int = 0) -> tuple[Octets, Ints, Ints, Ints]:
    """Packets in one buffer: where each starts, and its captured and its original length."""
    captured = np.array([len(frame) for frame in several])
    start = np.cumsum(captured) - captured
    return np.frombuffer(b"".join(several) + bytes(SLACK), np.uint8), start, captured, captured + more


def _found(several: Sequence[bytes]) -> list[object]:
    """By packet: its headers and places, and how the walk ended."""
    data, start, captured, length = _laid(several)
    strata = Strata(data, start, start + captured, start + length)
    steps: list[list[object]] = [[] for _ in several]
    for stratum in strata.strata:
        for row, at, octets in zip(stratum.row.tolist(), stratum.at.tolist(), stratum.octets, strict=True):
            steps[row].append((stratum.header, at - int(start[row]), octets.tobytes()))
    ends = zip(
        strata.at - start, strata.end - start, strata.fault, strata.short, strata.other, strict=True
    )  # fmt: skip
    return [(step, tuple(map(int, end))) for step, end in zip(steps, ends, strict=True)]


def _changed(frame: bytes, rng: random.Random) -> bytes:
    """One octet of its headers is another one, or it is cut."""
    at = rng.randrange(len(frame))
    return rng.choice([frame[:at] + bytes([rng.randrange(256)]) + frame[at + 1 :], frame[: max(at, 14)], frame])


@pytest.mark.parametrize("kind", range(0, len(frames()), 7))
def test_many_packets_are_judged_as_each_alone_is(kind: int) -> None:
    rng = random.Random(kind)
    mixed = [_changed(frames()[kind], rng) for _ in range(4 * LEAST)]
    assert _found(mixed) == [_found([frame])[0] for frame in mixed]


def test_what_a_walk_does_not_look_at_makes_no_other_shape() -> None:
    several = [packets.vxlan(packets.send(psn)) for psn in range(2 * LEAST)]
    (shape,) = shapes(*_laid(several))
    assert shape.row.tolist() == list(range(2 * LEAST))


def test_what_a_walk_looks_at_does() -> None:
    """Every second packet has another next header, and the last one is cut."""
    plain = packets.send(7, path=packets.THERE6)
    other = plain[:NEXT_HEADER] + b"\x3b" + plain[NEXT_HEADER + 1 :]
    several = [plain, other] * LEAST + [plain[:-1]]
    found = {tuple(shape.row.tolist()) for shape in shapes(*_laid(several))}
    assert found == {tuple(range(0, 2 * LEAST, 2)), tuple(range(1, 2 * LEAST, 2))}


def test_few_packets_and_packets_that_all_differ_have_none() -> None:
    assert list(shapes(*_laid([packets.send(psn) for psn in range(LEAST - 1)]))) == []
    assert list(shapes(*_laid([packets.send(1, size) for size in range(4 * LEAST)]))) == []
