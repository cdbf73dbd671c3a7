"""``rocelab job`` on a routed fabric, as a user runs it: the answer, the paths of the ranks, and usage errors."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Final

import pytest

from lab.kernel.process import netns_processes
from tests.fabric.command import forked, only_line, rocelab, rocelab_json
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from lab.backends.backend import Fabric

pytestmark = [pytest.mark.vm, pytest.mark.backends, pytest.mark.timeout(600)]
SIZE: Final = 2**18
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
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--ranks", "9"), "9 ranks need 9 hosts with RDMA, and there are 8"),
        (("h1", "h99"), "no host 'h99' in fabric incast"),
    ],
)
def test_ranks_that_cannot_be_placed_are_a_usage_error(words: tuple[str, ...], message: str) -> None:
    assert message in only_line(rocelab(*RING, *words, expect=2).stderr)
