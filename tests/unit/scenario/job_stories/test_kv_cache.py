"""A KV cache beside an AllReduce: each check has a recording that it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.telemetry.store.recording_folder import RecordKind
from scenarios.kv_cache_beside_allreduce import CACHE, HOSTS
from tests.unit.scenario.tale import Line, Ranks, Tale, failing, outcomes

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = "kv-cache-beside-allreduce"
DEPTH: Final = "leaf1:swp1 queue3_depth_bytes"
COUNTED: Final[Tale] = {"baseline": {DEPTH: 9_000}, "observe": {DEPTH: 260_000}, "verify": {DEPTH: 9_000}}


def steps(transfer: float) -> list[Ranks]:
    return [dict.fromkeys(HOSTS, (200.0, transfer))] * 3


def read(*ms: float) -> list[Line]:
    """KV caches that were read one after the other, each in so many ms."""
    times = [each / 1000 for each in ms]
    return [(RecordKind.TRANSFER, {
        "src": "h5:eth1", "dst": "h2:eth1", "verb": "read", "size": CACHE, "qps": 1, "messages": len(times),
        "seconds": sum(times), "times": times,
    })]  # fmt: skip


JOBS: Final = {"baseline": steps(215), "observe": steps(400), "verify": steps(218)}
BESIDE: Final = (27.0, 53.0) * 22
"""At the full rate while the ranks compute, and at half of it afterwards: 40 ms on average, 1.76 s together."""
LINES: Final = {"baseline": read(*[27.0] * 30), "observe": read(*BESIDE), "verify": read(*[27.5] * 44)}


def test_a_good_one_passes(tmp_path: Path) -> None:
    found = outcomes(tmp_path, NAME, COUNTED, 2.0, jobs=JOBS, lines=LINES)
    assert set(found.values()) == {"pass"}, found


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"jobs": {**JOBS, "baseline": steps(240), "verify": steps(240)}}, "alone-each-takes-what-the-links-allow"),
        ({"jobs": {**JOBS, "observe": steps(330)}}, "a-step-is-longer-by-half-of-the-link"),
        ({"jobs": {**JOBS, "observe": steps(215)}}, "a-step-is-longer-by-half-of-the-link"),
        ({"lines": {**LINES, "observe": read(*[27.0] * 60)}}, "a-kv-cache-takes-longer-by-the-same-share"),
        ({"lines": {**LINES, "observe": read(*[53.0] * 30)}}, "a-kv-cache-takes-longer-by-the-same-share"),
        ({"lines": {**LINES, "observe": read(*BESIDE[:20])}}, "a-kv-cache-takes-longer-by-the-same-share"),
        ({"jobs": {**JOBS, "verify": steps(240)}}, "both-recover"),
        ({"lines": {**LINES, "verify": read(*[40.0] * 30)}}, "both-recover"),
    ],
)
def test_each_figure_can_fail(changes: dict[str, Any], wrong: str, tmp_path: Path) -> None:
    given = {"jobs": JOBS, "lines": LINES, **changes}
    assert failing(tmp_path, NAME, COUNTED, {}, seconds=2.0, **given) == {wrong}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"observe": {"leaf1:swp1 queue3_depth_bytes": 90_000}}, "packets-wait-at-the-uplink"),
        ({"verify": {"leaf1:swp1 queue3_depth_bytes": 110_000}}, "packets-wait-at-the-uplink"),
        ({"observe": {"leaf1:swp1 queue3_drop_headroom_packets": 1}}, "nothing-is-lost"),
    ],
)
def test_each_counter_can_fail(changes: Tale, wrong: str, tmp_path: Path) -> None:
    assert failing(tmp_path, NAME, COUNTED, changes, seconds=2.0, jobs=JOBS, lines=LINES) == {wrong}


def test_without_a_job_its_figures_are_unknown(tmp_path: Path) -> None:
    found = outcomes(tmp_path, NAME, COUNTED, 2.0, lines=LINES)
    known = {"packets-wait-at-the-uplink", "nothing-is-lost", "no-link-or-session-changes"}
    assert {name for name, outcome in found.items() if outcome != "unknown"} == known
