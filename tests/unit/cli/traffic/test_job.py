"""``rocelab job``: its table, its answer, its exit codes, and what it refuses."""

from __future__ import annotations

import contextlib
import json
import sysconfig
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.cli.kit import recorded_command
from lab.cli.schemas import adapter
from lab.cli.traffic import job
from lab.errors import EnvironmentLacks, InvalidInput, UsageError
from lab.jobs import collective_job, mpi_library
from lab.jobs.bus_bandwidth import RankSteps, job_row
from lab.jobs.collective_job import JobResult, RankPlace
from lab.jobs.job_spec import Collective
from lab.jobs.training_job import TrainingResult, recorded_steps, training_result
from lab.kernel.process import time_source
from lab.model.qos.port import Trust
from lab.telemetry.store.job_steps import SCHEMA
from tests.unit.cli.traffic.planned_fabric import FABRIC, planned
from tests.unit.jobs.step_times import data_parallel_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Stepped = Callable[[list[dict[str, Any]]], None]

    from typer.testing import Result

    from lab.jobs.job_spec import JobSpec
    from lab.jobs.training_spec import TrainingSpec
    from lab.rdma.measure import Nic


class Ran:
    """The jobs that were run, and what their results are."""

    def __init__(self) -> None:
        self.nics: tuple[Nic, ...] = ()
        self.spec: JobSpec | None = None
        self.wrong = 0
        self.step_ns = 100_000_000
        self.link_rate = 0

    def __call__(self, nics: Sequence[Nic], spec: JobSpec, *, link_rate: int, **_: Any) -> JobResult:
        self.nics, self.spec, self.link_rate = tuple(nics), spec, link_rate
        steps = [RankSteps(begin_ns=(0,), end_ns=(self.step_ns,), wrong=self.wrong)] * len(nics)
        return JobResult(
            collective=spec.collective,
            algorithm=spec.algorithm,
            ranks=tuple(
                RankPlace(rank=rank, host=nic.host, interface=nic.interface, device=nic.device)
                for rank, nic in enumerate(nics)
            ),
            rows=tuple(job_row(spec.collective, size, steps, self.link_rate) for size in spec.fitted(len(nics))),
            start_s=1.5,
            iterations=spec.iterations,
            tclass=spec.tclass,
        )


class Trained:
    """The training jobs that were run: each step takes 0.1 s and ends at once on all ranks but the last."""

    def __init__(self) -> None:
        self.nics: tuple[Nic, ...] = ()
        self.wrong = 0

    def __call__(
        self, nics: Sequence[Nic], spec: TrainingSpec, *, link_rate: int, stepped: Stepped, **_: Any
    ) -> TrainingResult:
        self.nics = tuple(nics)
        ms, steps, hosts = 10**6, range(spec.steps), [nic.host for nic in nics]
        ranks = [
            (
                RankPlace(rank=rank, host=nic.host, interface=nic.interface, device=nic.device),
                data_parallel_steps(
                    spec,
                    hosts,
                    [
                        (200 * number * ms, (200 * number + 100 + 5 * (rank == 1)) * ms, (200 * number + 200) * ms)
                        for number in steps
                    ],
                    self.wrong,
                ),
            )
            for rank, nic in enumerate(nics)
        ]
        result = training_result(spec, ranks, link_rate=link_rate, start_s=1.5)
        places = [place for place, _ in ranks]
        stepped(recorded_steps(spec.name, result.began_ns, places, result.rank_steps))
        return result


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> Trained:
    made = Trained()
    monkeypatch.setattr(job, "run_training", made)
    monkeypatch.setattr(recorded_command, "is_recorded", lambda _: False)
    monkeypatch.setattr(recorded_command, "stepped", lambda _, steps: made_steps.extend(steps))
    made_steps.clear()
    return made


made_steps: list[dict[str, Any]] = []
"""The rows that the last training job wrote to recordings."""


@pytest.fixture(autouse=True)
def ran(monkeypatch: pytest.MonkeyPatch) -> Ran:
    made = Ran()
    monkeypatch.setattr(job, "open_fabric", lambda _: FABRIC)
    monkeypatch.setattr(job, "run_job", made)
    return made


def said(*words: str) -> Result:
    return CliRunner().invoke(app, ["job", *words])


def hosts(ran: Ran) -> list[str]:
    return [nic.host for nic in ran.nics]


def test_the_table_has_the_columns_of_nccl_tests(ran: Ran) -> None:
    told = said("allreduce", "--ranks", "4", "--size", "1KiB", "--max-size", "4KiB")
    assert told.exit_code == 0
    for column in ("size", "count", "type", "redop", "root", "time", "algbw", "busbw", "JCT ratio", "#wrong"):
        assert column in told.stdout
    assert ran.spec is not None
    assert ran.spec.sizes == (1024, 2048, 4096)
    assert ran.link_rate == 100_000_000
    assert "every rank has the right result" in told.stdout


@pytest.mark.parametrize("collective", Collective)
def test_the_answer_is_that_of_its_schema(collective: Collective) -> None:
    data = said(collective.value, "--json").stdout
    adapter(f"job {collective}").validate_json(data)
    told = json.loads(data)
    assert (told["collective"], len(told["ranks"]), told["wrong"]) == (collective.value, 8, 0)
    assert told["warnings"] == []
    assert told["rows"][0]["algbw_bps"] == pytest.approx(2**20 * 8 / 0.1)


def test_a_wrong_result_fails(ran: Ran) -> None:
    ran.wrong = 2
    told = said("allgather", "--ranks", "3")
    assert told.exit_code == 1
    assert "6 wrong elements" in told.stdout


def test_ranks_are_placed_by_the_rule_and_named_hosts_stay_in_their_order(ran: Ran) -> None:
    said("allreduce", "--ranks", "3")
    assert hosts(ran) == ["h1", "h2", "h3"]
    said("allreduce", "--ranks", "3", "--placement", "scattered")
    assert hosts(ran) == ["h1", "h5", "h2"]
    said("allreduce", "h5", "h1", "h6")
    assert hosts(ran) == ["h5", "h1", "h6"]
    said("allreduce", "h5", "h1", "h6", "--placement", "packed")
    assert hosts(ran) == ["h5", "h6", "h1"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("allreduce", "--ranks", "9"), "9 ranks need 9 hosts with RDMA, and there are 8: use at most 8 ranks"),
        (("allreduce", "h1", "h99"), "no host 'h99' in fabric incast: hosts are h1"),
        (("allreduce", "h1", "leaf1"), "leaf1 is a switch"),
        (("allreduce", "h1", "h2", "h1"), "h1 is named twice"),
        (("allreduce", "h1"), "1 rank cannot communicate"),
        (("allreduce", "--size", "0"), "a size of 0 bytes has no element"),
        (("allreduce", "--tclass", "256"), "traffic class 256 is out of range: use 0 to 255"),
        (("alltoall", "--size", "16"), "has no whole element for each rank"),
        (("sendrecv", "--algorithm", "ring"), "sendrecv has no algorithm 'ring'"),
        (("broadcast", "--size", "4", "--max-size", "2"), "below the smallest"),
    ],
)
def test_what_is_not_possible_is_a_usage_error(words: tuple[str, ...], why: str) -> None:
    told = said(*words)
    assert isinstance(told.exception, UsageError)
    assert why in str(told.exception)


HIERARCHICAL: Final = ("allreduce", "--algorithm", "hierarchical")


def test_a_hierarchical_sum_has_a_rank_on_each_nic_host_by_host(monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    monkeypatch.setattr(job, "open_fabric", lambda _: planned("rails"))
    for words, wanted in (
        ((), "h1:eth1 h1:eth2 h2:eth1 h2:eth2 h3:eth1 h3:eth2 h4:eth1 h4:eth2"),
        (("--ranks", "4"), "h1:eth1 h1:eth2 h2:eth1 h2:eth2"),
        (("h3", "h1"), "h3:eth1 h3:eth2 h1:eth1 h1:eth2"),
        (("h3:eth2", "h3:eth1", "h1"), "h3:eth2 h3:eth1 h1:eth1 h1:eth2"),
    ):
        told = said(*HIERARCHICAL, *words)
        assert told.exit_code == 0, told.output
        assert " ".join(map(str, ran.nics)) == wanted


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--ranks", "3"), "h2 has 1 rank, and h1 has 2"),
        (("--ranks", "9"), "9 ranks need 9 NICs with RDMA, and there are 8"),
        (("--placement", "packed"), "leave out --placement"),
        (("--pod", "macvlan"), "leave out --pod"),
        (("--set", "NCCL_IB_HCA=eth2"), "needs several NICs in each host"),
        (("h1", "h2", "h3:eth2", "--set", "NCCL_IB_HCA=eth1"), "NCCL_IB_HCA=eth1 allows no RDMA device"),
        (("h1", "h1:eth2", "h2"), "h1:eth2 is named twice"),
        (("h1:eth1", "h2:eth1"), "needs several NICs in each host"),
    ],
)
def test_ranks_that_are_no_hierarchy_are_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], why: str
) -> None:
    monkeypatch.setattr(job, "open_fabric", lambda _: planned("rails"))
    told = said(*HIERARCHICAL, *words)
    assert isinstance(told.exception, UsageError)
    assert why in str(told.exception)


def train(tmp_path: Path, text: str, *words: str) -> Result:
    file = tmp_path / "training.yaml"
    file.write_text(f"{text}\ncompute: 100ms\nallreduce: 500kB\nsteps: 2\n", encoding="utf-8")
    return said("train", str(file), *words)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("none.yaml", "there is no file {}: name the file of a training job; rocelab docs jobs has an example"),
        (".", "{} is a directory: name the file of a training job in it"),
    ],
)
def test_a_file_of_a_training_job_is_not_called_a_topology(tmp_path: Path, name: str, why: str) -> None:
    assert str(said("train", str(tmp_path / name)).exception) == why.format(tmp_path / name)


def test_a_training_job_shows_each_rank_and_the_straggler(trained: Trained, tmp_path: Path) -> None:
    told = train(tmp_path, "hosts: [h5, h1, h6]")
    assert told.exit_code == 0
    assert [nic.host for nic in trained.nics] == ["h5", "h1", "h6"]
    for word in ("rank", "step", "compute", "communication", "share", "waiting", "late", "h6:eth1"):
        assert word in told.stdout
    assert "straggler: rank 1 at h1 in 2 of 2 steps; the last rank was 5 ms late on average" in told.stdout
    assert "a step took 200 ms" in told.stdout
    assert "training: 2 steps on 3 ranks (data 3), gradients of 500 KB" in told.stdout


def test_the_answer_of_a_training_job_is_that_of_its_schema(trained: Trained, tmp_path: Path) -> None:
    told = train(tmp_path, "ranks: 3\nplacement: scattered", "--json").stdout
    adapter("job train").validate_json(told)
    data = json.loads(told)
    assert [nic.host for nic in trained.nics] == ["h1", "h5", "h2"]
    assert (data["straggler"], data["lateness_s"], data["size"]) == (1, pytest.approx(0.005), 500_000)
    assert data["ranks"][0]["communication_share"] == pytest.approx(0.5)
    assert data["warnings"] == []
    assert len(made_steps) == len(data["rank_steps"]) == 6
    assert {name for name, _ in SCHEMA.columns} | {"ns"} == made_steps[0].keys()
    assert (made_steps[1]["node"], made_steps[1]["late"], made_steps[0]["waiting"]) == ("h5", 5 * 10**6, 5 * 10**6)


@pytest.mark.usefixtures("trained")
def test_the_answers_of_ranks_in_pods_name_their_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "in_pods", lambda _fabric, nics, *_: contextlib.nullcontext(tuple(nics)))
    title = "training: 2 steps on 3 ranks in ipvlan pods (data 3)"
    assert title in train(tmp_path, "ranks: 3", "--pod", "ipvlan").stdout
    for pod, kind in (((), None), (("--pod", "macvlan"), "macvlan")):
        trained_data = train(tmp_path, "ranks: 3", *pod, "--json").stdout
        summed = said("allreduce", "--ranks", "2", *pod, "--json").stdout
        for command, data in (("train", trained_data), ("allreduce", summed)):
            adapter(f"job {command}").validate_json(data)
            assert json.loads(data)["pod"] == kind


def test_a_recording_gets_the_description_and_the_qps_of_a_job(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The QPs are those that are found before the ranks end: this job has no processes, and so none."""
    lines: list[dict[str, Any]] = []
    monkeypatch.setattr(recorded_command, "is_recorded", lambda _: True)
    monkeypatch.setattr(recorded_command, "described", lambda _, line: lines.append(line))
    assert train(tmp_path, "ranks: 2").exit_code == 0
    assert len(trained.nics) == 2
    (line,) = lines
    assert (line["job"], line["size"], line["tclass"], line["qps"]) == ("training", 500_000, 106, [])
    assert line["roofline"] == pytest.approx(140_000_000)


def test_the_storage_host_has_the_last_rank(trained: Trained, tmp_path: Path) -> None:
    told = train(
        tmp_path, "ranks: 2\nplacement: scattered\nstorage: {host: h1, checkpoint: 64kB, every: 3}", "--json"
    )
    assert [nic.host for nic in trained.nics] == ["h2", "h5", "h1"]
    data = json.loads(told.stdout)
    assert (data["storage"]["host"], [rank["host"] for rank in data["ranks"]]) == ("h1", ["h2", "h5"])


def test_wrong_sums_of_a_training_job_fail(trained: Trained, tmp_path: Path) -> None:
    trained.wrong = 1
    told = train(tmp_path, "ranks: 2")
    assert (told.exit_code, "2 wrong elements" in told.stdout) == (1, True)


@pytest.mark.usefixtures("trained")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ranks: 9", "9 ranks need 9 hosts with RDMA, and there are 8"),
        ("hosts: [h1, h99]", "no host 'h99' in fabric incast"),
        ("hosts: [h1, h1]", "h1 is named twice"),
        ("ranks: 2\nsteps: 3", "is there twice"),
        ("ranks: 2\nalgorithm: brucks", "allreduce has no algorithm 'brucks'"),
        ("ranks: 2\nstorage: {host: h99, load: 1kB}", "no host 'h99' in fabric incast"),
        ("hosts: [h1, h2]\nstorage: {host: h2, load: 1kB}", "storage: h2 also runs a rank"),
        ("ranks: 8\nstorage: {host: h8, load: 1kB}", "8 ranks need 8 hosts with RDMA, and there are 7"),
    ],
)
def test_a_training_job_that_is_not_possible_is_refused(tmp_path: Path, text: str, why: str) -> None:
    told = train(tmp_path, text)
    assert isinstance(told.exception, UsageError | InvalidInput)
    assert why in str(told.exception)
    assert told.exception.exit_code == 2


def test_a_training_file_that_is_missing_is_named(tmp_path: Path) -> None:
    told = said("train", str(tmp_path / "none.yaml"))
    assert isinstance(told.exception, UsageError)
    assert "there is no file" in str(told.exception)


@pytest.mark.parametrize(("kind", "warned"), [(time_source.VIRTUAL, True), (time_source.HOST, False)])
def test_more_than_the_emulation_carries_is_warned_about(
    ran: Ran, monkeypatch: pytest.MonkeyPatch, kind: str, *, warned: bool
) -> None:
    monkeypatch.setattr(time_source, "lives_in", lambda: kind)
    ran.step_ns = 100_000_000  # 4 ranks of 1 MiB in 0.1 s: 4 x 126 Mb/s
    told = said("allreduce", "--ranks", "4", "--json")
    assert bool(json.loads(told.stdout)["warnings"]) is warned
    assert ("warning: the ranks received 503" in told.stderr) is warned


@pytest.mark.parametrize(("tclass", "lossy"), [("106", False), ("104", False), ("0", True), ("184", True)])
def test_a_class_that_may_drop_is_warned_about(tclass: str, *, lossy: bool) -> None:
    """DSCP 26 is in the lossless priority 3, all others are not."""
    told = said("allreduce", "h1", "h2", "--tclass", tclass, "--json")
    assert told.exit_code == 0
    warning = f"DSCP {int(tclass) // 4} (traffic class {tclass}) is not lossless at h1:eth1 and 3 other ports"
    assert [warning in each for each in json.loads(told.stdout)["warnings"]] == [True] * lossy
    assert (warning in told.stderr) is lossy


def test_a_fabric_without_qos_is_lossy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FABRIC, "qos", {})
    assert "DSCP 26 (traffic class 106) is not lossless at h1:eth1" in said("allreduce").stderr


def test_a_class_is_lossy_if_only_the_switch_drops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    leaf = FABRIC.qos["leaf1"]
    ports = {name: replace(port, pfc=replace(port.pfc, priorities=0)) for name, port in leaf.ports.items()}
    monkeypatch.setattr(FABRIC, "qos", {**FABRIC.qos, "leaf1": replace(leaf, ports=ports)})
    assert "is not lossless at leaf1:swp3" in said("allreduce", "h1", "h5").stderr
    assert "lossless" not in said("allreduce", "h5", "h6").stderr


@pytest.mark.parametrize("off", ["tx", "rx"])
def test_a_port_that_sends_or_obeys_no_pauses_is_lossy(monkeypatch: pytest.MonkeyPatch, off: str) -> None:
    changed: dict[str, Any] = {off: False}
    host = FABRIC.qos["h1"]
    port = host.ports["eth1"]
    deaf = replace(port, pfc=replace(port.pfc, **changed))
    monkeypatch.setattr(FABRIC, "qos", {**FABRIC.qos, "h1": replace(host, ports={"eth1": deaf})})
    assert "is not lossless at h1:eth1: a dropped" in said("allreduce", "h1", "h5").stderr


@pytest.mark.parametrize(("tclass", "priority", "lossy"), [("106", 0, True), ("0", 3, False)])
def test_the_dscp_does_not_matter_if_ports_trust_the_pcp(
    monkeypatch: pytest.MonkeyPatch, tclass: str, priority: int, *, lossy: bool
) -> None:
    """Packets of RDMA devices are untagged, so that their PCP is 0."""
    qos = {
        name: replace(
            node,
            ports={
                interface: replace(port, trust=Trust.PCP, pcp_to_priority=(priority, *port.pcp_to_priority[1:]))
                for interface, port in node.ports.items()
            },
        )
        for name, node in FABRIC.qos.items()
    }
    monkeypatch.setattr(FABRIC, "qos", qos)
    assert ("is not lossless" in said("allreduce", "--tclass", tclass).stderr) is lossy


def test_without_mpi_no_rank_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(job, "run_job", collective_job.run_job)
    monkeypatch.setattr(mpi_library, "PACKAGE", tmp_path / "lab")
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    told = said("allreduce")
    assert isinstance(told.exception, EnvironmentLacks)
    assert "no rank can start: MPI is missing: pip install 'rocelab[jobs]'" in str(told.exception)
