"""A switch's buffer among simulated links and peers: whatever arrives, a lossless class loses nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from lab.model.qos.headroom import VIRTUAL_REACTION, headroom_needed
from tests.models.port_model import run_on_sources

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping
    from pathlib import Path

_HEADROOM: Final = headroom_needed(100_000_000, 4350, 0, VIRTUAL_REACTION)
"""Bytes: that of the model's links."""
_MUTANTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "passed, and in headroom all the same": ("(config->lossless && !group->paused &&", "(0 &&", "HEADROOM"),
    "a pause that ends with bytes in headroom": (" && !group->headroom", "", "HEADROOM"),
    "a pause that waits for bytes it has not": (
        "group->bytes > xon ? group->bytes - xon : group->headroom",
        "group->bytes - xon",
        "STUCK",
    ),
    "as if XOFF had not been sent": ("config->lossless && !group->paused", "config->lossless", "THRESHOLD"),
    "as if every port sent PFC": ("&& rl_group_classes(ingress->config, index))", ")", "THRESHOLD"),
    "bytes that stay in the pool": ("if (more)", "if ((__s64)more > 0)", "LEFT"),
}


def simulate(
    folder: Path, seeds: int, headroom: int, *changes: tuple[str, str, str]
) -> subprocess.CompletedProcess[str]:
    """Run two seconds of four peers for each seed."""
    return run_on_sources("buffer", folder, (seeds, 2_000_000, headroom), changes)


@pytest.mark.parametrize("seeds", [100, pytest.param(20_000, marks=pytest.mark.long)])
def test_headroom_is_enough_whatever_arrives(tmp_path: Path, seeds: int) -> None:
    ended = simulate(tmp_path, seeds, _HEADROOM)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("mistake", _MUTANTS)
def test_a_mistake_in_the_buffer_is_seen(tmp_path: Path, mistake: str) -> None:
    before, after, seen = _MUTANTS[mistake]
    ended = simulate(tmp_path, 300, _HEADROOM, ("buffer.h", before, after))
    assert ended.stdout.startswith(seen), ended.stdout


def test_headroom_for_less_than_two_frames_is_not_enough(tmp_path: Path) -> None:
    """The packet that crosses XOFF, and the next, which begins while the PFC frame waits, need it whole."""
    assert simulate(tmp_path, 300, 2 * 4368 - 1).stdout.startswith("DROP")
