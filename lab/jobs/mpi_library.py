"""MPICH from its Python wheel: where it is, and the environment that limits a rank to one RDMA device.

The wheel has the libraries and their own UCX, and nothing of it depends on the version of Python. A VM uses that of
the host's virtual environment, which it shares with the checkout.
"""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import EnvironmentLacks, OperationFailed
from lab.jobs.job_spec import ALGORITHMS, AUTOMATIC, HIERARCHICAL, Collective
from lab.jobs.nccl_settings import net_devices
from lab.rdma import sysfs
from lab.shipped import PACKAGE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.rdma.measure import Nic

_ABI: Final = "libmpi_abi.so.1"
_NAMES: Final = {
    Collective.ALLREDUCE: "ALLREDUCE",
    Collective.ALLGATHER: "ALLGATHER",
    Collective.REDUCE_SCATTER: "REDUCE_SCATTER_BLOCK",
    Collective.ALLTOALL: "ALLTOALL",
    Collective.BROADCAST: "BCAST",
}
_OVERLAPPING: Final = {
    "ring": "tsp_ring",
    "tree": "tsp_tree",
    "recursive-doubling": "sched_recursive_doubling",
    "reduce-scatter-allgather": "sched_reduce_scatter_allgather",
}
"""The algorithms of a non-blocking AllReduce, and MPICH's names for them."""
_FIXED: Final = {
    "IALLGATHER": "sched_ring",
    "IREDUCE_SCATTER_BLOCK": "sched_pairwise",
    "IALLTOALL": "sched_pairwise",
    "IBCAST": "sched_binomial",
}
_TRANSPORTS: Final = "rc_verbs,self,tcp:aux"
"""RC QPs for all messages. TCP only connects them ("aux"); no message of a rank can use it."""


@dataclass(frozen=True, slots=True)
class MpiLibrary:
    """An installed MPICH."""

    folder: Path

    @property
    def abi(self) -> Path:
        """The library with the standard ABI of MPI 5.0."""
        return self.folder / _ABI

    def environment(self, rank: int, nic: Nic, tclass: int, algorithms: Mapping[str, str]) -> dict[str, str]:
        """Return the variables by which a rank uses its own device, and nothing else, for its messages.

        ``algorithms`` are the variables of MPICH that choose them.

        EnvironmentLacks if a device is missing, and OperationFailed if it has no GID of the NIC's address.
        """
        indexes = [_gid_index(rank, each) for each in (nic, *nic.rails)]
        if len(set(indexes)) > 1:  # UCX has one index for all devices
            raise OperationFailed(
                f"rank {rank} at {nic}: its NICs have their addresses at different GID indexes",
                "use one NIC of a host",
            )
        return {
            "UCX_MODULE_DIR": str(self.folder / "mpich" / "ucx"),
            "UCX_TLS": _TRANSPORTS,
            "UCX_NET_DEVICES": net_devices(nic, nic.interface),
            "UCX_IB_GID_INDEX": str(indexes[0]),
            "UCX_IB_TRAFFIC_CLASS": str(tclass),
            # One lane for each rail: UCX would divide large messages between all devices and transports otherwise.
            "UCX_MAX_RNDV_RAILS": str(1 + len(nic.rails)),
            "UCX_MAX_EAGER_RAILS": "1",
            # Messages above 459 KiB are RDMA writes, as those of NCCL are: UCX prefers reads. Smaller ones are sends.
            "UCX_RNDV_SCHEME": "put_zcopy",
            "UCX_HANDLE_ERRORS": "none",
            "UCX_WARN_UNUSED_ENV_VARS": "n",
            **algorithms,
        }


def _gid_index(rank: int, nic: Nic) -> int:
    """Return the index of the GID of a NIC's address, once its device is active."""
    if not sysfs.exists(nic.device):
        raise EnvironmentLacks(
            f"rank {rank} at {nic} has no RDMA device {nic.device}, and no job uses TCP", sysfs.MAKE_AGAIN
        )
    sysfs.wait_active(nic.device)
    return sysfs.gid_index(nic.device, nic.address)


def find_mpi() -> MpiLibrary:
    """Return the MPICH of this environment, or of the checkout's .venv. EnvironmentLacks if there is none."""
    for folder in (Path(sysconfig.get_path("data")) / "lib", PACKAGE.parent / ".venv" / "lib"):
        if (folder / _ABI).exists():
            return MpiLibrary(folder)
    raise EnvironmentLacks("no rank can start: MPI is missing", "pip install 'rocelab[jobs]', or run ./scripts/setup")


def algorithm_variables(collective: Collective, algorithm: str) -> dict[str, str]:
    """Return the variables for an algorithm of a blocking collective; that of each rail is a ring."""
    if algorithm == AUTOMATIC:
        return {}
    of_mpich = ALGORITHMS[collective]["ring" if algorithm == HIERARCHICAL else algorithm]
    return _variables(_NAMES[collective], of_mpich)


def overlapping_variables(allreduce: str) -> dict[str, str]:
    """Return the variables for the algorithms of non-blocking collectives; that of AllReduce is chosen.

    The others send each byte once: ring and pairwise, and a binomial tree.
    """
    found = {} if allreduce == AUTOMATIC else _variables("IALLREDUCE", _OVERLAPPING[allreduce])
    for name, algorithm in _FIXED.items():
        found |= _variables(name, algorithm)
    return found


def mtu_variables(mtu: int | None) -> dict[str, str]:
    """Return the variables for a path MTU in bytes. Without one, UCX takes the smaller active MTU of both ends."""
    return {} if mtu is None else {"UCX_IB_PATH_MTU": str(mtu)}


def _variables(name: str, algorithm: str) -> dict[str, str]:
    return {
        f"MPIR_CVAR_{name}_INTRA_ALGORITHM": algorithm,
        f"MPIR_CVAR_{name}_DEVICE_COLLECTIVE": "0",  # the device's own choice would come first
    }
