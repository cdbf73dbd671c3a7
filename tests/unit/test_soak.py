"""The judge of ``./scripts/soak``: what it must call growth, and what it must not."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.bench.soak import KIB, Sample, growth, judged, lost_page_tables, own_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

CYCLES = 200
MIB = 2**20


def samples(leaked: float = 0, processes: int = 0) -> list[Sample]:
    """Memory that moves by half a mebibyte at random, and so much more each cycle."""
    chance = random.Random(4)
    return [
        Sample(
            {"processes": 3 + (processes if at > CYCLES // 2 else at % 2)},
            {"slab": int(chance.gauss(64 * 2**20, 2**19) + leaked * at)},
        )
        for at in range(CYCLES)
    ]


def test_a_host_that_only_moves_does_not_grow() -> None:
    assert judged(samples()) == []


def test_a_leak_is_told_with_its_size() -> None:
    (line,) = judged(samples(leaked=32 * KIB))
    assert line.startswith("slab: ")
    assert float(line.split()[1]) == pytest.approx(32, abs=3)


def test_a_thing_too_many_is_told() -> None:
    assert judged(samples(processes=2)) == ["processes: 4 at first, 5 at last"]


def test_the_slope_is_that_of_a_line_and_its_error_that_of_the_textbook() -> None:
    """1, 3, 2, 5, 4: slope 0.8, residual sum of squares 3.6 over 3 degrees of freedom, 10 of the squares of x."""
    found = growth([1, 3, 2, 5, 4])
    assert found.per_cycle == pytest.approx(0.8)
    assert found.error == pytest.approx((3.6 / 3 / 10) ** 0.5)
    assert not found.grows


@contextlib.contextmanager
def collector_off() -> Iterator[None]:
    """Cycles stay, as those of an older generation do for long."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_what_python_only_has_not_collected_yet_is_not_in_use() -> None:
    with collector_off():
        before = own_memory()
        for _ in range(64):
            cycle: list[object] = [bytearray(b"x" * MIB)]
            cycle.append(cycle)
        del cycle
        assert own_memory() - before < 8 * MIB


def test_what_malloc_only_keeps_is_not_in_use() -> None:
    """Blocks of 64 KiB, which malloc takes from its heap; the last of them keeps it from shrinking by itself."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    before = own_memory()
    blocks = [libc.malloc(64 * KIB) for _ in range(1024)]
    for block in blocks:
        ctypes.memset(block, 1, 64 * KIB)
    assert own_memory() - before > 56 * MIB
    for block in blocks[:-1]:
        libc.free(ctypes.c_void_p(block))
    assert own_memory() - before < 8 * MIB
    libc.free(ctypes.c_void_p(blocks[-1]))


SPARSE = f"""
import mmap, sys
memory = mmap.mmap(-1, 2**33, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
memory.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, 2**33, {2 * MIB}):
    memory[at]
print("ready", flush=True)
sys.stdin.read()
"""
"""A page of each 2 MiB of 8 GiB: 4096 page tables of 4 KiB, and nothing but the page of zeroes in them."""


def test_page_tables_that_a_process_has_are_not_lost() -> None:
    before = lost_page_tables()
    with subprocess.Popen([sys.executable, "-c", SPARSE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        after = lost_page_tables()
        status = Path(f"/proc/{other.pid}/status").read_text(encoding="utf-8")
        other.communicate()
    assert int(re.findall(r"VmPTE:\s+(\d+) kB", status)[0]) * KIB >= 16 * MIB
    assert abs(after - before) < 8 * MIB


COUNTED = """
import sys
from tests.bench import soak
imported = []
def look():
    imported.append(set(sys.modules))
    return soak.Sample({}, {})
soak.look = look
soak.soak(lambda: None, 40)
print(sorted(imported[-1] - imported[0]))
"""


def test_nothing_is_imported_any_more_when_it_counts() -> None:
    """What prints the first line takes half a mebibyte, which stood as a step between two samples."""
    done = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout == "[]\n"
