"""The target of crafted packets: a queue pair of rxe at h2, whose peer at h1 is whoever crafts.

h1 (no queue pair: we craft what it would send) -- router -- h2 (a queue pair in RTS)
"""

from __future__ import annotations

import io
import time
from typing import TYPE_CHECKING, Any, Final, Self

from lab.analysis.read.records import Reader
from lab.kernel.netlink import neighbours
from lab.kernel.packets.inject import Injector
from lab.kernel.packets.live_capture import LiveCapture, Point
from lab.rdma import device_counters, sysfs
from lab.wire.craft.craft_file import packet_from_options
from lab.wire.craft.packet_craft import craft
from lab.wire.frame import DecodedFrame, Icrc, decode
from lab.wire.opcodes import Opcode
from lab.wire.pcapng import Direction, Writer
from tests.unit.wire.rxe_flush import as_rxe_wants_it

from .conftest import RATE, Path
from .queue_pair import QueuePair, Verbs

if TYPE_CHECKING:
    from types import TracebackType

    from lab.wire.syndrome import AckKind

H1, H2, GATEWAY = "10.9.0.1", "10.9.0.3", "10.9.0.0"
PEER_QPN: Final = 0x777
EPSN: Final = 1000
"""The PSN that the target expects first."""
PSN: Final = 2000
"""The PSN of what it sends first."""
TICK: Final = 10
"""Milliseconds, at most, by which the kernel rounds: CONFIG_HZ is 100 or more."""
UNTOUCHED: Final = b"." * 64
"""What its memory begins with, until somebody writes into it."""


class Target:
    """The queue pair, the captured answers to h1, and a way to send it crafted packets."""

    def __init__(self, path: Path, verbs: Verbs, transport: str = "RC") -> None:
        self._path = path
        self._transport = transport.lower()
        self._device = path.device("h2")
        kept = sysfs.DEVICES / self._device / "ports/1/hw_counters/lifespan"
        self._lifespan = (int(kept.read_text()) + TICK) / 1000
        self.pair = QueuePair(verbs, path.nic("h2", H2), transport)
        self._output = io.BytesIO()
        self._capture = LiveCapture([Point(path.a, "eth1", "h1:eth1", RATE)], Writer(self._output))

    def __enter__(self) -> Self:
        self.pair.__enter__()
        self.pair.connect(H1, PEER_QPN, epsn=EPSN, psn=PSN)
        self._addresses = {
            "src": H1,
            "dst": H2,
            "src-mac": neighbours.mac_address(self._path.a, "eth1"),
            "dst-mac": neighbours.resolve(self._path.a, "eth1", GATEWAY),
        }
        self._injector = Injector(self._path.a, "eth1")
        self._capture.__enter__()
        self._capture.start()
        self._before = device_counters.read(self._device)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._capture.__exit__(kind, error, trace)
        self._injector.__exit__(kind, error, trace)
        self.pair.__exit__(kind, error, trace)

    @property
    def memory(self) -> bytes:
        """The first octets of its memory, as many as ``UNTOUCHED`` has."""
        return self.pair.memory

    def moved(self) -> dict[str, int]:
        """Counters of its device that moved, without those of bytes, and without how often a task of it was late.

        The kernel gives what it has read within their lifespan again: they are read when that is over.
        """
        old = time.monotonic() + self._lifespan
        sysfs.until(lambda: time.monotonic() > old, timeout=1)
        found = device_counters.moved(self._before, device_counters.read(self._device))
        return {name: found[name] for name in found if not name.endswith("_bytes") and name != "ack_deferred"}

    def receives(self, number: int) -> None:
        """Wait until its device has counted ``number`` packets, which it does for those that a queue pair takes."""
        assert sysfs.until(lambda: self.moved().get("rcvd_pkts", 0) >= number, timeout=10)
        assert self.moved()["rcvd_pkts"] == number

    def send(self, kind: str, **keys: Any) -> None:
        """Craft a packet of h1's for the queue pair and send it.

        A FLUSH is sent with rxe's ICRC as well (see rxe_flush.py): it takes one of them, and drops the other.
        """
        options: dict[str, Any] = {"kind": kind, "qp": self.pair.qpn, **self._addresses}
        if kind in {"write", "send"}:
            options["transport"] = self._transport
        options |= {name.replace("_", "-"): value for name, value in keys.items()}
        frames = [craft(packet_from_options(options)).frame]
        if kind == "flush":
            frames.append(as_rxe_wants_it(frames[0]))
        sent = self._injector.send(frames)
        assert (sent.packets, sent.refused) == (len(frames), 0)

    def write(self, text: str, psn: int, **keys: Any) -> None:
        """Send a WRITE of ``text`` to the start of the buffer."""
        request = {"va": self.pair.va, "rkey": self.pair.rkey, "payload": text, "psn": psn}
        self.send("write", **(request | keys))

    def captured(self) -> list[tuple[DecodedFrame, bytes]]:
        """Everything that h2 has sent to h1 so far, decoded and raw."""
        reader = Reader(io.BytesIO(self._output.getvalue()), "h1:eth1")
        inbound = [bytes(record.data) for record in reader if record.direction == Direction.INBOUND]
        return [(frame, data) for data in inbound if (frame := decode(data)).bth is not None]

    def frames(self, number: int) -> list[DecodedFrame]:
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

    def posted(self, number: int) -> list[tuple[int, int]]:
        """Opcode and PSN of what h2 has sent, ``number`` packets of it."""
        return [(frame.bth.opcode, frame.bth.psn) for frame in self.frames(number) if frame.bth is not None]


def told(frame: DecodedFrame) -> tuple[AckKind, int, int, int]:
    """Kind and code of an acknowledgement, its PSN and its MSN."""
    assert frame.bth is not None
    assert frame.aeth is not None
    assert frame.bth.opcode == Opcode.RC_ACKNOWLEDGE
    return frame.aeth.syndrome.kind, frame.aeth.syndrome.code, frame.bth.psn, frame.aeth.msn
