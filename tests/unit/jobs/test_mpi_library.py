"""The environment of a rank: one device, RC for all messages, and refusals that name the rank."""

from __future__ import annotations

import sysconfig
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import pytest

from lab.errors import EnvironmentLacks, OperationFailed
from lab.jobs import mpi_library
from lab.jobs.job_spec import ALGORITHMS, Collective
from lab.jobs.mpi_library import MpiLibrary, algorithm_variables, find_mpi, mtu_variables, overlapping_variables
from lab.kernel.process.netns import Namespace
from lab.rdma import sysfs
from lab.rdma.measure import Nic

NIC: Final = Nic("h3", "eth1", Namespace("t-h3"), "incast.h3.eth1", ip_address("10.0.0.3"))
MPI: Final = MpiLibrary(Path("/mpi/lib"))


@pytest.fixture
def _with_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysfs, "exists", lambda _: True)
    monkeypatch.setattr(sysfs, "wait_active", lambda _: None)
    monkeypatch.setattr(sysfs, "gid_index", lambda _device, _address: 2)


@pytest.mark.usefixtures("_with_device")
def test_a_rank_has_its_own_device_and_rc_for_all_messages() -> None:
    made = MPI.environment(2, NIC, 106, {})
    assert made["UCX_NET_DEVICES"] == "incast.h3.eth1:1,eth1"
    assert made["UCX_IB_GID_INDEX"] == "2"
    assert made["UCX_IB_TRAFFIC_CLASS"] == "106"
    transports = made["UCX_TLS"].split(",")
    assert "rc_verbs" in transports
    assert not {"tcp", "shm", "sm", "posix", "sysv", "cma", "all"} & set(transports)
    assert not any("ALGORITHM" in name for name in made)


@pytest.mark.usefixtures("_with_device")
def test_an_algorithm_is_mpich_s_variable() -> None:
    variables = algorithm_variables(Collective.ALLREDUCE, "reduce-scatter-allgather")
    assert (
        MPI.environment(0, NIC, 106, variables)["MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"] == "reduce_scatter_allgather"
    )
    assert algorithm_variables(Collective.ALLREDUCE, "auto") == {}
    rail = algorithm_variables(Collective.ALLREDUCE, "hierarchical")
    assert rail == algorithm_variables(Collective.ALLREDUCE, "ring")


@pytest.mark.parametrize("algorithm", ALGORITHMS[Collective.ALLREDUCE])
def test_overlapping_collectives_have_variables_of_their_own(algorithm: str) -> None:
    names = overlapping_variables(algorithm).keys()
    assert "MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM" in names
    assert overlapping_variables("auto").keys() == {name for name in names if "_IALLREDUCE_" not in name}


def test_a_path_mtu_is_fixed_only_if_it_is_written() -> None:
    assert mtu_variables(4096) == {"UCX_IB_PATH_MTU": "4096"}
    assert mtu_variables(None) == {}


def test_without_a_device_the_rank_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysfs, "exists", lambda _: False)
    with pytest.raises(
        EnvironmentLacks, match=r"rank 2 at h3 has no RDMA device incast\.h3\.eth1, and no job uses TCP"
    ):
        MPI.environment(2, NIC, 106, {})


def test_mpi_is_found_in_the_environment_or_beside_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    beside, own = tmp_path / "checkout" / ".venv" / "lib", tmp_path / "own" / "lib"
    monkeypatch.setattr(mpi_library, "PACKAGE", tmp_path / "checkout" / "lab")
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(own.parent))
    for folder in (beside, own):
        folder.mkdir(parents=True)
        (folder / "libmpi_abi.so.1").touch()
        assert find_mpi().folder == folder


def test_a_rank_with_two_rails_divides_large_messages_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    second = replace(NIC, interface="eth2", device="incast.h3.eth2", address=ip_address("10.0.1.3"))
    monkeypatch.setattr(sysfs, "exists", lambda _: True)
    monkeypatch.setattr(sysfs, "wait_active", lambda _: None)
    indexes = {NIC.device: 1, second.device: 1}
    monkeypatch.setattr(sysfs, "gid_index", lambda device, _: indexes[device])
    made = MPI.environment(0, replace(NIC, rails=(second,)), 106, {})
    assert made["UCX_NET_DEVICES"] == "incast.h3.eth1:1,incast.h3.eth2:1,eth1"
    assert made["UCX_MAX_RNDV_RAILS"] == "2"
    indexes[second.device] = 2
    with pytest.raises(OperationFailed, match="different GID indexes"):
        MPI.environment(0, replace(NIC, rails=(second,)), 106, {})
