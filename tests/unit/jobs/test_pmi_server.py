"""PMI-1 as MPICH speaks it: replies by command, values between ranks, and the barrier."""

from __future__ import annotations

import pytest

from lab.jobs.pmi_server import PmiServer


def test_a_rank_learns_about_the_job_line_by_line() -> None:
    server = PmiServer(2)
    assert server.receive(0, b"cmd=init pmi_version=1 pmi_subv") == []
    assert server.receive(0, b"ersion=1\ncmd=get_maxes\n") == [
        (0, b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"),
        (0, b"cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=4096\n"),
    ]
    assert server.receive(1, b"cmd=get_universe_size\n") == [(1, b"cmd=universe_size rc=0 size=2\n")]


def test_a_value_goes_from_one_rank_to_another() -> None:
    server = PmiServer(2)
    server.receive(1, b"cmd=put kvsname=job key=qp value=0x11=a\n")
    (reply,) = server.receive(0, b"cmd=get kvsname=job key=qp\n")
    assert reply == (0, b"cmd=get_result rc=0 msg=success value=0x11=a\n")
    (missing,) = server.receive(0, b"cmd=get kvsname=job key=other\n")
    assert missing[1].startswith(b"cmd=get_result rc=-1 ")


def test_each_rank_is_on_a_node_of_its_own_so_that_none_uses_shared_memory() -> None:
    (reply,) = PmiServer(4).receive(0, b"cmd=get kvsname=job key=PMI_process_mapping\n")
    assert reply[1].endswith(b"value=(vector,(0,4,1))\n")


def test_a_barrier_opens_for_all_when_the_last_rank_is_there() -> None:
    server = PmiServer(3)
    assert server.receive(2, b"cmd=barrier_in\n") == []
    assert server.receive(2, b"cmd=barrier_in\n") == []
    assert server.receive(0, b"cmd=barrier_in\n") == []
    assert [rank for rank, _ in server.receive(1, b"cmd=barrier_in\n")] == [0, 1, 2]
    assert server.receive(0, b"cmd=barrier_in\n") == []


def test_an_abort_is_no_request() -> None:
    assert PmiServer(2).receive(1, b"cmd=abort exitcode=16\n") == []


@pytest.mark.parametrize("octets", [b"cmd=spawn\n", b"nothing\n", b"x" * (1 << 21)])
def test_what_is_no_pmi_is_refused(octets: bytes) -> None:
    with pytest.raises(ValueError, match=r"unknown command|endless"):
        PmiServer(2).receive(0, octets)
