"""How long a ring sums beside queues that mark, by the model alone, with thresholds alike and 3 KB lower at one.

The story ecn-off-by-3kb-256 compares what it measures with these times.
"""

from __future__ import annotations

from statistics import fmean

import pytest

from scenarios import ecn_off_by_3kb_256 as story
from tests.models.dcqcn.marked_ring import MarkedRing, packets_of, step_seconds

RUNS = range(4)
PAUSES = (0.0, 0.009)
"""Seconds in which no read arrives, of each 0.1 s."""


def ring(lower: int, pause: float = 0.0) -> MarkedRing:
    """The ring of the story, with thresholds of the second queue that are ``lower`` bytes less."""
    return MarkedRing(
        kmins=(story.KMIN, story.KMIN - lower), ramp=story.KMAX - story.KMIN, rate=story.RATE * 1e6,
        reads=story.READS, read=story.PACKET, scale=story.SCALE, part=packets_of(story.SIZE // len(story.HOSTS)),
        steps=story.STEPS, compute=story.COMPUTE, ranks=len(story.HOSTS), pause=pause,
    )  # fmt: skip


@pytest.mark.parametrize("pause", PAUSES)
@pytest.mark.parametrize(("lower", "seconds"), [(0, story.USUAL), (story.OFF, story.SLOW)])
def test_a_sum_takes_as_long_as_in_the_story(lower: int, seconds: float, pause: float) -> None:
    found = [step_seconds(ring(lower, pause), seed) for seed in RUNS]
    assert fmean(found) == pytest.approx(seconds, rel=0.05)
    assert found == pytest.approx([seconds] * len(found), rel=story.TOLERANCE)


def test_sixty_percent_of_the_rate_are_left() -> None:
    usual, slow = (fmean(step_seconds(ring(lower), seed) for seed in RUNS) for lower in (0, story.OFF))
    assert usual / slow == pytest.approx(0.6, rel=0.05)


def test_half_of_the_difference_is_outside_of_the_bounds() -> None:
    seconds = fmean(step_seconds(ring(story.OFF // 2), seed) for seed in RUNS)
    assert seconds < (1 - story.TOLERANCE) * story.SLOW
    assert seconds > (1 + story.TOLERANCE) * story.USUAL


def test_a_part_has_the_packets_of_its_messages() -> None:
    """rxe sends 66 data packets for 60,000 bytes: seven messages of 8 x 1024 + 64 bytes, and one of 2208."""
    sizes = packets_of(60_000)
    assert len(sizes) == 7 * 9 + 3
    assert sum(sizes) == 60_000 + 66 * 58
