"""``rocelab job export`` and ``job train`` of a trace: files, answers, and what is refused in one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.cli.kit import recorded_command
from lab.cli.schemas import adapter
from lab.cli.traffic import job
from lab.errors import InvalidInput, UsageError
from lab.jobs.collective_job import RankPlace
from lab.jobs.rank_schedule import StepTimes
from lab.jobs.traces.chakra_trace import read_traces
from lab.jobs.training_job import TraceJob, recorded_steps, training_result
from tests.unit.cli.traffic.planned_fabric import FABRIC

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Stepped = Callable[[list[dict[str, Any]]], None]

    from typer.testing import Result

    from lab.jobs.training_job import TrainingResult
    from lab.rdma.measure import Nic

TEXT: Final = (
    "name: small\nranks: 3\nsteps: 2\ncompute: 100ms\nallreduce: 600kB\nstorage: {host: h8, checkpoint: 1kB}\n"
)


def said(*words: str) -> Result:
    return CliRunner().invoke(app, ["job", *words])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_a_job_is_written_as_traces_that_are_read_again(file: Path, tmp_path: Path) -> None:
    told = said("export", str(file), "-o", str(tmp_path / "out"), "--json").stdout
    adapter("job export").validate_json(told)
    data = json.loads(told)
    assert (data["format"], data["ranks"], data["steps"], len(data["files"])) == ("chakra", 4, 2, 5)
    assert read_traces(tmp_path / "out" / "small.0.et").ranks == 4


def test_a_trace_is_written_in_goal(file: Path, tmp_path: Path) -> None:
    said("export", str(file), "-o", str(tmp_path))
    told = said("export", str(tmp_path / "small.0.et"), "--format", "goal", "-o", str(tmp_path))
    assert told.stdout.strip().endswith("small.goal")
    text = (tmp_path / "small.goal").read_text(encoding="ascii")
    assert text.startswith("num_ranks 4\n")
    assert "send 1000b to 3 tag 1000001" in text


def test_a_trace_runs_with_a_rank_on_each_host(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Nic] = []
    recorded: list[dict[str, Any]] = []

    def run(nics: Sequence[Nic], spec: TraceJob, *, link_rate: int, stepped: Stepped, **_: Any) -> TrainingResult:
        ran.extend(nics)
        ranks = [
            (
                RankPlace(rank=rank, host=nic.host, interface=nic.interface, device=nic.device),
                [
                    StepTimes(
                        begin_ns=0,
                        end_ns=10**9,
                        operations=((0, 10**9),) * len(spec.schedule.variants[variant][rank]),
                        wrong=0,
                    )
                    for variant in spec.schedule.measured
                ],
            )
            for rank, nic in enumerate(nics)
        ]
        result = training_result(spec, ranks, link_rate=link_rate, start_s=1.0)
        places = [place for place, _ in ranks]
        stepped(recorded_steps(spec.name, result.began_ns, places, result.rank_steps))
        return result

    monkeypatch.setattr(job, "open_fabric", lambda _: FABRIC)
    monkeypatch.setattr(job, "run_training", run)
    monkeypatch.setattr(recorded_command, "is_recorded", lambda _: False)
    monkeypatch.setattr(recorded_command, "stepped", lambda _, steps: recorded.extend(steps))
    said("export", str(file), "-o", str(tmp_path))
    told = said("train", str(tmp_path / "small.0.et"), "--json").stdout
    adapter("job train").validate_json(told)
    data = json.loads(told)
    assert [nic.host for nic in ran] == ["h1", "h2", "h3", "h4"]
    assert (data["name"], data["groups"], len(data["steps"])) == ("small", "1 group of 4 ranks", 2)
    assert data["roofline_s"] == pytest.approx(0.1 + 4 / 3 * 4.8e6 / 100e6 + 3 * 8000 / 100e6, rel=1e-3)
    assert len(recorded) == 8


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("export", "none.yaml"), "there is no file"),
        (("export", "none.0.et"), "there is no trace"),
        (("export", "none.et"), "is one trace for all ranks: say how many: --ranks 4"),
        (("export", "{}", "--ranks", "4"), "--ranks is for execution traces"),
        (("export", "{}", "-o", "{}"), "cannot write "),
        (("train", "{}", "--ranks", "4"), "--ranks is for execution traces"),
    ],
)
def test_what_is_not_possible_is_a_usage_error(file: Path, words: tuple[str, ...], why: str) -> None:
    told = said(*(word.format(file) for word in words))
    assert isinstance(told.exception, UsageError | InvalidInput)
    assert why in str(told.exception)
    assert told.exception.exit_code == 2


def test_a_slower_host_is_one_of_the_hosts_that_the_file_names(file: Path, tmp_path: Path) -> None:
    text = TEXT.replace("ranks: 3", "hosts: ['h1:eth1', h2, h3]")
    file.write_text(f"{text}slower: {{h1: 50ms}}\n", encoding="utf-8")
    assert said("export", str(file), "--format", "goal", "-o", str(tmp_path)).exit_code == 0
    assert "calc 50000000" in (tmp_path / "small.goal").read_text(encoding="ascii").partition("rank 1")[0]
    file.write_text(f"{text}slower: {{h8: 50ms}}\n", encoding="utf-8")
    assert "slower: h8 runs no rank" in str(said("export", str(file)).exception)


def test_an_export_does_not_know_which_rank_is_slower(file: Path) -> None:
    file.write_text(f"{TEXT}slower: {{h2: 5ms}}\n", encoding="utf-8")
    told = said("export", str(file))
    assert "slower: an export does not place the ranks on hosts" in str(told.exception)
