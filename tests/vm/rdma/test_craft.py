"""Crafted packets against a live queue pair of rxe: each has the effect that the specification gives it.

The judges are the queue pair's memory, its completion queue, its device's counters, and its answers (see target.py).
Clauses are those of IBA vol. 1. UC, UD and CNPs are in test_craft_unanswered.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lab.rdma.sysfs import until
from lab.wire.opcodes import Opcode
from lab.wire.syndrome import NO_CREDIT_COUNT, AckKind, NakCode
from tests.vm.queue_pair import IBV_QPS_ERR, IBV_WC_SUCCESS
from tests.vm.target import EPSN, PSN, UNTOUCHED, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.vm.conftest import Path
    from tests.vm.queue_pair import Verbs

pytestmark = pytest.mark.vm


def ack(psn: int, msn: int) -> tuple[AckKind, int, int, int]:
    return AckKind.ACK, NO_CREDIT_COUNT, psn, msn


@pytest.fixture
def live(path: Path, verbs: Verbs) -> Iterator[Target]:
    with Target(path, verbs) as target:
        yield target


def write(live: Target, text: str, **keys: Any) -> None:
    """Send a WRITE ONLY of ``text`` that asks for an acknowledgement."""
    live.write(text, EPSN, ackreq=True, **keys)


def test_a_write_changes_the_memory_and_is_acknowledged(live: Target) -> None:
    """The ACK has the PSN of the request and counts the message."""
    write(live, "hello, memory")
    assert live.answers(1) == [ack(EPSN, msn=1)]
    assert live.memory == b"hello, memory".ljust(64, b".")
    assert live.moved() == {"rcvd_pkts": 1, "sent_pkts": 1}


def test_a_gap_is_refused_until_what_is_missing_comes(live: Target) -> None:
    """A PSN ahead gets one NAK, PSN Sequence Error, which carries the expected PSN."""
    write(live, "too early", wrong_psn=5)
    nak = (AckKind.NAK, NakCode.PSN_SEQUENCE_ERROR, EPSN, 0)
    assert live.answers(1) == [nak]
    assert live.memory == UNTOUCHED
    assert live.moved()["out_of_seq_request"] == 1
    write(live, "in time")
    assert live.answers(2) == [nak, ack(EPSN, msn=1)]
    assert live.memory == b"in time".ljust(64, b".")


def test_a_wrong_key_is_refused_and_ends_the_connection(live: Target) -> None:
    """A violation of rights gets NAK, Remote Access Error, and the QP enters its error state (9.7.5.2.4, 9.9.3)."""
    write(live, "not yours", rkey=live.pair.rkey ^ 0x100)
    (answer,) = live.answers(1)
    assert answer[:3] == (AckKind.NAK, NakCode.REMOTE_ACCESS_ERROR, EPSN)
    assert live.memory == UNTOUCHED
    assert until(lambda: live.pair.state == IBV_QPS_ERR, timeout=5)


def test_a_wrong_icrc_is_dropped_without_a_word(live: Target) -> None:
    """As if it had never come (annex A17.3.4): the same PSN with a right ICRC is the first that is seen."""
    write(live, "spoilt", bad_icrc=True)
    write(live, "whole")
    assert live.answers(1) == [ack(EPSN, msn=1)]
    assert live.memory == b"whole".ljust(64, b".")
    assert live.moved() == {"rcvd_pkts": 1, "sent_pkts": 1}  # rxe counts packets after it has checked them


def test_a_duplicate_is_acknowledged_again_and_not_done_again(live: Target) -> None:
    """C9-105: a responder repeats its answer to a duplicate WRITE and leaves the memory alone."""
    write(live, "first")
    live.answers(1)
    write(live, "again")
    assert live.answers(2) == [ack(EPSN, msn=1)] * 2
    assert live.memory == b"first".ljust(64, b".")
    assert live.moved() == {"rcvd_pkts": 2, "sent_pkts": 2, "duplicate_request": 1}


def test_a_read_is_answered_with_the_memory(live: Target) -> None:
    """9.4.4: the response carries the data and the PSN of the request."""
    live.send("read", va=live.pair.va, rkey=live.pair.rkey, dmalen=32, psn=EPSN)
    (frame,) = live.frames(1)
    ((_, octets),) = live.captured()
    assert frame.bth is not None
    assert (frame.bth.opcode, frame.bth.psn) == (Opcode.RC_RDMA_READ_RESPONSE_ONLY, EPSN)
    assert octets[-36:-4] == UNTOUCHED[:32]


def test_an_addition_is_done_and_answers_what_was_there(live: Target) -> None:
    """9.4.5: FetchAdd returns the value before; the host keeps it in its own order of octets."""
    live.send("fetchadd", va=live.pair.va, rkey=live.pair.rkey, add=0x0101, psn=EPSN)
    (frame,) = live.frames(1)
    assert frame.bth is not None
    assert frame.bth.opcode == Opcode.RC_ATOMIC_ACKNOWLEDGE
    before = int.from_bytes(UNTOUCHED[:8], "little")
    assert frame.origremdt == before
    assert live.memory[:8] == (before + 0x0101).to_bytes(8, "little")


def test_a_send_without_a_receive_is_told_to_wait(live: Target) -> None:
    """9.7.5.2.8: RNR NAK with the timer of the responder's QP."""
    live.send("send", payload="anyone?", psn=EPSN, ackreq=True)
    assert live.answers(1) == [(AckKind.RNR_NAK, 12, EPSN, 0)]
    assert live.moved()["send_rnr_err"] == 1


def succeeds(live: Target) -> bool:
    """Whether the next completed request has succeeded."""
    done = live.pair.completion
    return done is not None and done["status"] == IBV_WC_SUCCESS


def test_a_crafted_acknowledgement_completes_a_request(live: Target) -> None:
    """A request is complete when it is acknowledged, and not before."""
    live.pair.ask("post", operation="RDMA_WRITE", size=32, va=0x1000, rkey=0x22)
    assert live.posted(1) == [(Opcode.RC_RDMA_WRITE_ONLY, PSN)]
    live.send("ack", psn=PSN, msn=1)
    assert succeeds(live)
    assert live.moved() == {"sent_pkts": 1, "rcvd_pkts": 1}


def test_a_crafted_sequence_error_has_the_rest_sent_again(live: Target) -> None:
    """9.7.5.1.2: a NAK, PSN Sequence Error, acknowledges what is before its PSN and asks for the rest again."""
    first, last = (Opcode.RC_RDMA_WRITE_FIRST, PSN), (Opcode.RC_RDMA_WRITE_LAST, PSN + 1)
    live.pair.ask(
        "post", operation="RDMA_WRITE", size=1500, va=0x1000, rkey=0x22
    )  # two packets at a path MTU of 1024
    assert live.posted(2) == [first, last]
    live.send("nak", psn=PSN + 1, reason="psn-sequence-error")
    assert live.posted(3) == [first, last, last]
    live.send("ack", psn=PSN + 1, msn=1)
    assert succeeds(live)
    assert live.moved() == {"sent_pkts": 3, "rcvd_pkts": 2, "rcvd_seq_err": 1, "completer_retry_err": 1}
