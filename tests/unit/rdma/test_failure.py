"""Each way in which perftest failed in front of us becomes one line with the pair, the reason and the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.rdma.perftest_failure import explain, incomplete, stalled, unanswered
from tests.unit.rdma.test_measure import PAIR

DATA = Path(__file__).parent / "data"
SERVER_GONE = (DATA / "killed-server-25.01.err").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "Couldn't connect to 10.0.0.2:20001\nUnable to open file descriptor for socket connection\n",
            "client at h1: no TCP connection to 10.0.0.2:20001: try: rocelab exec h1 -- ping -c1 10.0.0.1",
        ),
        ("IB device nodev not found\n Unable to find the Infiniband/RoCE device\n", "its RDMA device is missing"),
        (" Found Incompatibility issue with GID types.\n Please Try to use a different IP version.\n", "GID"),
        (" Completion with error at client\n Failed status 5: wr_id 0 syndrom 0x0\nscnt=2, ccnt=1\n", "flushed"),
        (" Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n", "retry counter exceeded"),
        (" Failed status 99: wr_id 0\n", "work completion status 99"),
        ("Couldn't listen to port 18515\n", "TCP port 18515 is taken"),
        (" Did not detect devices \n If device exists, check if driver is up\n", "its RDMA device is missing"),
        ("Correlation coefficient r^2: 0.8 < 0.9\nCan't produce a report\n", "too unsteady to measure by"),
        (SERVER_GONE, "the other side ended"),
        ("something new\n", "client at h1 ended with 1: something new"),
        ("", "client at h1 ended with 1: it printed nothing"),
    ],
)
def test_what_it_said_is_explained(said: str, reason: str) -> None:
    error = explain(PAIR, [("client at h1", 1, said)])
    assert str(error).startswith("h1 -> h2: ")
    assert reason in str(error)
    assert "\n" not in str(error)
    assert error.remedy


def test_the_side_that_a_signal_ended_is_the_cause() -> None:
    error = explain(PAIR, [("client at h1", 1, SERVER_GONE), ("server at h2", -9, "")])
    assert str(error).startswith("h1 -> h2: server at h2 was killed (SIGKILL)")


def test_a_known_reason_comes_before_the_one_who_only_noticed() -> None:
    error = explain(PAIR, [("client at h1", 1, SERVER_GONE), ("server at h2", 1, "Failed status 13: wr_id 0")])
    assert "server at h2: the peer had no receive buffer" in str(error)


def test_silence_names_the_pair_and_where_to_look() -> None:
    assert str(stalled(PAIR, 15, ever=True)).startswith("h1 -> h2: no RDMA packet came back for 15 s: look for loss")
    never = str(stalled(PAIR, 15, ever=False))
    assert never.startswith(
        "h1 -> h2: the QP of h1 was never answered: no RDMA packet came back for 15 s: try: rocelab"
    )


@pytest.mark.parametrize(
    ("qps", "named"),
    [
        (([17], [18]), ("QP 0x11 of h1", "QP 0x12 of h2 at 10.0.0.1")),
        (([17, 18], [33, 34]), ("every one of QPs 0x11, 0x12 of h1", "every one of QPs 0x21, 0x22 of h2")),
        ((range(17, 25), range(17, 25)), ("QPs 0x11, 0x12, 0x13, 0x14 and 4 more of h1", "and 4 more of h2")),
        (([], []), ("the QP of h1", "the QP of h2 at")),
    ],
)
def test_what_was_not_answered_is_named(qps: tuple[list[int], list[int]], named: tuple[str, str]) -> None:
    for error in (unanswered(PAIR, qps, 7), incomplete(PAIR, qps, 7)):
        assert str(error).startswith("h1 -> h2: ")
        assert all(name in str(error) for name in named), str(error)
        assert "measure for longer, or see" not in str(error), "what a damaged report needs"
        assert "in 7 s" in str(error)
    assert "was never answered: no RDMA packet came back from" in str(unanswered(PAIR, qps, 7))
