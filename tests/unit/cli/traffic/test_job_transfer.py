"""``rocelab job transfer``: its table, its answer, its exit codes, and what it refuses."""

from __future__ import annotations

import json
import sysconfig
from typing import TYPE_CHECKING, Any, Final

import pytest
from typer.testing import CliRunner

from lab.cli.app import app
from lab.cli.kit import recorded_command
from lab.cli.schemas import adapter
from lab.cli.traffic import job_transfer
from lab.errors import EnvironmentLacks, UsageError
from lab.jobs.bus_bandwidth import RankSteps
from lab.jobs.job_session import Rank
from lab.jobs.transfers import transfer_engine, transfer_job
from lab.jobs.transfers.transfer_spec import TransferVerb
from lab.kernel.process import time_source
from lab.rdma import sysfs
from lab.rdma.nic_choice import find_nic
from lab.telemetry.store.job_requests import SCHEMA
from tests.unit.cli.traffic.planned_fabric import FABRIC

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from typer.testing import Result

    from lab.jobs.transfers.transfer_job import TransferResult
    from lab.jobs.transfers.transfer_spec import TransferSpec
    from lab.rdma.measure import Nic

MS: Final = 1_000_000


class Moved:
    """The transfers that were run: each request of the first host takes 10 ms more than the one before."""

    def __init__(self) -> None:
        self.spec: TransferSpec | None = None
        self.hosts: list[str] = []
        self.wrong = 0

    def __call__(
        self, initiators: Sequence[Nic], targets: Sequence[Nic], spec: TransferSpec, *, link_rate: int, **_: Any
    ) -> TransferResult:
        nics = [*initiators, *targets]
        self.spec, self.hosts = spec, [nic.host for nic in nics]
        ranks = [Rank(number=number, nic=nic, argv=[], environment={}) for number, nic in enumerate(nics)]
        begins = tuple(1000 * MS * number for number in range(spec.requests))
        ends = tuple(begin + 10 * MS * (number + 1) for number, begin in enumerate(begins))
        for rank in ranks:
            made = rank.number < len(initiators)
            rank.results[spec.octets] = RankSteps(
                begin_ns=begins if made else (), end_ns=ends if made else (), wrong=0 if made else self.wrong
            )
        return transfer_job.transfer_result(ranks, len(initiators), spec, link_rate, 0.5)


@pytest.fixture(autouse=True)
def moved(monkeypatch: pytest.MonkeyPatch) -> Moved:
    made = Moved()
    monkeypatch.setattr(job_transfer, "open_fabric", lambda _: FABRIC)
    monkeypatch.setattr(job_transfer, "run_transfer", made)
    monkeypatch.setattr(recorded_command, "requested", lambda _, rows: recorded.extend(rows))
    recorded.clear()
    return made


recorded: list[dict[str, Any]] = []
"""The rows that a recording would have."""


def said(*words: str) -> Result:
    return CliRunner().invoke(app, ["job", "transfer", *words])


def test_the_table_has_the_percentiles_of_each_host_and_of_all(moved: Moved) -> None:
    told = said("h1", "h2", "--to", "h8", "--requests", "100", "--size", "64KiB")
    assert told.exit_code == 0
    assert moved.hosts == ["h1", "h2", "h8"]
    for words in ("h1:eth1", "h2:eth1", "all", "505 ms", "500 ms", "950 ms", "990 ms", "1 s"):
        assert words in told.stdout
    assert "writes of 65.54 KB to h8" in told.stdout
    assert "every target has the right data" in told.stdout


def test_the_data_of_reads_is_that_of_the_hosts_that_make_them() -> None:
    told = said("h1", "--to", "h8", "--read")
    assert "reads of 1.049 MB from h8" in told.stdout
    assert "every host has the right data" in told.stdout


def test_the_answer_is_that_of_its_schema(moved: Moved) -> None:
    data = said("h1", "--to", "h5", "--to", "h6", "--requests", "4", "--read", "--json").stdout
    adapter("job transfer").validate_json(data)
    told = json.loads(data)
    assert moved.spec is not None
    assert (moved.spec.verb, told["verb"]) == (TransferVerb.READ, "read")
    assert [each["target"] for each in told["requests"]] == ["h5", "h6", "h5", "h6"]
    assert told["all"] == {
        "requests": 4, "mean_s": 0.025, "p50_s": 0.02, "p95_s": 0.04, "p99_s": 0.04, "max_s": 0.04,
    }  # fmt: skip
    assert told["roofline_s"] == 2**20 * 8 / 100_000_000
    assert told["warnings"] == []
    assert {name for name, _ in SCHEMA.columns} | {"ns"} == recorded[0].keys()
    last = recorded[-1]
    assert (last["node"], last["target"], last["request"], last["verb"]) == ("h1", "h6", 4, "read")
    assert (last["began"], last["begin"], last["ns"]) == (0, 3000 * MS, 3040 * MS)


def test_wrong_data_fails(moved: Moved) -> None:
    moved.wrong = 3
    told = said("h1", "--to", "h2")
    assert told.exit_code == 1
    assert "3 wrong elements" in told.stdout


def test_a_class_that_may_drop_is_a_warning() -> None:
    told = said("h1", "--to", "h2", "--tclass", "0")
    assert "DSCP 0 (traffic class 0) is not lossless" in told.stderr


def test_more_than_the_emulation_carries_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_source, "lives_in", lambda: time_source.VIRTUAL)
    told = said("h1", "--to", "h2", "--requests", "1", "--size", "1MiB")
    assert "the emulation itself can be the bottleneck" in told.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("h1", "--to", "h1"), "h1 is named twice: name each host once"),
        (("h1", "h2", "--to", "h3", "--to", "h2"), "h2 is named twice"),
        (("h1", "--to", "h99"), "no host 'h99' in fabric incast: hosts are h1"),
        (("leaf1", "--to", "h1"), "leaf1 is a switch"),
        (("h1", "--to", "h2", "--size", "0"), "a size of 0 bytes is too small"),
        (("h1", "--to", "h2", "--size", "lots"), "--size"),
        (("h1", "--to", "h2", "--size", "9" * 400), "400 digits"),
        (("h1", "--to", "h2", "--interval", "9" * 400 + "h"), "400 digits"),
        (("h1", "--to", "h2", "--requests", "0"), "0 requests are out of range"),
        (("h1", "--to", "h2", "--interval", "5m"), "an interval of 300 s is out of range"),
        (("h1", "--to", "h2", "--seed", "1"), "random arrivals need an interval"),
    ],
)
def test_what_is_not_possible_is_a_usage_error(words: tuple[str, ...], why: str) -> None:
    told = said(*words)
    assert isinstance(told.exception, UsageError)
    assert why in str(told.exception)


def test_without_a_device_or_mooncake_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nic = find_nic(FABRIC, "h1")
    monkeypatch.setattr(sysfs, "exists", lambda _: False)
    with pytest.raises(EnvironmentLacks, match="rank 3 at h1 has no RDMA device"):
        transfer_engine.TransferEngine(tmp_path).environment(3, nic, 106)
    monkeypatch.setattr(transfer_engine, "PACKAGE", tmp_path / "lab")
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    with pytest.raises(EnvironmentLacks, match=r"rocelab\[transfers\]"):
        transfer_engine.find_engine()
    module = tmp_path / "mooncake" / "engine.so"
    module.parent.mkdir()
    module.touch()
    assert transfer_engine.find_engine().module == module


def test_an_engine_has_the_gid_of_its_nic_and_the_traffic_class(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sysfs, "exists", lambda _: True)
    monkeypatch.setattr(sysfs, "wait_active", lambda _: None)
    monkeypatch.setattr(sysfs, "gid_index", lambda _device, _address: 3)
    made = transfer_engine.TransferEngine(tmp_path).environment(0, find_nic(FABRIC, "h1"), 98)
    assert (made["MC_GID_INDEX"], made["MC_IB_TC"]) == ("3", "98")
