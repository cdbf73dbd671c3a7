"""Crafted FLUSH and ATOMIC WRITE requests against a live queue pair of rxe, which judges every header they have.

The judges are the queue pair's memory, its answers (see target.py), and what it refuses: were a field not where rxe
looks for it, right ones would be refused and wrong ones taken. Clauses are those of IBA vol. 1 annex A19.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from lab.rdma.sysfs import until
from lab.wire.opcodes import Opcode
from lab.wire.syndrome import AckKind, NakCode
from tests.vm.queue_pair import IBV_QPS_ERR
from tests.vm.target import EPSN, UNTOUCHED, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.vm.conftest import Path
    from tests.vm.queue_pair import Verbs

pytestmark = pytest.mark.vm

DATA: Final = "01 23 45 67 89 ab cd ef"
SIZE: Final = 4096
"""Octets of the target's memory."""


@pytest.fixture
def live(path: Path, verbs: Verbs) -> Iterator[Target]:
    with Target(path, verbs) as target:
        yield target


def flush(live: Target, **keys: Any) -> None:
    """Flush the whole of the buffer; ``keys`` in place of what is right."""
    live.send("flush", **({"va": live.pair.va, "rkey": live.pair.rkey, "dmalen": SIZE, "psn": EPSN} | keys))


def atomic_write(live: Target, **keys: Any) -> None:
    """Write eight octets to the start of the buffer; ``keys`` in place of what is right."""
    request = {"va": live.pair.va, "rkey": live.pair.rkey, "payload_hex": DATA, "psn": EPSN}
    live.send("atomic-write", **(request | keys))


def placed(live: Target, number: int = 1) -> list[tuple[int, int]]:
    """PSN and MSN of each answer, all of which must be READ responses without data."""
    told = []
    for frame in live.frames(number):
        assert frame.bth is not None
        assert frame.aeth is not None
        assert (frame.bth.opcode, frame.payload) == (Opcode.RC_RDMA_READ_RESPONSE_ONLY, 0)
        assert frame.aeth.syndrome.kind is AckKind.ACK
        told.append((frame.bth.psn, frame.aeth.msn))
    return told


def refused(live: Target, code: NakCode) -> None:
    """The one answer is a NAK, the memory is as it was, and the connection has ended."""
    assert [answer[:3] for answer in live.answers(1)] == [(AckKind.NAK, code, EPSN)]
    assert live.memory == UNTOUCHED
    assert until(lambda: live.pair.state == IBV_QPS_ERR, timeout=5)


def test_an_atomic_write_changes_eight_octets(live: Target) -> None:
    """As they came: what CmpSwap and FetchAdd carry is a number, this is data."""
    atomic_write(live)
    assert placed(live) == [(EPSN, 1)]
    assert live.memory == bytes.fromhex(DATA) + UNTOUCHED[8:]


def test_an_atomic_write_to_an_odd_place_is_refused(live: Target) -> None:
    """A19.4.2: the address is a multiple of eight."""
    atomic_write(live, va=live.pair.va + 4)
    refused(live, NakCode.INVALID_REQUEST)


def test_an_atomic_write_with_a_wrong_key_is_refused(live: Target) -> None:
    atomic_write(live, rkey=live.pair.rkey ^ 0x100)
    refused(live, NakCode.REMOTE_ACCESS_ERROR)


def test_a_write_is_flushed(live: Target) -> None:
    """The FLUSH is a message of its own, and answered though the WRITE asked for nothing."""
    live.write("to be seen", EPSN)
    flush(live, psn=EPSN + 1)
    assert placed(live) == [(EPSN + 1, 2)]
    assert live.memory == b"to be seen".ljust(64, b".")


def test_a_flush_with_a_wrong_key_is_refused(live: Target) -> None:
    flush(live, rkey=live.pair.rkey ^ 0x100)
    refused(live, NakCode.REMOTE_ACCESS_ERROR)


def test_a_range_beyond_the_region_is_refused(live: Target) -> None:
    flush(live, dmalen=SIZE + 1)
    refused(live, NakCode.REMOTE_ACCESS_ERROR)


def test_a_region_has_no_range(live: Target) -> None:
    """Selectivity level 1: VA and DMALen are ignored."""
    flush(live, selectivity="region", va=0, dmalen=2**30)
    assert placed(live) == [(EPSN, 1)]


def test_persistence_is_refused_where_there_is_none(live: Target) -> None:
    """The queue pair grants global visibility alone."""
    flush(live, placement="persistence")
    refused(live, NakCode.INVALID_REQUEST)
