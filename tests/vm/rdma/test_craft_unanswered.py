"""Crafted packets that nobody answers, against live queue pairs of rxe: UC, UD, and CNPs.

The judges are the queue pair's memory, its completion queue and its device's counters (see target.py), and that h2
says nothing. Clauses are those of IBA vol. 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.rdma.sysfs import until
from lab.wire.opcodes import Opcode
from tests.vm.queue_pair import IBV_QPS_RTS, IBV_WC_SUCCESS, QKEY
from tests.vm.target import EPSN, PSN, UNTOUCHED, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.vm.conftest import Path
    from tests.vm.queue_pair import Verbs

pytestmark = pytest.mark.vm

MTU = 1024
IMMDT = 0xCAFEF00D
SRC_QP = 0x456
GRH = 40
"""Octets before a datagram's data in the buffer that receives it (11.4.1.2)."""


@pytest.fixture
def uc(path: Path, verbs: Verbs) -> Iterator[Target]:
    with Target(path, verbs, "UC") as target:
        yield target


@pytest.fixture
def ud(path: Path, verbs: Verbs) -> Iterator[Target]:
    with Target(path, verbs, "UD") as target:
        yield target


@pytest.fixture
def rc(path: Path, verbs: Verbs) -> Iterator[Target]:
    with Target(path, verbs) as target:
        yield target


def completed(target: Target) -> dict[str, int]:
    """The next completed request, which must have succeeded."""
    done = target.pair.completion
    assert done is not None
    assert done["status"] == IBV_WC_SUCCESS
    return done


def test_a_uc_write_changes_the_memory_without_a_word(uc: Target) -> None:
    uc.write("hello, memory", EPSN)
    assert until(lambda: uc.memory == b"hello, memory".ljust(64, b"."), timeout=10)
    assert uc.moved() == {"rcvd_pkts": 1}


def test_a_uc_write_with_a_wrong_key_is_dropped_without_a_word(uc: Target) -> None:
    uc.write("not yours", EPSN, rkey=uc.pair.rkey ^ 0x100)
    uc.receives(1)
    uc.write("yours", EPSN + 1)
    assert until(lambda: uc.memory == b"yours".ljust(64, b"."), timeout=10)
    assert uc.moved() == {"rcvd_pkts": 2}
    assert uc.pair.state == IBV_QPS_RTS


def test_a_uc_send_comes_into_the_posted_buffer(uc: Target) -> None:
    uc.pair.ask("receive", size=64)
    uc.send("send", payload="for you", psn=EPSN, immdt=IMMDT)
    done = completed(uc)
    assert (done["size"], done["immdt"]) == (7, IMMDT)
    assert uc.memory == b"for you".ljust(64, b".")


def test_a_uc_message_with_a_hole_completes_nothing(uc: Target) -> None:
    """First and last of three packets; nobody asks for the middle one. rxe (7.3) loses the next message as well."""
    uc.pair.ask("receive", size=3 * MTU)
    uc.send("send", part="first", payload="a" * MTU, psn=EPSN)
    uc.send("send", part="last", payload="c", psn=EPSN + 2)
    for number in (3, 4):
        uc.send("send", payload="whole", psn=EPSN + number)
    assert completed(uc)["size"] == 5
    assert uc.memory[:6] == b"wholea"
    uc.receives(4)
    assert uc.captured() == []


def test_a_datagram_comes_with_its_senders_addresses(ud: Target) -> None:
    """The buffer begins with room for a GRH; the second half of it is the IPv4 header (annex A17.4.5.2)."""
    ud.pair.ask("receive", size=64)
    ud.send("send", payload="a datagram", psn=77, qkey=QKEY, srcqp=SRC_QP, immdt=IMMDT)
    done = completed(ud)
    assert (done["size"], done["immdt"], done["src_qp"]) == (GRH + 10, IMMDT, SRC_QP)
    assert ud.memory[GRH : GRH + 10] == b"a datagram"
    assert ud.memory[GRH - 8 : GRH] == bytes([10, 9, 0, 1, 10, 9, 0, 3])


def test_a_datagram_with_a_wrong_key_is_dropped_without_a_word(ud: Target) -> None:
    """The Q_Key must be the queue pair's own; rxe counts packets after it has looked."""
    ud.pair.ask("receive", size=64)
    ud.send("send", payload="let me in", psn=1, qkey=QKEY ^ 1)
    ud.send("send", payload="it is me", psn=2, qkey=QKEY)
    assert completed(ud)["size"] == GRH + 8
    assert ud.moved() == {"rcvd_pkts": 1, "rdma_recvs": 1}


def test_a_datagram_without_a_receive_is_lost(ud: Target) -> None:
    ud.send("send", payload="anyone?", psn=1, qkey=QKEY)
    ud.receives(1)
    ud.pair.ask("receive", size=64)
    ud.send("send", payload="now", psn=2, qkey=QKEY)
    assert completed(ud)["size"] == GRH + 3
    assert ud.captured() == []


def test_a_cnp_does_no_harm_to_an_idle_queue_pair(rc: Target) -> None:
    """Annex A17.9.3 has it slow down, where that is supported; rxe does not, and goes on."""
    rc.send("cnp")
    rc.write("after it", EPSN, ackreq=True)
    assert len(rc.answers(1)) == 1
    assert rc.memory == b"after it".ljust(64, b".")
    assert rc.pair.state == IBV_QPS_RTS


def test_a_cnp_does_no_harm_to_a_request_under_way(rc: Target) -> None:
    rc.pair.ask("post", operation="RDMA_WRITE", size=32, va=0x1000, rkey=0x22)
    assert rc.posted(1) == [(Opcode.RC_RDMA_WRITE_ONLY, PSN)]
    rc.send("cnp")
    rc.send("ack", psn=PSN, msn=1)
    completed(rc)
    assert rc.memory == UNTOUCHED
    assert rc.pair.state == IBV_QPS_RTS
