"""Collectives by real MPI over RDMA, and transfers by Mooncake: right data, their bytes, and failures by name."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from lab.errors import EnvironmentLacks, OperationFailed
from lab.jobs.collective_job import run_job
from lab.jobs.job_session import JobPatience
from lab.jobs.job_spec import Collective, JobSpec
from lab.jobs.traces.chakra_trace import read_traces, write_traces
from lab.jobs.training_job import TraceJob, run_training
from lab.jobs.training_schedule import training_schedule
from lab.jobs.training_spec import load_training
from lab.jobs.transfers.transfer_job import run_transfer
from lab.jobs.transfers.transfer_spec import TransferSpec, TransferVerb
from lab.kernel.process import netns_processes
from lab.rdma import rxe
from tests.vm.one_switch import SWITCH, star
from tests.vm.rdma_switch import device, nic, with_rdma

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.jobs.collective_job import JobResult
    from lab.rdma.measure import Nic
    from tests.vm.one_switch import Star

LONG: Final = pytest.mark.long
"""Further algorithms of a collective, a stopped rank, and traces, which tests/unit/jobs has without RDMA.

CI has send and receive with devices of shortened names.
"""
RANKS: Final = 4
RATE: Final = 100_000_000
LOSSLESS: Final = 3
"""The priority of RoCE; TCP has 0."""
SIZE: Final = 2**20
STEPS: Final = 2
PAYLOAD: Final = 4096
HEADERS: Final = 14 + 20 + 8 + 12 + 4
"""Ethernet, IPv4, UDP, BTH, ICRC."""
GAPS: Final = 24
"""FCS, preamble and inter-frame gap."""


@pytest.fixture(scope="module")
def fabric() -> Iterator[Star]:
    with with_rdma(re.sub(r"^name: .*", "name: jobs", star(RANKS, "100Mbit", 9000))) as built:
        yield built


@pytest.fixture
def nics(fabric: Star) -> tuple[Nic, ...]:
    return tuple(nic(fabric, f"h{number}") for number in range(1, RANKS + 1))


def spec(collective: Collective, algorithm: str = "auto", *, warmup: int = 0, steps: int = 1) -> JobSpec:
    return JobSpec(collective=collective, sizes=(SIZE,), iterations=steps, warmup=warmup, algorithm=algorithm)


def run(nics: tuple[Nic, ...], job: JobSpec) -> JobResult:
    return run_job(nics, job, link_rate=RATE, report=lambda *_: None)


def sent(fabric: Star) -> dict[str, list[int]]:
    """Bytes that each host has sent, by priority."""
    return {
        host: [int(octets) for octets in fabric.counters(host)["queue"]["sent_bytes"]]
        for host in fabric.namespaces
        if host != SWITCH
    }


def left_running(fabric: Star) -> list[int]:
    return [pid for host in fabric.namespaces.values() for pid in netns_processes.programs(host, "python3")]


@pytest.mark.parametrize(
    ("collective", "algorithm", "quarters"),
    [
        pytest.param(Collective.ALLREDUCE, "recursive-doubling", (8, 8, 8, 8), marks=LONG),
        pytest.param(Collective.ALLREDUCE, "tree", (8, 8, 4, 4), marks=LONG),
        (Collective.ALLGATHER, "ring", (3, 3, 3, 3)),
        (Collective.REDUCE_SCATTER, "recursive-doubling", (5, 5, 5, 5)),
        (Collective.ALLTOALL, "brucks", (4, 4, 4, 4)),
        (Collective.BROADCAST, "binomial", (8, 0, 4, 0)),
        pytest.param(Collective.BROADCAST, "ring", (6, 3, 4, 3), marks=LONG),
        pytest.param(Collective.SENDRECV, "auto", (4, 4, 4, 4), marks=LONG),
    ],
)
def test_each_rank_sends_what_its_algorithm_sends_by_rdma(
    fabric: Star, nics: tuple[Nic, ...], collective: Collective, algorithm: str, quarters: tuple[int, ...]
) -> None:
    """In quarters of the size (Thakur, Rabenseifner, Gropp, 2005); every rank has the right result."""
    before = sent(fabric)
    assert run(nics, spec(collective, algorithm)).wrong == 0
    for (host, octets), parts in zip(sent(fabric).items(), quarters, strict=True):
        by_rdma = octets[LOSSLESS] - before[host][LOSSLESS]
        assert by_rdma == pytest.approx(parts / 4 * SIZE * (1 + HEADERS / PAYLOAD), rel=0.03, abs=0.03 * SIZE), host
        assert sum(octets) - sum(before[host]) - by_rdma < 0.02 * SIZE, host


def test_a_ring_sends_its_bytes_at_the_rate_of_the_links(fabric: Star, nics: tuple[Nic, ...]) -> None:
    before = sent(fabric)
    result = run(nics, spec(Collective.ALLREDUCE, "ring", warmup=1, steps=STEPS))
    assert result.wrong == 0
    payload = (1 + STEPS) * 2 * (RANKS - 1) / RANKS * SIZE
    for host, octets in sent(fabric).items():
        by_rdma = octets[LOSSLESS] - before[host][LOSSLESS]
        assert by_rdma == pytest.approx(payload * (1 + HEADERS / PAYLOAD), rel=0.03)
        assert sum(octets) - sum(before[host]) - by_rdma < 0.02 * payload
    (row,) = result.rows
    theory = 2 * (RANKS - 1) / RANKS * SIZE * 8 / RATE * (1 + (HEADERS + GAPS) / PAYLOAD)
    assert theory < row.time_s < 1.3 * theory
    assert left_running(fabric) == []


@pytest.mark.long
def test_a_slower_host_delays_the_steps_of_all_ranks_of_a_training_job(fabric: Star, nics: tuple[Nic, ...]) -> None:
    """Its computation is 200 ms longer: more than the transfer, so that it begins each collective last.

    In CI, test_job_command.py has a slower host on a routed fabric, and the test below the bytes of a training step.
    """
    slower = {"h1": 0.1, "h2": 0.3, "h3": 0.1}
    text = f"{{ranks: 3, compute: 100ms, slower: {{h2: 200ms}}, allreduce: {SIZE}, algorithm: ring, steps: {STEPS}}}"
    before = sent(fabric)
    job = load_training(text, "training")
    result = run_training(nics[:3], job, link_rate=RATE, report=lambda *_: None)
    for rank in result.ranks:
        by_rdma = sent(fabric)[rank.host][LOSSLESS] - before[rank.host][LOSSLESS]
        assert by_rdma == pytest.approx((1 + STEPS) * 4 / 3 * SIZE * (1 + HEADERS / PAYLOAD), rel=0.03)
        assert slower[rank.host] < rank.compute_s < 1.1 * slower[rank.host]
    assert (result.wrong, result.straggler, [step.straggler for step in result.steps]) == (0, 1, [1] * STEPS)
    assert result.ranks[1].waiting_s == 0
    assert min(result.ranks[0].waiting_s, result.ranks[2].waiting_s) > 0.1
    assert result.roofline_s == pytest.approx(0.3 + 4 / 3 * SIZE * 8 / RATE)
    assert 1 < result.jct_ratio < 1.25
    assert left_running(fabric) == []


def test_groups_of_ranks_send_what_their_step_sends_by_rdma(fabric: Star, nics: tuple[Nic, ...]) -> None:
    """Two tensor groups in two stages; h1 and h2 are the first stage. Every rank has the right data.

    In a micro-batch, each rank sums 4 x 128 KiB with its neighbour, and sends or returns 512 KiB to the other stage.
    """
    text = (
        "{ranks: 4, compute: 60ms, steps: 1, warmup: 0, layers: 2, tensor: {ranks: 2, allreduce: 128KiB}, "
        "pipeline: {ranks: 2, activations: 512KiB, microbatches: 2}}"
    )
    before = sent(fabric)
    result = run_training(nics, load_training(text, "training"), link_rate=RATE, report=lambda *_: None)
    assert (result.wrong, result.groups) == (0, "tensor 2, pipeline 2")
    payload = 2 * (4 * 2**17 + 2**19)
    for host, octets in sent(fabric).items():
        by_rdma = octets[LOSSLESS] - before[host][LOSSLESS]
        assert by_rdma == pytest.approx(payload * (1 + HEADERS / PAYLOAD), rel=0.04), host
        assert sum(octets) - sum(before[host]) - by_rdma < 0.03 * payload, host
    assert result.roofline_s < result.time_s
    assert left_running(fabric) == []


@pytest.mark.long
def test_a_storage_host_gives_batches_and_gets_checkpoints(fabric: Star, nics: tuple[Nic, ...]) -> None:
    """The sums overlap with the backward pass, so that the step is shorter than without."""
    text = (
        "{ranks: 3, compute: 300ms, steps: 2, allreduce: 768KiB, algorithm: ring, data: {overlap: true}, "
        "storage: {host: h4, load: 64KiB, checkpoint: 256KiB, every: 2}}"
    )
    before = sent(fabric)
    result = run_training(nics, load_training(text, "training"), link_rate=RATE, report=lambda *_: None)
    assert result.wrong == 0
    assert result.storage is not None
    assert (result.storage.host, [rank.host for rank in result.ranks]) == ("h4", ["h1", "h2", "h3"])
    moved = {host: octets[LOSSLESS] - before[host][LOSSLESS] for host, octets in sent(fabric).items()}
    batches, checkpoints = 3 * 3 * 2**16, 3 * 2**18
    acknowledgements = 0.03 * (batches + checkpoints)
    assert moved["h4"] == pytest.approx(batches * (1 + HEADERS / PAYLOAD), abs=acknowledgements)
    for host in ("h1", "h2", "h3"):
        payload = 3 * 4 / 3 * 768 * 2**10 + 2**18
        assert moved[host] == pytest.approx(payload * (1 + HEADERS / PAYLOAD), rel=0.04), host
    without = 0.3 + (3 * 2**16 + 4 / 3 * 768 * 2**10) * 8 / RATE
    first, second = result.steps
    assert first.time_s < without
    assert second.time_s > 0.3 + checkpoints * 8 / RATE


@pytest.mark.long
def test_an_exported_job_sends_the_same_bytes_again(fabric: Star, nics: tuple[Nic, ...], tmp_path: Path) -> None:
    """As a Chakra trace, read back: each host sends as much by RDMA as in the job itself."""
    job = load_training(
        "{ranks: 4, compute: 30ms, steps: 2, warmup: 0, allreduce: 512KiB, algorithm: ring, layers: 2, "
        "expert: {ranks: 2, alltoall: 256KiB}, data: {shard: true}}",
        "training",
    )
    schedule = training_schedule(job, [each.host for each in nics])
    write_traces(schedule, tmp_path, "job")
    again = TraceJob(name="again", schedule=read_traces(tmp_path / "job.0.et"))
    moved = []
    for each in (job, again):
        before = sent(fabric)
        assert run_training(nics, each, link_rate=RATE, report=lambda *_: None).wrong == 0
        moved.append([octets[LOSSLESS] - before[host][LOSSLESS] for host, octets in sent(fabric).items()])
    assert moved[1] == pytest.approx(moved[0], rel=0.03)


@pytest.mark.parametrize("verb", [TransferVerb.WRITE, pytest.param(TransferVerb.READ, marks=LONG)])
def test_mooncake_moves_each_request_by_rdma_at_the_rate_of_the_link(
    fabric: Star, nics: tuple[Nic, ...], verb: TransferVerb
) -> None:
    """One after the other, from h1 to h3 and h4 in turn; every target has the right data."""
    requests, before = 4, sent(fabric)
    spec = TransferSpec(size=SIZE, requests=requests, verb=verb)
    result = run_transfer(nics[:1], nics[2:], spec, link_rate=RATE, report=lambda *_: None)
    assert (result.wrong, [each.target for each in result.requests]) == (0, ["h3", "h4", "h3", "h4"])
    moved = {host: octets[LOSSLESS] - before[host][LOSSLESS] for host, octets in sent(fabric).items()}
    whole = {"h1": requests} if verb is TransferVerb.WRITE else {"h3": requests / 2, "h4": requests / 2}
    for host, times in ({"h1": 0, "h2": 0, "h3": 0, "h4": 0} | whole).items():
        payload = times * SIZE
        assert moved[host] == pytest.approx(payload * (1 + HEADERS / PAYLOAD), rel=0.03, abs=0.05 * SIZE), host
    theory = SIZE * 8 / RATE * (1 + (HEADERS + GAPS) / PAYLOAD)
    assert theory < result.all.p50_s < 1.1 * theory
    assert left_running(fabric) == []


@pytest.mark.long
def test_hosts_that_write_to_one_target_share_its_link(nics: tuple[Nic, ...]) -> None:
    """A checkpoint: three hosts at once, so that a request takes three times as long."""
    spec = TransferSpec(size=SIZE // 2, requests=2)
    result = run_transfer(nics[:3], nics[3:], spec, link_rate=RATE, report=lambda *_: None)
    assert result.wrong == 0
    theory = 3 * SIZE / 2 * 8 / RATE * (1 + (HEADERS + GAPS) / PAYLOAD)
    assert result.all.mean_s == pytest.approx(theory, rel=0.1)


def test_ranks_use_devices_with_shortened_names(fabric: Star, nics: tuple[Nic, ...]) -> None:
    """Those of a fabric and of a host whose names are too long for a device, at the limit of UCX."""
    long = "a-name-that-is-too-long-for-a-device"
    names = (rxe.device_name(long, "h1", "eth1"), rxe.device_name("jobs", long, "eth1"))
    assert [len(name) for name in names] == [rxe.MAX_NAME] * 2
    used = [replace(each, device=name) for each, name in zip(nics, names, strict=False)]
    before = sent(fabric)
    for each, name in zip(nics, names, strict=False):
        rxe.delete(each.device)
        rxe.create(each.namespace, name, each.interface)
    try:
        result = run(tuple(used), spec(Collective.SENDRECV))
    finally:
        for each, name in zip(nics, names, strict=False):
            rxe.delete(name)
            rxe.create(each.namespace, each.device, each.interface)
    assert (result.wrong, tuple(rank.device for rank in result.ranks)) == (0, names)
    for host in ("h1", "h2"):
        by_rdma = sent(fabric)[host][LOSSLESS] - before[host][LOSSLESS]
        assert by_rdma == pytest.approx(SIZE * (1 + HEADERS / PAYLOAD), rel=0.03, abs=0.03 * SIZE), host


def test_without_rdma_the_rank_is_named(fabric: Star, nics: tuple[Nic, ...]) -> None:
    rxe.delete(device(fabric, "h3"))
    try:
        with pytest.raises(EnvironmentLacks, match="rank 2 at h3 has no RDMA device"):
            run(nics, spec(Collective.ALLREDUCE))
        with pytest.raises(EnvironmentLacks, match="rank 1 at h3 has no RDMA device"):
            run_transfer(nics[:1], nics[2:3], TransferSpec(size=4), link_rate=RATE, report=lambda *_: None)
    finally:
        rxe.create(fabric.namespaces["h3"], device(fabric, "h3"), "eth1")


def test_where_rdma_does_not_pass_nothing_goes_by_tcp_instead(fabric: Star, nics: tuple[Nic, ...]) -> None:
    namespace, before = fabric.namespaces["h2"], sent(fabric)
    namespace.run(["nft", "add table inet t; add chain inet t i { type filter hook input priority 0; }"])
    namespace.run(["nft", "add rule inet t i udp dport 4791 drop"])
    patience = JobPatience(start=5.0, stall=2.0)
    try:
        with pytest.raises(
            OperationFailed,
            match=r"rank [01] at h[12] made no progress while it started: no RDMA packet came for 5 s",
        ):
            run_job(nics[:2], spec(Collective.SENDRECV), link_rate=RATE, report=lambda *_: None, patience=patience)
    finally:
        namespace.run(["nft", "delete table inet t"])
    for host, octets in sent(fabric).items():
        assert octets[0] - before[host][0] < 0.02 * SIZE
    assert left_running(fabric) == []


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (signal.SIGKILL, r"rank 1 at h2 was killed \(SIGKILL\)"),
        pytest.param(signal.SIGSTOP, "rank 1 at h2 is stopped by a signal or a debugger", marks=LONG),
    ],
)
def test_a_rank_that_is_killed_or_stopped_is_named_and_the_others_end(
    fabric: Star, nics: tuple[Nic, ...], number: signal.Signals, message: str
) -> None:
    def disturb(stage: str, _done: int, _total: int) -> None:
        if stage == "ranks done":
            for pid in netns_processes.programs(fabric.namespaces["h2"], "python3"):
                os.kill(pid, number)

    job = spec(Collective.ALLREDUCE, steps=1000)
    with pytest.raises(OperationFailed, match=message):
        run_job(nics, job, link_rate=RATE, report=disturb, patience=JobPatience(stall=2.0))
    assert left_running(fabric) == []
