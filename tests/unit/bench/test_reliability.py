"""The reliability table: frequencies of right answers by confidence, over recordings whose fault is known."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from lab.telemetry.store import recording_folder as files
from tests.bench import catalogue
from tests.bench.catalogue_parts import reliability
from tests.bench.catalogue_parts.page_table import with_table
from tests.bench.catalogue_parts.reliability import COLUMNS, HEADING, Answer, answers, interval, tabulate
from tests.unit.diagnose.made_facts import TOPOLOGY
from tests.unit.telemetry.made import RDMA, Made

if TYPE_CHECKING:
    from pathlib import Path

HIDDEN = {"hidden": {"families": ["route"], "places": ["h1"], "harm": "loss"}}


def answer(confidence: float, *, right: bool) -> Answer:
    return Answer(confidence, right, "gray-loss", "run")


def test_answers_are_counted_by_their_confidence() -> None:
    rows = list(tabulate([answer(0.95, right=True), answer(0.9, right=False), answer(0.4, right=True)]))
    assert [row[:5] for row in rows] == [
        ("0.0 to 0.5", 1, 1, "1.00", "0.40"), ("0.9 to 1.0", 2, 1, "0.50", "0.93"), ("all", 3, 2, "0.67", "0.75"),
    ]  # fmt: skip
    assert list(tabulate([])) == []


@pytest.mark.parametrize(
    ("right", "count", "low", "high"), [(9, 10, 0.5958, 0.9821), (0, 5, 0.0, 0.4345), (50, 50, 0.9286, 1.0)]
)
def test_the_interval_is_wilson_s(right: int, count: int, low: float, high: float) -> None:
    """Values of R's binom::binom.confint(right, count, methods = "wilson")."""
    assert list(interval(right, count)) == pytest.approx([low, high], abs=2e-4)


def test_a_page_gets_the_table_and_keeps_the_rest() -> None:
    rows = list(tabulate([answer(0.95, right=True)]))
    page = f"# Page\n\n{HEADING}\n\n| old |\n\n## Next\n\n| kept |\n"
    text = with_table(page, HEADING, COLUMNS, rows)
    assert "| old |" not in text
    assert text.endswith("\n## Next\n\n| kept |\n")
    assert with_table(text, HEADING, COLUMNS, rows) == text
    assert with_table("# Page\n", HEADING, COLUMNS, rows).startswith(f"# Page\n\n{HEADING}\n\n| {COLUMNS[0]} |")


def recorded(folder: Path, parameters: dict[str, object]) -> None:
    """A run whose RDMA device is gone in the second phase."""
    made = Made(folder, TOPOLOGY, hosts=["h1", "h4"])
    files.write_json(made.folder.facts("params"), parameters)
    for phase in ("baseline", "observe"):
        made.phase(phase)
        for _ in range(10):
            made.sample()
        if phase == "observe":
            made.devices[0, RDMA.index("out_of_seq_request")] += 7
            made.event(made.ns, source="rdma", kind="device_gone", node="h1", interface="eth1", device="h1")
        made.sample()
        made.phase("")
    made.finished()


@pytest.mark.parametrize(
    ("parameters", "right"),
    [
        (HIDDEN, [False]), ({"hidden": {**HIDDEN["hidden"], "families": ["rdma-device"]}}, [True]),
        ({"random": "rdma-device-lost"}, [True]), ({"healthy": "idle"}, [False]), ({"scenario": "incast"}, []),
        ({}, []),
    ],
    ids=["another family", "its family", "random", "healthy", "no such phase", "nothing is known"],
)  # fmt: skip
def test_an_answer_is_right_if_it_has_the_kind_of_the_fault(
    tmp_path: Path, parameters: dict[str, object], right: list[bool]
) -> None:
    recorded(tmp_path / "run", parameters)
    assert [each.right for each in answers([tmp_path])] == right


def test_the_command_reads_a_folder_and_plays_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path / "run", {"random": "rdma-device-lost"})
    monkeypatch.setattr(sys, "argv", ["catalogue", "--reliability", "--json", "--output", str(tmp_path)])
    assert catalogue.main() == 0
    assert [row["answers"] for row in json.loads(capsys.readouterr().out)] == [1, 1]
    monkeypatch.setattr(sys, "argv", ["catalogue", "--reliability", "incast"])
    with pytest.raises(SystemExit):
        catalogue.main()
    assert "--reliability and --alerts play nothing" in capsys.readouterr().err
    reliability.report([tmp_path])
    assert "reliability of confidences" in capsys.readouterr().out
