"""``rocelab job`` on a routed fabric, as a user runs it: the answer, the paths of the ranks, and usage errors."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Final

import pytest

from lab.cli.kit.scenario_verdict import told_of
from lab.diagnose.run import diagnose_run
from lab.kernel.process import netns_processes
from lab.report.job.job_explanation import explain_step
from lab.report.markdown import write_markdown
from lab.report.playback import playback
from lab.report.run_facts import gather
from lab.scenario import library
from lab.telemetry.read.recorded_jobs import recorded_jobs
from lab.telemetry.read.recorded_requests import recorded_requests
from lab.telemetry.read.recording import Recording
from lab.telemetry.read.timeline_frames import RecordedFilm
from tests.fabric.command import forked, only_line, rocelab, rocelab_json
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from lab.backends.backend import Fabric

pytestmark = [pytest.mark.vm, pytest.mark.backends, pytest.mark.timeout(600)]
SIZE: Final = 2**18
SLOW: Final = """
name: slow
hosts: [h1, h5, h2, h6]
steps: 3
compute: 200ms
slower: {h2: 100ms}
allreduce: 256KiB
algorithm: ring
"""
RING: Final = ("job", "allreduce", "--algorithm", "ring", "--size", "256KiB", "--warmup", "0")


def uplink_bytes(fabric: Fabric) -> int:
    """The bytes that the leaves have sent to the spines."""
    count = 0
    for leaf in ("leaf1", "leaf2"):
        links = json.loads(fabric.namespace(leaf).run(["ip", "-json", "-stats", "link"]).stdout)
        count += sum(link["stats64"]["tx"]["bytes"] for link in links if link["ifname"] in {"swp1", "swp2"})
    return count


def ranks_running(fabric: Fabric) -> int:
    hosts = [fabric.namespace(host.name) for host in fabric.topology.hosts]
    return sum(len(netns_processes.programs(host, "python3")) for host in hosts)


def test_a_scattered_ring_crosses_the_spines_in_every_hop(incast: Fabric) -> None:
    before = uplink_bytes(incast)
    answer = rocelab_json(*RING, "--ranks", "4", "--placement", "scattered", "--iterations", "1")
    assert [rank["host"] for rank in answer["ranks"]] == ["h1", "h5", "h2", "h6"]
    (row,) = answer["rows"]
    assert (row["size"], row["wrong"], answer["warnings"]) == (SIZE, 0, [])
    assert row["jct_ratio"] > 1
    ring = 4 * 2 * 3 / 4 * SIZE
    assert ring < uplink_bytes(incast) - before < 1.1 * ring
    assert ranks_running(incast) == 0


def test_ctrl_c_ends_every_rank(incast: Fabric) -> None:
    """The signal comes during a step; the exit code is that of all interrupted commands, 130 in a shell."""
    before = uplink_bytes(incast)
    with forked(*RING, "--ranks", "4", "--placement", "scattered", "--iterations", "10000") as job:
        while uplink_bytes(incast) < before + 10 * SIZE:
            assert not job.is_over(0.1), job.so_far()
        assert ranks_running(incast) == 4
        job.send_signal(signal.SIGINT)
        ended = job.end(PATIENCE)
    assert (ended.returncode, only_line(ended.stderr)) == (-signal.SIGINT, "error: ended by SIGINT")
    assert ranks_running(incast) == 0


@pytest.mark.usefixtures("incast")
def test_a_slow_rank_is_read_back_by_every_view(tmp_path: Path) -> None:
    """The ring crosses the spines in every hop; h2 computes 100 ms longer, and the network has no part in it.

    A transfer after it has a row for each request.
    """
    file, run = tmp_path / "slow.yaml", tmp_path / "recorded" / "slow"
    file.write_text(SLOW, encoding="utf-8")
    rocelab("record", "start", "slow", "-o", run.parent)
    rocelab("job", "train", file)
    rocelab("job", "transfer", "h3", "--to", "h4", "--requests", "3", "--size", "128KiB")
    rocelab("record", "stop")
    recording = Recording.open(run)
    (transfer,) = recorded_requests(recording)
    assert [(each.nic, each.target_nic, each.number) for each in transfer.requests] == [
        ("h3:eth1", "h4:eth1", number) for number in (1, 2, 3)
    ]
    assert all(each.seconds > 2**17 * 8 / 100e6 for each in transfer.requests)
    (job,) = recorded_jobs(recording)
    assert [each.node for each in job.ranks] == ["h1", "h5", "h2", "h6"]
    ((slow, excess, count),) = job.slow_ranks()
    assert (slow.node, count) == ("h2", 3)
    assert excess == pytest.approx(0.1, abs=0.02)
    assert job.about is not None
    onward = {(qp.rank, qp.peer_rank): qp.path for qp in job.about.qps if qp.peer_rank == (qp.rank + 1) % 4}
    assert len(onward) == 4
    assert all((len(path), path[0][:2]) == (4, job.ranks[rank].node) for (rank, _), path in onward.items())
    uplinks = [f"leaf{leaf}:swp{port}" for leaf in (1, 2) for port in (1, 2)]
    busy = {port for port in uplinks if recording.port(port).tx_bytes(3).delta() > SIZE}
    assert busy == {path[1] for path in onward.values()}  # of 1.6 MB on each; acknowledgements take 60 KB

    found = explain_step(recording)
    assert found.step.straggler == 2
    assert found.findings[0].startswith("rank 2 (h2) computed 3")
    assert found.qps
    assert found.critical_qp is not None
    diagnosis = diagnose_run(recording)
    assert [(each.cause, each.places) for each in diagnosis.causes] == [("straggler-host", ("h2",))]
    film = RecordedFilm(recording)
    assert [each.node for each in film.job_ranks(film.end) if each.straggler] == ["h2"]
    facts = gather(recording, told_of(run, library.OWN))
    assert "`2 h2:eth1`" in write_markdown(facts)
    assert [(each.nic, each.requests) for each in facts.requests[0].hosts] == [("h3:eth1", 3)]
    (played,) = playback(recording, facts)["jobs"]
    assert [each["straggler"] for each in played["steps"]] == [2, 2, 2]


@pytest.mark.usefixtures("incast")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--ranks", "9"), "9 ranks need 9 hosts with RDMA, and there are 8"),
        (("h1", "h99"), "no host 'h99' in fabric incast"),
    ],
)
def test_ranks_that_cannot_be_placed_are_a_usage_error(words: tuple[str, ...], message: str) -> None:
    assert message in only_line(rocelab(*RING, *words, expect=2).stderr)
