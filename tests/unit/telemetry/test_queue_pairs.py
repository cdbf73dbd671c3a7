"""Reported changes of queue pairs, from answers of the kernel's resource tracking."""

from __future__ import annotations

import struct

from lab.kernel.netlink.rdma_tracking import QueuePair, read_queue_pairs
from lab.telemetry.sample.queue_pairs import changes

RC = QueuePair(17, "RC", "INIT", 0, 0)
READY = QueuePair(17, "RC", "RTS", 33, 0)


def attribute(kind: int, value: bytes) -> bytes:
    """An attribute of netlink(7), padded to four octets."""
    size = 4 + len(value)
    return struct.pack("=HH", size, kind) + value + bytes(-size % 4)


def number(kind: int, value: int) -> bytes:
    return attribute(kind, value.to_bytes(4, "little"))


def entry(qpn: int, kind: int, state: int, *more: bytes) -> bytes:
    """RDMA_NLDEV_ATTR_RES_QP_ENTRY with LQPN, TYPE and STATE of <rdma/rdma_netlink.h>."""
    return attribute(
        20, number(21, qpn) + attribute(26, bytes([kind])) + attribute(27, bytes([state])) + b"".join(more)
    )


def test_an_answer_has_the_queue_pairs_of_programs_and_not_those_of_management() -> None:
    entries = entry(1, 1, 3), entry(17, 2, 3, number(22, 33), number(28, 4711)), entry(18, 4, 3, number(28, 4711))
    content = number(1, 5) + attribute(2, b"dev\0") + attribute(19, b"".join(entries))
    assert list(read_queue_pairs(iter([content, number(1, 5)]))) == [
        QueuePair(17, "RC", "RTS", 33, 4711), QueuePair(18, "UD", "RTS", None, 4711),
    ]  # fmt: skip


def told(known: dict[int, QueuePair], *found: QueuePair) -> list[tuple[int, str, str]]:
    return [(each["qpn"], each["before"], each["state"]) for each in changes(known, found)]


def test_a_queue_pair_is_told_when_it_comes_changes_and_goes() -> None:
    known: dict[int, QueuePair] = {}
    assert told(known, RC) == [(17, "", "INIT")]
    assert told(known, RC) == []
    assert told(known, READY) == [(17, "INIT", "RTS")]
    assert told(known) == [(17, "RTS", "gone")]
    assert told(known) == []


def test_one_that_has_another_far_end_is_another_one() -> None:
    known = {17: READY}
    assert told(known, QueuePair(17, "RC", "RTS", 34, 0)) == [(17, "RTS", "RTS")]
