"""What a device counted: snapshots, what moved between two of them, and what each counter means.

The counters are per port and never reset; they are read from hw_counters in sysfs, which is where the ``rdma
statistic`` command has them from too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lab.errors import EnvironmentLacks
from lab.rdma.sysfs import DEVICES, MAKE_AGAIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LIFESPAN: Final = "lifespan"


@dataclass(frozen=True, slots=True)
class Meaning:
    """One line on a counter, whether it is a sign of trouble, and its name on a ConnectX NIC ("" if it has none)."""

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
        "times that sending was started again, after a NAK or a timeout", trouble=True, mlx5="local_ack_timeout_err"
    ),
    "retry_exceeded_err": Meaning(
        "QPs that broke because the peer never answered; rxe takes 7 retries as no limit",
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
        "QPs that broke because the peer never posted a buffer", trouble=True, mlx5="req_rnr_retries_exceeded"
    ),
    "send_err": Meaning("packets that the host's own network stack refused to send", trouble=True),
    "link_downed": Meaning("times that the port went down", trouble=True, mlx5="link_downed"),
}
"""What rxe counts (drivers/infiniband/sw/rxe/rxe_hw_counters.c), the harmless first."""

UNKNOWN: Final = Meaning("a counter of a newer kernel")


def read(device: str) -> dict[str, int]:
    """All counters of the device; EnvironmentLacks when it is gone."""
    folder = DEVICES / device / "ports" / "1" / "hw_counters"
    try:
        return {
            entry.name: int(entry.read_text(encoding="ascii"))
            for entry in folder.iterdir()
            if entry.name != _LIFESPAN
        }
    except FileNotFoundError as error:
        raise EnvironmentLacks(f"RDMA device {device} is missing", MAKE_AGAIN) from error


def snapshot(devices: Iterable[str]) -> dict[str, dict[str, int]]:
    """The counters of several devices, by device."""
    return {device: read(device) for device in devices}


def moved(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """By how much each counter of one device grew, without those that did not, in the order of MEANINGS."""
    order = [*MEANINGS, *sorted(after.keys() - MEANINGS.keys())]
    grown = {name: after[name] - before.get(name, 0) for name in order if name in after}
    return {name: value for name, value in grown.items() if value}


def meaning(counter: str) -> Meaning:
    """What the counter means; UNKNOWN for those of a kernel newer than this program."""
    return MEANINGS.get(counter, UNKNOWN)
