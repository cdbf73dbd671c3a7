"""Mooncake's transfer engine from its Python wheel: where it is, and the environment of a host's engine.

The engine is an extension module for one version of Python. A VM uses a copy for its own version, which
``./scripts/setup`` puts beside the packages of the host.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.errors import EnvironmentLacks
from lab.rdma import sysfs
from lab.shipped import PACKAGE

if TYPE_CHECKING:
    from lab.rdma.measure import Nic

_MODULE: Final = Path("mooncake") / "engine.so"
_UNDER_WAY: Final = {"MC_NUM_QP_PER_EP": "1", "MC_SLICE_SIZE": "16384", "MC_MAX_WR": "4"}
"""One QP for each target, and 64 KiB of it under way: four slices of 16 KiB.

Mooncake's QPs retransmit after 67 ms without an acknowledgement, and no variable changes that. By default, it has
256 slices of 64 KiB under way. At 100 Gb/s that is 1.3 ms, and at 100 Mb/s more than a second: with three hosts that
wrote to one, 512 of 1,280 packets were retransmissions.
"""


@dataclass(frozen=True, slots=True)
class TransferEngine:
    """An installed engine."""

    module: Path
    """Its extension module."""

    def environment(self, rank: int, nic: Nic, tclass: int) -> dict[str, str]:
        """Return the variables by which a host's engine uses the GID of its NIC, and this traffic class.

        EnvironmentLacks if the device is missing, and OperationFailed if it has no GID of the NIC's address.
        """
        if not sysfs.exists(nic.device):
            raise EnvironmentLacks(
                f"rank {rank} at {nic} has no RDMA device {nic.device}, and no transfer uses TCP", sysfs.MAKE_AGAIN
            )
        sysfs.wait_active(nic.device)
        return {
            "PATH": os.defpath,
            "MC_GID_INDEX": str(sysfs.gid_index(nic.device, nic.address)),
            "MC_IB_TC": str(tclass),
            "MC_LOG_LEVEL": "WARNING",
            **_UNDER_WAY,
        }


def find_engine() -> TransferEngine:
    """Return the engine for this version of Python. EnvironmentLacks if there is none."""
    own = Path(sysconfig.get_path("platlib"))
    for folder in (own, PACKAGE.parent / ".venv" / guest_folder(f"{sys.version_info[0]}.{sys.version_info[1]}")):
        if (folder / _MODULE).exists():
            return TransferEngine(folder / _MODULE)
    raise EnvironmentLacks(
        "no transfer can start: Mooncake's transfer engine is missing",
        "pip install 'rocelab[transfers]'; for the VM, run ./scripts/setup",
    )


def guest_folder(version: str) -> Path:
    """Return the folder in a virtual environment with packages for a VM whose Python has this version."""
    return Path("share") / "rocelab" / f"python{version}"
