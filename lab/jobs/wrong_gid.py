"""A GID index that is not that of a rank's address: the job cannot work, and its error names the index.

The QPs are connected all the same, by TCP. Their packets leave with another source address, or not at all, and no
program reports why.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lab.errors import LabError, OperationFailed
from lab.rdma import sysfs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.jobs.job_session import JobPatience
    from lab.jobs.nccl_settings import NcclSettings
    from lab.rdma.measure import Nic

_SHORT: Final = 15.0
"""Seconds until a job ends that waits for packets that no peer can receive: UCX's QPs retry for 8 s."""


@contextlib.contextmanager
def explained(nics: Sequence[Nic], settings: NcclSettings, patience: JobPatience) -> Iterator[JobPatience]:
    """Yield the timeouts of a job; if it fails in the block and its GID index is wrong, raise an error that says so.

    With a wrong index the timeouts are shorter. OperationFailed for an index without a GID.
    """
    wrong = _wrong_index(nics, settings.gid_index)
    if not wrong:
        yield patience
        return
    try:
        yield replace(patience, start=min(_SHORT, patience.start), stall=min(_SHORT, patience.stall))
    except LabError as error:
        raise OperationFailed(f"{error.message}; {wrong}", "leave out NCCL_IB_GID_INDEX: rocelab finds it") from error


def _wrong_index(nics: Sequence[Nic], index: int | None) -> str:
    """Return what is wrong with the index at the first NIC where it is; "" if it is right everywhere, or not set."""
    if index is None:
        return ""
    for nic in nics:
        known = {gid.index: gid.address for gid in sysfs.gids(nic.device)}
        if index not in known:
            have = ", ".join(f"{number} {address}" for number, address in known.items()) or "none"
            raise OperationFailed(f"{nic} has no GID with index {index}", f"use one that it has: {have}")
        if known[index] != nic.address:
            return f"GID index {index} of {nic} is {known[index]}, and not {nic.address}"
    return ""
