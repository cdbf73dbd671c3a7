"""QPs that congestion control limits: their rates in reports and in the player, against the rows of the recording."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lab.errors import InvalidInput
from lab.report.markdown import write_markdown
from lab.report.playback import playback
from lab.report.run_facts import gather
from lab.report.scenario_text import ScenarioText
from lab.telemetry.read.recording import Recording
from lab.telemetry.sample.qp_rates import SCHEMA
from lab.telemetry.store.row_tables import RowSchema
from tests.unit.report.test_page import unfolded
from tests.unit.scenario.test_judge import TOPOLOGY
from tests.unit.telemetry.made import START, STEP, Made

if TYPE_CHECKING:
    from pathlib import Path

    from lab.report.run_facts import ReportFacts

LINE = 100_000_000
PHASE = 10
"""Samples of a phase; each begins with another one."""


def row(node: str, rate: int, cnps: int, *, limited: int = 1) -> dict[str, Any]:
    return {
        "node": node, "interface": "eth1", "qpn": 17, "peer": "10.0.0.4", "remote": 18, "limited": limited,
        "rate": rate, "target": LINE, "alpha": 0.5, "cnps": cnps, "rtt": 0, "waiting": 0,
    }  # fmt: skip


def limited(folder: Path) -> Made:
    """h1's QP is at 50 Mb/s from the second phase on, recovers, and is limited again; h2's is at 20 Mb/s."""
    making = Made(folder / "run", TOPOLOGY)
    for phase in ("alone", "incast"):
        making.phase(phase)
        for _ in range(PHASE):
            making.sample()
    second = START + (PHASE + 1) * STEP
    making.log.rows(SCHEMA, second, [row("h1", LINE // 2, 3), row("h2", LINE // 5, 1)])
    half = second + (making.ns - STEP - second) // 2
    making.log.rows(SCHEMA, half, [row("h1", LINE // 2, 3, limited=0)])
    making.log.rows(SCHEMA, making.ns - STEP, [row("h1", LINE // 4, 2)])
    making.phase("")
    return making


def facts_of(path: Path) -> ReportFacts:
    return gather(Recording.open(path), ScenarioText())


def test_a_mean_counts_the_line_rate_for_the_time_without_a_limit(tmp_path: Path) -> None:
    first, second = facts_of(limited(tmp_path).finished()).limited
    assert (first.qp, first.peer, first.cnps, first.lowest) == ("h2:eth1 QP 0x11", "10.0.0.4", 1, LINE // 5)
    assert first.means == {"alone": LINE, "incast": pytest.approx(LINE // 5)}
    assert (second.line_rate, second.lowest) == (LINE, LINE // 4)
    last = STEP / ((PHASE + 1) * STEP)
    assert second.means["incast"] == pytest.approx(LINE * (0.75 * (1 - last) + 0.25 * last))


def test_cnps_of_a_limiter_that_begins_again_add_up(tmp_path: Path) -> None:
    _, twice = facts_of(limited(tmp_path).finished()).limited
    assert twice.cnps == 3 + 2


def test_the_player_has_a_value_for_each_sample(tmp_path: Path) -> None:
    recording = Recording.open(limited(tmp_path).finished())
    made = playback(recording, gather(recording, ScenarioText()))
    assert "limits" in [plot["key"] for plot in made["plots"]]
    assert list(made["limits"]) == ["h2:eth1 QP 0x11 to 10.0.0.4", "h1:eth1 QP 0x11 to 10.0.0.4"]
    values = unfolded(made["limits"]["h1:eth1 QP 0x11 to 10.0.0.4"], len(made["times"]))
    assert values[: PHASE + 1] == [LINE] * (PHASE + 1)
    assert (values[PHASE + 1], values[-3], values[-1]) == (LINE // 2, LINE, LINE // 4)


def test_the_report_names_the_rates_and_the_first_limit_of_each_nic(tmp_path: Path) -> None:
    facts = facts_of(limited(tmp_path).finished())
    told = [moment.what for moment in facts.timeline if moment.source == "rows/qp_rates.parquet"]
    assert told == [
        "h1:eth1 QP 0x11 to 10.0.0.4: congestion control limits it to 50 Mb/s",
        "h2:eth1 QP 0x11 to 10.0.0.4: congestion control limits it to 20 Mb/s",
    ]
    text = write_markdown(facts)
    assert "### QP rate limits" in text
    assert "| h2:eth1 QP 0x11 | 10.0.0.4 | 100 Mb/s | 1 | 20 Mb/s | 100 Mb/s | 20 Mb/s |" in text


def test_without_congestion_control_there_is_no_plot_and_no_table(tmp_path: Path) -> None:
    making = Made(tmp_path / "run", TOPOLOGY)
    making.phase("alone")
    making.phase("")
    recording = Recording.open(making.finished())
    facts = gather(recording, ScenarioText())
    assert facts.limited == ()
    made = playback(recording, facts)
    assert "limits" not in [plot["key"] for plot in made["plots"]]
    assert "rate limits" not in write_markdown(facts)


def test_a_table_that_no_recorder_writes_is_refused(tmp_path: Path) -> None:
    making = Made(tmp_path / "run", TOPOLOGY)
    making.phase("alone")
    making.log.rows(RowSchema(SCHEMA.table, 1, (("node", "S4"),)), START, [{"node": "h1"}])
    making.phase("")
    path = making.finished()
    with pytest.raises(InvalidInput, match="is damaged"):
        facts_of(path)
