"""Training jobs in a diagnosis: a host that computes slowly, and the steps that a fault of the network slowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.diagnose.diagnosis import DiagnosisOutcome
from lab.diagnose.run import diagnose_run
from lab.telemetry.read.recording import Recording
from tests.unit.diagnose.recorded import begun, deaf, incast
from tests.unit.telemetry.jobs.made_job import job_run, steps, with_job

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.telemetry.made import Made


def test_a_slow_host_is_named_and_no_fault_of_the_network(tmp_path: Path) -> None:
    found = diagnose_run(Recording.open(job_run(tmp_path / "run", steps([60] * 5, {2: 40})).finished()))
    (cause,) = found.causes
    assert (found.outcome, cause.cause, cause.places) == (DiagnosisOutcome.FAULT, "straggler-host", ("h5",))
    excess, waiting = cause.evidence
    assert excess.of == "h5"
    assert excess.value == pytest.approx(0.04)
    assert excess.says.endswith("longer than the median rank, in 5 of 5 steps")
    assert waiting.value == pytest.approx(0.04)


def test_an_even_job_is_no_fault(tmp_path: Path) -> None:
    found = diagnose_run(Recording.open(job_run(tmp_path / "run", steps([60] * 5)).finished()))
    assert found.causes == ()
    assert "traffic between hosts: no transfer is recorded" in found.missing  # no port counted anything


@pytest.mark.parametrize(
    ("late", "described", "usual"),
    [(0, True, "50 ms by arithmetic"), (0, False, "60 ms in the fastest step"), (3, True, "60 ms before")],
)
def test_a_fault_of_the_network_names_the_steps_that_it_slowed(
    tmp_path: Path, late: int, *, described: bool, usual: str
) -> None:
    """The hosts of an incast do not obey pauses, after ``late`` steps in a phase of its own."""
    made = begun(tmp_path / "run")
    rows = steps([60] * late + [90, 120, 60])
    fault = rows[4 * late]["begin"] - 50_000_000
    made.phase("baseline")
    changed = False

    def happens(made: Made) -> None:
        nonlocal changed
        if not changed and made.ns >= fault:
            made.phase("inject")
            changed = True
        (deaf if changed else incast)(made)

    with_job(made, rows, happens, described=described)
    made.phase("")
    found = diagnose_run(Recording.open(made.finished()))
    line = next(each for cause in found.causes for each in cause.evidence if each.source == "job_steps")
    first, last = late + 1, late + 2 + (usual[0] == "5")
    assert line.says.startswith(f"seconds of transfer in steps {first} to {last} of job small")
    assert f", {usual}; " in line.says
    assert line.value == pytest.approx(0.09 if usual[0] == "5" else 0.105)


def test_ranks_are_named_whose_qps_pass_the_place(tmp_path: Path) -> None:
    made = begun(tmp_path / "run")
    made.phase("observe")
    with_job(made, steps([60, 120, 120]), deaf)
    made.phase("")
    found = diagnose_run(Recording.open(made.finished()))
    lines = [each for cause in found.causes for each in cause.evidence if each.source == "job_steps"]
    assert lines
    assert all("all 4 ranks wait" in each.says for each in lines)
