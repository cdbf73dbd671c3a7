"""The tables of ``rocelab analyze`` on a terminal of 80 columns: no line is longer, and what has no room is named."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE
from tests.unit.analysis import packets
from tests.unit.analysis.journeys import LINKS, Journeys

if TYPE_CHECKING:
    from pathlib import Path

PATHS = [
    (packets.THERE, packets.BACK),
    (packets.Path("10.123.200.101", "10.123.200.102"), packets.Path("10.123.200.102", "10.123.200.101")),
]


@pytest.mark.parametrize("paths", PATHS, ids=["short", "long"])
def test_every_table_fits(tmp_path: Path, paths: tuple[packets.Path, packets.Path]) -> None:
    there, back = paths
    told = Journeys()
    for psn in (*range(1, 40), 41, 42):
        told.there(psn * 10_000, packets.send(psn, 900, path=there))
    told.back(25_000, packets.ack(1, path=back))
    told.back(500_000, packets.ack(40, 0x60, path=back))
    for psn in (40, 41, 42):
        told.there(600_000 + psn * 10_000, packets.vxlan(packets.send(psn, 900, path=there)))
        told.there(700_000 + psn * 10_000, packets.send(psn, 900, path=there))
    for time, psn in ((770_000, 44), (780_000, 43)):
        told.there(time, packets.send(psn, 900, path=there))
    told.taken += [(800_000, 1, 1, packets.pause({3: 0xFFFF})), (990_000, 1, 1, packets.pause({3: 0}))]
    file = tmp_path / "a.pcapng"
    file.write_bytes(told.capture())
    argv = [sys.executable, "-m", "lab", "analyze", str(file)]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=PATIENCE, env={"COLUMNS": "80", "PYTHONUTF8": "1"}
    )
    assert done.returncode == 1, done.stderr
    drawn = [line for line in done.stdout.splitlines() if line[:1] in set("┏┃┡│└")]
    assert drawn
    assert max(map(len, drawn)) <= 80
    for head in ("ACK latency p50, p99", "out-of-order", "retransmitted", "priority", "Go-back-N episodes"):
        assert head in done.stdout
    assert all(link in done.stdout for link in LINKS), "names are whole"
    assert "no room for " in done.stdout
