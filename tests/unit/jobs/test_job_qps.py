"""The QPs of a job: matched to ranks by namespace and address, with the path of each, and looked for once."""

from __future__ import annotations

import subprocess
import sys
from ipaddress import ip_address
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from lab.dataplane.qp_pairs import ConnectedQp
from lab.errors import OperationFailed
from lab.jobs import job_qps
from lab.jobs.job_qps import DONE, JobQps, own_qps, rank_qps
from lab.kernel.netlink.rdma_tracking import QueuePair

if TYPE_CHECKING:
    import pytest

    from lab.routing.paths.underlay_path import HostAttachment

NICS: Final[Any] = tuple(
    SimpleNamespace(
        host=f"h{number}",
        interface="eth1",
        device=f"t.h{number}.eth1",
        address=ip_address(f"10.0.0.{number}"),
        namespace=SimpleNamespace(place=(4, 100 + number)),
    )
    for number in (1, 2, 3)
)


class MadeWalker:
    """Paths over one switch; none to h3."""

    def of_flow(self, src: HostAttachment, dst: HostAttachment, sport: int) -> tuple[str, ...]:
        if dst.end.node == "h3":
            raise OperationFailed("no route")
        return (str(src.end), f"leaf1:swp{sport % 2}")


WALKER: Final[Any] = MadeWalker()


def pair(host: int, qpn: int, peer: int, peer_qpn: int, netns: int = 100) -> ConnectedQp:
    return ConnectedQp(
        netns=netns + host,
        qpn=qpn,
        address=ip_address(f"10.0.0.{host}"),
        peer=ip_address(f"10.0.0.{peer}"),
        peer_qpn=peer_qpn,
    )


def test_qps_of_other_fabrics_programs_and_hosts_are_left_out() -> None:
    pairs = [
        pair(2, 18, 1, 21),
        pair(1, 21, 2, 18),
        pair(1, 21, 2, 19, netns=900),  # another fabric with the same addresses
        pair(1, 22, 2, 40),  # another program on the NIC
        pair(1, 23, 9, 17),  # a host without a rank
        pair(1, 24, 3, 17),
    ]
    found = list(rank_qps(NICS, pairs, {(0, 21), (0, 23), (0, 24), (1, 18)}, WALKER))
    assert [(each.rank, each.qpn, each.peer_rank, each.peer_qpn) for each in found] == [
        (0, 21, 1, 18), (0, 24, 2, 17), (1, 18, 0, 21)
    ]  # fmt: skip
    port = 65472  # of every QP: UCX sets the flow label
    assert (found[0].source_port, found[2].source_port) == (port, port)
    assert found[0].path == ("h1:eth1", f"leaf1:swp{port % 2}")
    assert found[1].path == ()


def test_they_are_looked_for_once_when_all_ranks_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    told: list[tuple[str, int, int]] = []
    monkeypatch.setattr(job_qps, "own_qps", lambda _: {(0, 21)})

    def pairs() -> list[ConnectedQp]:
        looked.append(len(told))
        return [pair(1, 21, 2, 18)]

    watch = JobQps(NICS, pairs, WALKER, lambda *words: told.append(words))
    for stage, done in (("start", 3), (DONE, 0), (DONE, 2), (DONE, 3), (DONE, 3)):
        watch.report(stage, done, 3)
    assert looked == [4]
    assert len(told) == 5
    assert [each.qpn for each in watch.found] == [21]


def test_only_processes_of_the_command_own_qps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank is a child of the command; the first process of the machine, and an ended one, are not."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:

        class MadeTracking:
            def __enter__(self) -> MadeTracking:
                return self

            def __exit__(self, *_: object) -> None:
                pass

            def devices(self) -> dict[str, int]:
                return {"t.h1.eth1": 7, "t.h2.eth1": 8}

            def queue_pairs(self, index: int) -> list[QueuePair]:
                pids = {7: [child.pid, 1, 0], 8: [2**22 + 1]}[index]
                return [
                    QueuePair(qpn=17 + number, kind="RC", state="RTS", remote=17, pid=pid)
                    for number, pid in enumerate(pids)
                ]

        monkeypatch.setattr(job_qps, "Tracking", MadeTracking)
        assert own_qps(NICS) == {(0, 17)}
        child.communicate(b"\n")


def test_a_job_ends_well_without_its_qps(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OperationFailed("the kernel's RDMA netlink cannot be opened")

    monkeypatch.setattr(job_qps, "Tracking", refuse)
    watch = JobQps(NICS, list, WALKER, lambda *_: None)
    watch.report(DONE, 3, 3)
    assert watch.found == ()


def test_a_path_that_cannot_be_followed_is_left_out() -> None:
    """A bond is no end of a link of the topology: the walker finds nothing at its other end."""
    walker: Any = SimpleNamespace(of_flow=lambda *_: next(iter(())))
    (found,) = rank_qps(NICS, [pair(1, 21, 2, 18)], {(0, 21)}, walker)
    assert found.path == ()
