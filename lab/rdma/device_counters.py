"""Counters of RDMA devices: snapshots, growth between two snapshots, and the meaning of each counter.

The counters are per port and never reset. They are read from hw_counters in sysfs, which have the values of the
``rdma statistic`` command.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.errors import EnvironmentLacks
from lab.rdma.sysfs import DEVICES, MAKE_AGAIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_LIFESPAN: Final = "lifespan"
_LONGEST: Final = 32
"""Maximum length of a counter's file in bytes: 2^64 has 20 digits."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """A counter's meaning, whether growth is a symptom, and its name on ConnectX NICs ("" if there is none)."""

    text: str
    trouble: bool = False
    mlx5: str = ""


MEANINGS: Final[Mapping[str, Meaning]] = {
    "sent_pkts": Meaning(
        "RoCE packets sent, retransmissions and ACKs included", mlx5="tx_vport_rdma_unicast_packets"
    ),
    "rcvd_pkts": Meaning("RoCE packets received", mlx5="rx_vport_rdma_unicast_packets"),
    "sent_bytes": Meaning("bytes sent in RoCE packets", mlx5="tx_vport_rdma_unicast_bytes"),
    "rcvd_bytes": Meaning("bytes received in RoCE packets", mlx5="rx_vport_rdma_unicast_bytes"),
    "rdma_sends": Meaning("SEND operations completed"),
    "rdma_recvs": Meaning("SEND operations received into a posted buffer"),
    "ack_deferred": Meaning("responses that waited because others were being processed; load, no fault"),
    "out_of_seq_request": Meaning(
        "requests received with a PSN beyond the expected one: packets before them were lost or reordered",
        trouble=True,
        mlx5="out_of_sequence",
    ),
    "rcvd_seq_err": Meaning(
        "NAKs received for a sequence error: the peer misses packets and this side goes back N",
        trouble=True,
        mlx5="packet_seq_err",
    ),
    "duplicate_request": Meaning(
        "requests received again after they had been executed: an ACK was lost or late",
        trouble=True,
        mlx5="duplicate_request",
    ),
    "completer_retry_err": Meaning(
        "times that a QP resent from an earlier PSN, after a NAK or a timeout",
        trouble=True,
        mlx5="local_ack_timeout_err",
    ),
    "retry_exceeded_err": Meaning(
        "QPs that failed because the peer did not answer; rxe treats 7 retries as unlimited",
        trouble=True,
        mlx5="req_transport_retries_exceeded",
    ),
    "send_rnr_err": Meaning(
        "receiver-not-ready NAKs sent: a SEND found no posted buffer", trouble=True, mlx5="out_of_buffer"
    ),
    "rcvd_rnr_err": Meaning(
        "receiver-not-ready NAKs received: the peer had no buffer posted", trouble=True, mlx5="rnr_nak_retry_err"
    ),
    "retry_rnr_exceeded_err": Meaning(
        "QPs that failed because the peer posted no buffer", trouble=True, mlx5="req_rnr_retries_exceeded"
    ),
    "send_err": Meaning("packets that the host's own network stack refused to send", trouble=True),
    "link_downed": Meaning("times that the port went down", trouble=True, mlx5="link_downed"),
}
"""The counters of rxe (drivers/infiniband/sw/rxe/rxe_hw_counters.c), counters of normal operation first."""

UNKNOWN: Final = Meaning("a counter of a newer kernel")


class Open:
    """Open counter files of several devices, for reads in quick succession: opening files is slow on a busy CPU."""

    def __init__(self, devices: Iterable[str]) -> None:
        """EnvironmentLacks if a device is gone."""
        self._files: dict[str, dict[str, int]] = {}
        try:
            for device in devices:
                self._files[device] = {}
                for path in files_of(device):
                    self._files[device][path.name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except BaseException:
            self.close()
            raise

    def read(self) -> dict[str, dict[str, int]]:
        """Return all counters by device; EnvironmentLacks if a device is gone."""
        try:
            # Only system calls here: counters change between any two of them.
            raw = [[os.pread(file, _LONGEST, 0) for file in files.values()] for files in self._files.values()]
        except OSError as error:
            raise EnvironmentLacks(f"one of {', '.join(self._files)} is missing", MAKE_AGAIN) from error
        return {
            device: {name: int(text) for name, text in zip(files, texts, strict=True)}
            for (device, files), texts in zip(self._files.items(), raw, strict=True)
        }

    def close(self) -> None:
        """Close all files."""
        for files in self._files.values():
            for file in files.values():
                os.close(file)
        self._files.clear()


def snapshot(devices: Iterable[str]) -> dict[str, dict[str, int]]:
    """Return the counters of several devices, by device; EnvironmentLacks if one is gone."""
    with contextlib.closing(Open(devices)) as opened:
        return opened.read()


def read(device: str) -> dict[str, int]:
    """Return all counters of a device; EnvironmentLacks if it is gone."""
    return snapshot([device])[device]


def files_of(device: str) -> list[Path]:
    """Return the file of each counter of a device, named like the counter; EnvironmentLacks if the device is gone."""
    folder = DEVICES / device / "ports" / "1" / "hw_counters"
    try:
        return [entry for entry in folder.iterdir() if entry.name != _LIFESPAN]
    except FileNotFoundError as error:
        raise EnvironmentLacks(f"RDMA device {device} is missing", MAKE_AGAIN) from error


def moved(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return the growth of each counter of a device, without those that did not grow, in the order of MEANINGS."""
    order = [*MEANINGS, *sorted(after.keys() - MEANINGS.keys())]
    grown = {name: after[name] - before.get(name, 0) for name in order if name in after}
    return {name: value for name, value in grown.items() if value}


def meaning(counter: str) -> Meaning:
    """Return the meaning of a counter; UNKNOWN for those of a newer kernel."""
    return MEANINGS.get(counter, UNKNOWN)
