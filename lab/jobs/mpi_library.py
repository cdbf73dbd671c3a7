"""MPICH from its Python wheel: where it is, and the environment that limits a rank to one RDMA device.

The wheel has the libraries and their own UCX, and nothing of it depends on the version of Python. A VM uses that of
the host's virtual environment, which it shares with the checkout.
"""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import EnvironmentLacks
from lab.jobs.job_spec import ALGORITHMS, AUTOMATIC, Collective
from lab.rdma import sysfs
from lab.shipped import PACKAGE

if TYPE_CHECKING:
    from lab.jobs.job_spec import JobSpec
    from lab.rdma.measure import Nic

_ABI: Final = "libmpi_abi.so.1"
_VARIABLES: Final = {
    Collective.ALLREDUCE: "ALLREDUCE",
    Collective.ALLGATHER: "ALLGATHER",
    Collective.REDUCE_SCATTER: "REDUCE_SCATTER_BLOCK",
    Collective.ALLTOALL: "ALLTOALL",
    Collective.BROADCAST: "BCAST",
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

    def environment(self, rank: int, nic: Nic, spec: JobSpec) -> dict[str, str]:
        """Return the variables by which a rank uses its own device, and nothing else, for its messages.

        EnvironmentLacks if the device is missing, and OperationFailed if it has no GID of the NIC's address.
        """
        if not sysfs.exists(nic.device):
            raise EnvironmentLacks(
                f"rank {rank} at {nic} has no RDMA device {nic.device}, and no job uses TCP", sysfs.MAKE_AGAIN
            )
        sysfs.wait_active(nic.device)
        return {
            "UCX_MODULE_DIR": str(self.folder / "mpich" / "ucx"),
            "UCX_TLS": _TRANSPORTS,
            "UCX_NET_DEVICES": f"{nic.device}:1,{nic.interface}",
            "UCX_IB_GID_INDEX": str(sysfs.gid_index(nic.device, nic.address)),
            "UCX_IB_TRAFFIC_CLASS": str(spec.tclass),
            # One lane: UCX would divide large messages between all devices and transports that it may use.
            "UCX_MAX_RNDV_RAILS": "1",
            "UCX_MAX_EAGER_RAILS": "1",
            # Messages above 459 KiB are RDMA writes, as those of NCCL are: UCX prefers reads. Smaller ones are sends.
            "UCX_RNDV_SCHEME": "put_zcopy",
            "UCX_HANDLE_ERRORS": "none",
            "UCX_WARN_UNUSED_ENV_VARS": "n",
            **_algorithm(spec),
        }


def find_mpi() -> MpiLibrary:
    """Return the MPICH of this environment, or of the checkout's .venv. EnvironmentLacks if there is none."""
    for folder in (Path(sysconfig.get_path("data")) / "lib", PACKAGE.parent / ".venv" / "lib"):
        if (folder / _ABI).exists():
            return MpiLibrary(folder)
    raise EnvironmentLacks("no rank can start: MPI is missing", "pip install 'rocelab[jobs]', or run ./scripts/setup")


def _algorithm(spec: JobSpec) -> dict[str, str]:
    if spec.algorithm == AUTOMATIC:
        return {}
    name = _VARIABLES[spec.collective]
    return {
        f"MPIR_CVAR_{name}_INTRA_ALGORITHM": ALGORITHMS[spec.collective][spec.algorithm],
        f"MPIR_CVAR_{name}_DEVICE_COLLECTIVE": "0",  # the device's own choice would come first
    }
