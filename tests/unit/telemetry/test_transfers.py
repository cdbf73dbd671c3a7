"""How long transfers took, as a recording has it: read back, by phase, and refused where it is damaged."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lab.errors import InvalidInput
from lab.telemetry.read.recording import Recording
from lab.telemetry.store import recording_folder as files
from tests.unit.model.qos.fabrics import fabric
from tests.unit.telemetry.made import START, Made

if TYPE_CHECKING:
    from pathlib import Path

LINE: dict[str, Any] = {
    "ns": START + 120_000_000, "src": "h1", "dst": "h4", "verb": "write", "size": 65536, "qps": 2, "messages": 100,
    "seconds": 0.5, "times": [],
}  # fmt: skip
READ = {**LINE, "ns": START + 10, "src": "h2", "verb": "read", "messages": 4, "qps": 1, "times": [0.1, 0.1, 0.2, 0.1]}


def made(path: Path, *lines: dict[str, Any]) -> Made:
    found = Made(path / "run", fabric("pfc-ecn"))
    for phase in ("alone", "incast"):
        found.phase(phase)
        found.sample()
    for line in lines:
        files.append_line(found.folder.transfers, line)
    return found


@pytest.mark.parametrize("end", ["finished", "killed"])
def test_a_transfer_is_read_back_with_what_follows_from_it(tmp_path: Path, end: str) -> None:
    recording = Recording.open(getattr(made(tmp_path, READ, LINE), end)())
    read, write = recording.transfers()
    assert (write.pair, write.verb, write.qps, write.bytes) == ("h1:h4", "write", 2, 6_553_600)
    assert write.goodput_bps == pytest.approx(6_553_600 * 8 / 0.5)
    assert write.end_ns - write.ns == 500_000_000
    assert (write.message_median, write.message_max, list(write.ends), list(write.goodputs)) == (None, None, [], [])
    assert read.message_median == pytest.approx(0.1)
    assert read.message_max == 0.2
    assert list(read.ends) == pytest.approx([0.1, 0.2, 0.4, 0.5])
    assert list(read.goodputs) == pytest.approx([5_242_880, 5_242_880, 2_621_440, 5_242_880])


def test_a_phase_has_what_began_in_it(tmp_path: Path) -> None:
    recording = Recording.open(made(tmp_path, READ, LINE).finished())
    assert [[each.pair for each in recording.transfers(name)] for name in ("alone", "incast")] == [
        ["h2:h4"],
        ["h1:h4"],
    ]


def test_a_recording_of_before_has_none(tmp_path: Path) -> None:
    assert Recording.open(made(tmp_path).finished()).transfers() == ()


@pytest.mark.parametrize(
    "damage",
    [{"seconds": 0}, {"seconds": "soon"}, {"times": [0.1, -1]}, {"times": 3}, {"size": None}, {"seconds": "nan"}],
)
def test_a_damaged_one_is_told_in_a_line(tmp_path: Path, damage: dict[str, Any]) -> None:
    recording = Recording.open(made(tmp_path, LINE, {**LINE, **damage}).finished())
    with pytest.raises(InvalidInput, match=r"transfers\.jsonl: is damaged"):
        recording.transfers()


def test_one_whose_writer_was_killed_in_a_line_has_those_before(tmp_path: Path) -> None:
    found = made(tmp_path, LINE)
    with found.folder.transfers.open("a") as file:
        file.write(json.dumps(LINE)[:40])
    assert [each.pair for each in Recording.open(found.killed()).transfers()] == ["h1:h4"]
