"""Baselines of training jobs and queue pairs, and deviations as evidence of a diagnosis."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.cli.schemas import adapter
from lab.diagnose.diagnosis import DiagnosisOutcome
from lab.diagnose.run import diagnose_run
from lab.diagnose.symptom import matches
from lab.report.baseline.baseline_evidence import with_baseline
from lab.report.baseline.job_and_qp_values import ROW_MEASURED
from lab.report.baseline.learned_baseline import BaselineDeviation, compare, learn, load, save
from lab.report.baseline.window_values import ValueKey, window_values
from lab.telemetry.read.recorded_jobs import recorded_jobs
from lab.telemetry.read.recording import Recording
from lab.telemetry.sample import qp_rates, queue_pairs
from tests.unit.diagnose.recorded import begun, deaf, during, incast
from tests.unit.telemetry.jobs.made_job import job_run, steps
from tests.unit.telemetry.made import START, STEP
from tests.unit.telemetry.played import queue_pair

if TYPE_CHECKING:
    from pathlib import Path

EVERY: Final = 0.1
"""Seconds of a window: two samples."""
USUAL: Final = (20, 21, 20, 19, 20, 21)
"""Milliseconds of the transfers of a step."""
SAMPLES: Final = 60
"""Three seconds: queue pairs of less than two may be seen by no poll, and do not count."""
QP: Final = "h1:eth1 ib_write_bw #1"


def job(folder: Path, *transfers: int, excess: dict[int, int] | None = None) -> Recording:
    return Recording.open(job_run(folder, steps(transfers, excess)).finished())


def deviating(baselines: list[Recording], checked: Recording) -> dict[tuple[str, str], BaselineDeviation]:
    found = compare(learn(baselines, EVERY), checked, 6.0, checked.window())
    return {(each.of, each.measure): each for each in found.deviations}


def test_a_step_that_takes_longer_deviates(tmp_path: Path) -> None:
    """By its transfer, while computation and stragglers are as before."""
    normal = [job(tmp_path / f"day{number}", *USUAL) for number in range(3)]
    assert deviating(normal, job(tmp_path / "same", *USUAL[::-1])) == {}
    slow = deviating(normal, job(tmp_path / "slow", *USUAL[:3], 60, 60, 60))
    assert slow.keys() == {("small", "step_time"), ("small", "step_transfer")}
    transfer = slow["small", "step_transfer"]
    assert (transfer.owner, transfer.unit) == ("job", "s")
    assert (transfer.normal, transfer.value) == pytest.approx((0.020, 0.060))
    assert transfer.since == pytest.approx((100 + 3 * 300) / 1000, abs=EVERY)
    assert transfer.words.startswith("transfer: 60 ms, normally 20 ms (+")


def test_a_straggler_deviates_by_its_lateness(tmp_path: Path) -> None:
    normal = [job(tmp_path / f"day{number}", *USUAL) for number in range(3)]
    late = deviating(normal, job(tmp_path / "late", *USUAL, excess={2: 80}))
    assert late.keys() == {("small", "step_time"), ("small", "step_lateness")}


def test_a_window_without_a_step_has_no_value(tmp_path: Path) -> None:
    """A job that ends earlier does not deviate, and one that the baseline lacks is named."""
    normal = [job(tmp_path / f"day{number}", *USUAL) for number in range(3)]
    short = job(tmp_path / "short", *USUAL[:2])
    values = window_values(short, short.window(), EVERY).of(ValueKey("job", "small", None, "step_time"))
    assert np.isnan(values).any()
    assert np.nanmedian(values) == pytest.approx(0.12, abs=0.002)
    assert deviating(normal, short) == {}
    other = Recording.open(job_run(tmp_path / "other", steps(USUAL, job="large")).finished())
    found = compare(learn(normal, EVERY), other, 6.0, other.window())
    assert found.unknown == ["large"]
    assert {each.owner for each in found.deviations} <= {"port", "device", "node"}


def test_jobs_of_the_same_name_are_one(tmp_path: Path) -> None:
    """The second one of a recording is compared with the first one of others."""
    normal = [job(tmp_path / f"day{number}", *USUAL) for number in range(3)]
    rows = [*steps(USUAL), *steps([60] * 3, start=len(USUAL) * 300)]
    twice = Recording.open(job_run(tmp_path / "twice", rows, described=False).finished())
    assert [each.name for each in recorded_jobs(twice)] == ["small", "small #2"]
    assert deviating(normal, twice).keys() == {("small", "step_time"), ("small", "step_transfer")}


def test_a_job_with_the_name_of_a_node_is_not_that_node(tmp_path: Path) -> None:
    normal = [Recording.open(job_run(tmp_path / "day", steps(USUAL, job="leaf1")).finished())]
    idle = begun(tmp_path / "idle")
    for _ in range(SAMPLES):
        idle.sample()
    assert deviating(normal, Recording.open(idle.finished())) == {}


def limited(folder: Path, qpn: int, rates: list[int]) -> Recording:
    """A recording with one QP, whose limit is set at equal distances."""
    made = begun(folder)
    for _ in range(SAMPLES):
        made.sample()
    made.log.rows(queue_pairs.SCHEMA, START, [queue_pair(qpn, "RTS")])
    for number, rate in enumerate(rates):
        row: dict[str, Any] = {
            "node": "h1", "interface": "eth1", "qpn": qpn, "peer": "10.0.0.4", "remote": 18, "limited": 1,
            "rate": rate, "target": rate, "alpha": 0.5, "cnps": 1, "rtt": 0, "waiting": 0,
        }  # fmt: skip
        made.log.rows(qp_rates.SCHEMA, START + number * SAMPLES * STEP // len(rates), [row])
    return Recording.open(made.finished())


def test_the_limit_of_a_queue_pair_deviates_whatever_its_number(tmp_path: Path) -> None:
    usual = [50_000_000, 52_000_000, 48_000_000, 51_000_000]
    normal = [limited(tmp_path / f"day{number}", 17 + number, usual) for number in range(3)]
    assert deviating(normal, limited(tmp_path / "same", 40, usual[::-1])) == {}
    found = deviating(normal, limited(tmp_path / "low", 41, [50_000_000, 10_000_000]))
    ((of, deviation),) = found.items()
    assert (of, deviation.owner) == ((QP, "qp_limit"), "qp")
    assert deviation.value == pytest.approx(10_000_000)
    assert deviation.words.startswith("rate limit: 10 Mb/s, normally 50")


def test_files_have_jobs_and_queue_pairs(tmp_path: Path) -> None:
    baseline = learn([job(tmp_path / "job", *USUAL)], EVERY)
    assert {each.measure for each in baseline.ranges if each.owner == "job"} == {"step_time", "step_transfer"}
    assert "small" in baseline.objects
    save(baseline, tmp_path / "b.json")
    assert load(tmp_path / "b.json") == baseline
    assert {owner for owner, _ in ROW_MEASURED} == {"job", "qp"}


def run(folder: Path, happens: Any) -> Recording:
    made = begun(folder)
    during(made, "observe", happens)
    return Recording.open(made.finished())


def test_a_cause_has_the_deviations_at_its_place(tmp_path: Path) -> None:
    """Hosts that ignore pauses: the port that pauses them drops, and normally drops nothing."""
    normal = [run(tmp_path / f"day{number}", incast) for number in range(3)]
    broken = run(tmp_path / "broken", deaf)
    told = diagnose_run(broken, "observe")
    deviations = compare(learn(normal, EVERY, "observe"), broken, 6.0, broken.window("observe")).deviations
    found = with_baseline(told, deviations)
    assert found.outcome is told.outcome is DiagnosisOutcome.FAULT
    for before, cause in zip(told.causes, found.causes, strict=True):
        assert replace(cause, evidence=before.evidence) == before
        added = cause.evidence[len(before.evidence) :]
        assert 1 <= len(added) <= 3
        assert {each.source for each in added} == {"baseline"}
        assert all(any(matches(place, each.of) for place in cause.places) for each in added)


def deviation(**more: Any) -> BaselineDeviation:
    told: dict[str, Any] = {
        "owner": "port", "of": "leaf1:swp6", "priority": 3, "measure": "tx_bps", "unit": "bit/s", "normal": 8e6,
        "value": 4e6, "deviations": -9.0, "since": 0.5, "windows": 4,
    }  # fmt: skip
    return BaselineDeviation(**(told | more))


@pytest.mark.parametrize(
    ("more", "is_evidence"),
    [
        ({"of": "h1:eth1"}, True),
        ({"of": "h1:eth1", "priority": None}, True),
        ({"of": "h1:eth1", "priority": 0}, False),
        ({"of": "h6:eth1"}, False),
        ({"owner": "job", "of": "h1:eth1"}, False),
    ],
)
def test_only_deviations_at_the_place_and_of_the_priority_are_evidence(
    tmp_path: Path, more: dict[str, Any], *, is_evidence: bool
) -> None:
    told = diagnose_run(run(tmp_path / "broken", deaf), "observe")
    told = replace(told, causes=tuple(replace(each, places=("h1:eth1",), priority=3) for each in told.causes))
    found = with_baseline(told, [deviation(**more)])
    assert (found != told) == is_evidence


def test_what_deviates_is_not_healthy(tmp_path: Path) -> None:
    told = replace(
        diagnose_run(run(tmp_path / "day", incast), "observe"),
        outcome=DiagnosisOutcome.HEALTHY, unchecked=(),
    )  # fmt: skip
    assert with_baseline(told, []) is told
    found = with_baseline(told, [deviation()])
    assert found.outcome is DiagnosisOutcome.UNCHECKED
    assert found.unchecked == ("1 deviation from the baseline",)
    full = replace(told, outcome=DiagnosisOutcome.CAPACITY)
    assert with_baseline(full, [deviation()]).outcome is DiagnosisOutcome.CAPACITY


def test_diagnose_takes_a_baseline(tmp_path: Path) -> None:
    normal = [run(tmp_path / f"day{number}", incast) for number in range(3)]
    broken = str(run(tmp_path / "broken", deaf).folder.path)
    file = str(tmp_path / "b.json")
    save(learn(normal, EVERY, "observe"), tmp_path / "b.json")
    words = ["diagnose", broken, "--phase", "observe", "--baseline", file]
    told = CliRunner().invoke(app, [*words, "--json"])
    assert told.exit_code == 1, told.output
    adapter("diagnose").validate_json(told.stdout)
    answer = json.loads(told.stdout)
    assert "leaf1:swp6" in {each["of"] for each in answer["deviations"]}
    assert "baseline" in {each["source"] for each in answer["causes"][0]["evidence"]}
    text = CliRunner().invoke(app, words).stdout
    assert "values that deviate from the baseline" in text
    without = CliRunner().invoke(app, [*words[:4], "--json"])
    assert json.loads(without.stdout)["deviations"] == []
    missing = CliRunner().invoke(app, [*words[:4], "-b", "nosuch"])
    assert "cannot read nosuch" in str(missing.exception)
