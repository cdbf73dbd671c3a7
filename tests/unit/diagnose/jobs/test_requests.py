"""Requests of transfers in a diagnosis: the pairs that they connect, and the time in which they ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from lab.diagnose.extract import collect
from lab.diagnose.run import _with_transfers
from lab.telemetry.read.recording import Recording
from tests.unit.telemetry.jobs.made_requests import FIRST, HOSTS, MS, TARGETS, request_run, requests
from tests.unit.telemetry.made import START

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.telemetry.made import Made

SENT: Final = 50_000


def sending(made: Made) -> None:
    """Both ends send."""
    for host in (*HOSTS, *TARGETS):
        priority = made.counters(f"{host}:eth1")["priority"]
        priority["tx_bytes"][3] += SENT
        priority["tx_packets"][3] += SENT // 5000


@pytest.mark.parametrize("verb", ["write", "read"])
def test_requests_are_transfers_of_the_side_that_sends_the_data(tmp_path: Path, verb: str) -> None:
    recording = Recording.open(request_run(tmp_path / "run", requests([600, 600], verb), moves=sending).finished())
    pairs = {(f"{host}:eth1", f"{target}:eth1") for host in HOSTS for target in TARGETS}
    found = collect(recording, recording.window()).transfers
    assert {(each.src, each.dst) for each in found} == (
        pairs if verb == "write" else {(dst, src) for src, dst in pairs}
    )


def test_the_time_of_the_requests_is_diagnosed_by_itself(tmp_path: Path) -> None:
    recording = Recording.open(request_run(tmp_path / "run", requests([600, 600]), moves=sending).finished())
    (during,) = _with_transfers(recording, recording.window())
    assert (during.start, during.end) == (START + FIRST * MS, START + (FIRST + 1210) * MS)
