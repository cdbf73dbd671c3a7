"""A job with the wrong GID index fails soon, and its error names the index."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

import pytest

from lab.errors import OperationFailed
from lab.jobs.job_session import JobPatience
from lab.jobs.nccl_settings import nccl_settings
from lab.jobs.wrong_gid import explained
from lab.kernel.process.netns import Namespace
from lab.rdma import sysfs
from lab.rdma.measure import Nic
from lab.rdma.sysfs import Gid

NIC: Final = Nic("h1", "eth1", Namespace("t-h1"), "t.h1.eth1", ip_address("10.0.0.1"))
TABLE: Final = tuple(
    Gid(index=index, address=ip_address(address), netdev="eth1", kind="RoCE v2")
    for index, address in enumerate(("fe80::1", "10.0.0.1"))
)
USUAL: Final = JobPatience()


@pytest.fixture(autouse=True)
def _table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysfs, "gids", lambda _: TABLE)


def fail(index: int | None) -> OperationFailed:
    settings = nccl_settings({} if index is None else {"NCCL_IB_GID_INDEX": index})
    with pytest.raises(OperationFailed) as caught, explained([NIC], settings, USUAL):
        raise OperationFailed("rank 0 at h1 made no progress", "look for loss on the path")
    return caught.value


def test_an_error_names_the_wrong_index() -> None:
    error = fail(0)
    assert error.message == ("rank 0 at h1 made no progress; GID index 0 of h1 is fe80::1, and not 10.0.0.1")
    assert "NCCL_IB_GID_INDEX" in error.remedy


@pytest.mark.parametrize("index", [None, 1])
def test_an_error_of_a_job_with_the_right_index_stays_as_it_is(index: int | None) -> None:
    assert fail(index).message == "rank 0 at h1 made no progress"


def test_a_job_with_a_wrong_index_ends_soon() -> None:
    with explained([NIC], nccl_settings({"NCCL_IB_GID_INDEX": 0}), USUAL) as waits:
        assert waits.start < USUAL.start
        assert waits.stall < USUAL.stall
    with explained([NIC], nccl_settings({}), USUAL) as waits:
        assert waits == USUAL


def test_an_index_without_a_gid_is_refused_with_those_that_there_are() -> None:
    settings = nccl_settings({"NCCL_IB_GID_INDEX": 7})
    with (
        pytest.raises(OperationFailed, match="h1 has no GID with index 7") as caught,
        explained([NIC], settings, USUAL),
    ):
        pass
    assert "0 fe80::1, 1 10.0.0.1" in caught.value.remedy
