"""CPU masks as the kernel reads them, and how much a shaped port queues."""

import pytest

from lab.kernel.process.tuning import _cpu_mask
from lab.model.shaping import shaper_limit
from lab.units import WIRE_OVERHEAD


@pytest.mark.parametrize(
    ("cpu", "mask"),
    [
        (0, "1"),
        (5, "20"),
        (31, "80000000"),
        (32, "1,00000000"),
        (63, "80000000,00000000"),
        (64, "1,00000000,00000000"),
    ],
)
def test_a_cpu_is_one_bit_of_words_of_32(cpu: int, mask: str) -> None:
    """lib/bitmap.c: the highest word first, parted by commas."""
    assert _cpu_mask(cpu) == mask
    assert int(mask.replace(",", ""), 16) == 1 << cpu


def test_a_port_queues_5_ms_and_never_fewer_than_64_frames() -> None:
    assert shaper_limit(10**9, 9000) == 10**9 // 8 * 5 // 1000
    assert shaper_limit(20 * 10**6, 9000) == 64 * (9000 + WIRE_OVERHEAD)
