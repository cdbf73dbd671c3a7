"""Crafted packets against a live queue pair of rxe: each has the effect that the specification gives it.

        h1 (no queue pair: we craft what it would send) -- router -- h2 (a queue pair in RTS, see live_qp.py)

The judges are h2's memory, its completion queue, its device's counters, and what h1's interface sees it answer.
Clauses are those of IBA vol. 1.
"""

from __future__ import annotations

import io
import json
from pathlib import Path as File
from typing import TYPE_CHECKING, Any, Self

import pytest

from lab.kernel import neighbours, process
from lab.kernel.capture import Capture, Point
from lab.kernel.inject import Injector
from lab.rdma import counters, sysfs
from lab.wire.craft import craft
from lab.wire.craft_file import packet_from_options
from lab.wire.frame import Frame, Icrc, decode
from lab.wire.opcodes import Opcode
from lab.wire.pcapng import Direction, Writer
from lab.wire.pcapng_reader import Reader
from lab.wire.syndrome import AckKind, NakCode

from .conftest import RATE, Path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

pytestmark = pytest.mark.vm

H1, H2, GATEWAY = "10.9.0.1", "10.9.0.3", "10.9.0.0"
PEER_QPN, EPSN, PSN = 0x777, 1000, 2000
UNTOUCHED = b"." * 32
IBV_WC_SUCCESS, IBV_QPS_RTS, IBV_QPS_ERR = 0, 3, 6
SYSTEM_PYTHON = "/usr/bin/python3"  # pyverbs is a package of the distribution


class Live:
    """The queue pair at h2, the captured answers to h1, and a way to send it crafted packets."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.device = path.device("h2")
        wanted = {
            "device": self.device,
            "gid_index": sysfs.gid_index(self.device, path.nic("h2", H2).address),
            "peer": H1,
            "peer_qpn": PEER_QPN,
            "epsn": EPSN,
            "psn": PSN,
        }
        program: list[str | File] = [SYSTEM_PYTHON, File(__file__).with_name("live_qp.py"), json.dumps(wanted)]
        self._process = path.b.start(program, stdin=process.PIPE, stdout=process.PIPE, stderr=process.PIPE)
        self._output = io.BytesIO()
        self._capture = Capture([Point(path.a, "eth1", "h1:eth1", RATE)], Writer(self._output))

    def __enter__(self) -> Self:
        ready = self._hear()
        self.qpn, self.va, self.rkey = ready["qpn"], ready["va"], ready["rkey"]
        self._addresses = {
            "src": H1,
            "dst": H2,
            "src-mac": neighbours.mac_address(self._path.a, "eth1"),
            "dst-mac": neighbours.resolve(self._path.a, "eth1", GATEWAY),
        }
        self._injector = Injector(self._path.a, "eth1")
        self._capture.__enter__()
        self._capture.start()
        self._before = counters.read(self.device)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._capture.__exit__(kind, error, trace)
        self._injector.__exit__(kind, error, trace)
        self._process.communicate(timeout=20)

    def ask(self, command: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._hear()

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(self._process.communicate(timeout=20)[1])
        return json.loads(line)

    @property
    def memory(self) -> bytes:
        return bytes.fromhex(self.ask("memory"))

    def moved(self) -> dict[str, int]:
        """Counters of h2's device that moved, without those of bytes, and without how often a task of it was late."""
        found = counters.moved(self._before, counters.read(self.device))
        return {name: found[name] for name in found if not name.endswith("_bytes") and name != "ack_deferred"}

    def send(self, kind: str, **keys: Any) -> None:
        """Craft a packet of h1's for the queue pair and send it."""
        options = {"kind": kind, "qp": self.qpn, **self._addresses}
        options |= {name.replace("_", "-"): value for name, value in keys.items()}
        sent = self._injector.send([craft(packet_from_options(options)).frame])
        assert (sent.packets, sent.refused) == (1, 0)

    def write(self, text: str, psn: int, **keys: Any) -> None:
        """Send a WRITE ONLY of ``text`` to the start of the buffer, which asks for an acknowledgement."""
        request = {"va": self.va, "rkey": self.rkey, "payload": text, "psn": psn, "ackreq": True}
        self.send("write", **(request | keys))

    def captured(self) -> list[tuple[Frame, bytes]]:
        """Everything that h2 has sent to h1 so far, decoded and raw."""
        reader = Reader(io.BytesIO(self._output.getvalue()), "h1:eth1")
        inbound = [bytes(record.data) for record in reader if record.direction == Direction.INBOUND]
        return [(frame, data) for data in inbound if (frame := decode(data)).bth is not None]

    def frames(self, number: int) -> list[Frame]:
        """The answers, of which there must be ``number``, waited for."""
        sysfs.until(lambda: len(self.captured()) >= number, timeout=10)
        frames = [frame for frame, _ in self.captured()]
        assert len(frames) == number
        for frame in frames:
            assert (frame.src, frame.dst, frame.icrc) == (H2, H1, Icrc.OK)
            assert frame.bth is not None
            assert frame.bth.destqp == PEER_QPN
        return frames

    def answers(self, number: int) -> list[tuple[AckKind, int, int, int]]:
        """Kind and code of each answer, its PSN and its MSN."""
        return [told(frame) for frame in self.frames(number)]


def told(frame: Frame) -> tuple[AckKind, int, int, int]:
    assert frame.bth is not None
    assert frame.aeth is not None
    assert frame.bth.opcode == Opcode.RC_ACKNOWLEDGE
    return frame.aeth.syndrome.kind, frame.aeth.syndrome.code, frame.bth.psn, frame.aeth.msn


def ack(psn: int, msn: int) -> tuple[AckKind, int, int, int]:
    return AckKind.ACK, 31, psn, msn


@pytest.fixture
def live(path: Path) -> Iterator[Live]:
    with Live(path) as pair:
        yield pair


def test_a_write_changes_the_memory_and_is_acknowledged(live: Live) -> None:
    """The ACK has the PSN of the request and counts the message (9.7.5.1.2, 9.7.7)."""
    live.write("hello, memory", EPSN)
    assert live.answers(1) == [ack(EPSN, msn=1)]
    assert live.memory == b"hello, memory".ljust(32, b".")
    assert live.moved() == {"rcvd_pkts": 1, "sent_pkts": 1}


def test_a_gap_is_refused_until_what_is_missing_comes(live: Live) -> None:
    """A PSN ahead gets one NAK, PSN Sequence Error, which carries the expected PSN (9.7.5.1.2, table 46)."""
    live.write("too early", EPSN, wrong_psn=5)
    nak = (AckKind.NAK, NakCode.PSN_SEQUENCE_ERROR, EPSN, 0)
    assert live.answers(1) == [nak]
    assert live.memory == UNTOUCHED
    assert live.moved()["out_of_seq_request"] == 1
    live.write("in time", EPSN)
    assert live.answers(2) == [nak, ack(EPSN, msn=1)]
    assert live.memory == b"in time".ljust(32, b".")


def test_a_wrong_key_is_refused_and_ends_the_connection(live: Live) -> None:
    """A violation of rights gets NAK, Remote Access Error, and the QP enters its error state (table 46, 9.9.3)."""
    live.write("not yours", EPSN, rkey=live.rkey ^ 0x100)
    (answer,) = live.answers(1)
    assert answer[:3] == (AckKind.NAK, NakCode.REMOTE_ACCESS_ERROR, EPSN)
    assert live.memory == UNTOUCHED
    assert sysfs.until(lambda: live.ask("state") == IBV_QPS_ERR, timeout=5)


def test_a_wrong_icrc_is_dropped_without_a_word(live: Live) -> None:
    """As if it had never come (7.8.1, A17.3.3): the same PSN with a right ICRC is the first that is seen."""
    live.write("spoilt", EPSN, bad_icrc=True)
    live.write("whole", EPSN)
    assert live.answers(1) == [ack(EPSN, msn=1)]
    assert live.memory == b"whole".ljust(32, b".")
    assert live.moved() == {"rcvd_pkts": 1, "sent_pkts": 1}  # rxe counts packets after it has checked them


def test_a_duplicate_is_acknowledged_again_and_not_done_again(live: Live) -> None:
    """C9-105: a responder repeats its answer to a duplicate WRITE and leaves the memory alone."""
    live.write("first", EPSN)
    live.answers(1)
    live.write("again", EPSN)
    assert live.answers(2) == [ack(EPSN, msn=1)] * 2
    assert live.memory == b"first".ljust(32, b".")
    assert live.moved() == {"rcvd_pkts": 2, "sent_pkts": 2, "duplicate_request": 1}


def test_a_read_is_answered_with_the_memory(live: Live) -> None:
    """9.4.4: the response carries the data and the PSN of the request."""
    live.send("read", va=live.va, rkey=live.rkey, dmalen=32, psn=EPSN)
    (frame,) = live.frames(1)
    ((_, octets),) = live.captured()
    assert frame.bth is not None
    assert (frame.bth.opcode, frame.bth.psn) == (Opcode.RC_RDMA_READ_RESPONSE_ONLY, EPSN)
    assert octets[-36:-4] == UNTOUCHED


def test_an_addition_is_done_and_answers_what_was_there(live: Live) -> None:
    """9.4.5: FetchAdd returns the value before; the host keeps it in its own order of octets."""
    live.send("fetchadd", va=live.va, rkey=live.rkey, add=0x0101, psn=EPSN)
    (frame,) = live.frames(1)
    assert frame.bth is not None
    assert frame.bth.opcode == Opcode.RC_ATOMIC_ACKNOWLEDGE
    before = int.from_bytes(UNTOUCHED[:8], "little")
    assert frame.origremdt == before
    assert live.memory[:8] == (before + 0x0101).to_bytes(8, "little")


def test_a_send_without_a_receive_is_told_to_wait(live: Live) -> None:
    """9.7.5.1.2: RNR NAK with the timer of the responder's QP."""
    live.send("send", payload="anyone?", psn=EPSN, ackreq=True)
    assert live.answers(1) == [(AckKind.RNR_NAK, 12, EPSN, 0)]
    assert live.moved()["send_rnr_err"] == 1


def posted(live: Live, number: int) -> list[tuple[int, int]]:
    """Opcode and PSN of what h2 has sent, ``number`` packets of it."""
    return [(frame.bth.opcode, frame.bth.psn) for frame in live.frames(number) if frame.bth is not None]


def test_a_crafted_acknowledgement_completes_a_request(live: Live) -> None:
    """9.7.6: a request is complete when it is acknowledged, and not before."""
    live.ask("write 32")
    assert posted(live, 1) == [(Opcode.RC_RDMA_WRITE_ONLY, PSN)]
    live.send("ack", psn=PSN, msn=1)
    assert live.ask("completion") == IBV_WC_SUCCESS
    assert live.moved() == {"sent_pkts": 1, "rcvd_pkts": 1}


def test_a_crafted_sequence_error_has_the_rest_sent_again(live: Live) -> None:
    """9.7.5.1.2: a NAK, PSN Sequence Error, acknowledges what is before its PSN and asks for the rest again."""
    first, last = (Opcode.RC_RDMA_WRITE_FIRST, PSN), (Opcode.RC_RDMA_WRITE_LAST, PSN + 1)
    live.ask("write 1500")  # two packets at a path MTU of 1024
    assert posted(live, 2) == [first, last]
    live.send("nak", psn=PSN + 1, reason="psn-sequence-error")
    assert posted(live, 3) == [first, last, last]
    live.send("ack", psn=PSN + 1, msn=1)
    assert live.ask("completion") == IBV_WC_SUCCESS
    assert live.moved() == {"sent_pkts": 3, "rcvd_pkts": 2, "rcvd_seq_err": 1, "completer_retry_err": 1}
