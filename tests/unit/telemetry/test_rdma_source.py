"""Counters of RDMA devices, of which one may be gone: from the beginning, or later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lab.rdma import device_counters
from lab.telemetry.sample.rdma_source import RdmaSource

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

DEVICES = [("h1", "eth1", "lab.h1"), ("h2", "eth1", "lab.h2")]


def counting(folder: Path, device: str, value: int) -> None:
    """A device whose two counters have these values."""
    files = folder / device / "ports" / "1" / "hw_counters"
    files.mkdir(parents=True, exist_ok=True)
    for name in ("rcvd_pkts", "sent_pkts"):
        (files / name).write_text(f"{value}\n")


def test_one_that_was_never_there_counts_nothing_and_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_counters, "DEVICES", tmp_path)
    counting(tmp_path, "lab.h2", 7)
    source = RdmaSource(DEVICES, 0)
    words = np.zeros(source.width, np.uint64)
    source.read(words)
    assert words.tolist() == [0, 0, 7, 7]
    gone = {"source": "rdma", "kind": "device_gone", "node": "h1", "interface": "eth1", "device": "lab.h1"}
    assert [list(source.look(now)) for now in (0, 1)] == [[gone], []]
    source.close()


def test_where_all_are_gone_there_is_still_a_row_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_counters, "DEVICES", tmp_path)
    source = RdmaSource(DEVICES, 0)
    words = np.zeros(source.width, np.uint64)
    source.read(words)
    assert not words.any()
    assert [event["node"] for event in source.look(0)] == ["h1", "h2"]
    assert "rcvd_pkts" in [column.name for column in source.sections[0].columns]
