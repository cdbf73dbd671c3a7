"""Real queue pairs exchange every kind of packet that RC, UC and UD have, and every answer of a responder.

The test vectors in tests/unit/wire/vectors are one such exchange over IPv4 and one over IPv6; README.md there says by
which command they were recorded.
"""

from __future__ import annotations

import io
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path as File
from typing import TYPE_CHECKING, Any, Final

from lab.kernel.packets.live_capture import LiveCapture, Point
from lab.rdma import device_counters
from lab.rdma.sysfs import until
from lab.wire.filter.parse import parse
from lab.wire.pcapng import Writer
from tests.vm.conftest import RATE, Path, two_hosts
from tests.vm.queue_pair import IBV_WC_SUCCESS, QueuePair, Verbs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.rdma.measure import Nic, Pair

MTU: Final = 256
SIZES: Final = (5, 2 * MTU + 7)
"""Octets of a message: in one packet, and in a first, a middle and a last one. Both need padding."""
FIRST_PSN: Final = 0xFFFFF0
"""So near the end that PSNs start from zero again on the way."""
IMMDT: Final = 0xCAFEF00D
ROOM: Final = 1024
IBV_WC_REM_INV_REQ_ERR: Final = 9
IBV_WC_REM_ACCESS_ERR: Final = 10
IBV_WC_REM_OP_ERR: Final = 11


@dataclass(frozen=True)
class Stage:
    """Who sends to whom, and a process at each that makes queue pairs."""

    pair: Pair
    near: Verbs
    far: Verbs

    @contextmanager
    def connected(
        self, transport: str, *, ahead: int = 0, rights: bool = True
    ) -> Iterator[tuple[QueuePair, QueuePair]]:
        """Two queue pairs; the first sends, ``ahead`` of the PSN that the second expects, which may refuse access."""
        with (
            QueuePair(self.near, self.pair.src, transport, mtu=MTU, fill="abcdefg") as ours,
            QueuePair(self.far, self.pair.dst, transport, mtu=MTU, fill="ABCDEFG", rights=rights) as theirs,
        ):
            ours.connect(theirs.address, theirs.qpn, epsn=1000, psn=FIRST_PSN + ahead)
            theirs.connect(ours.address, ours.qpn, epsn=FIRST_PSN, psn=1000)
            yield ours, theirs


def record(path: Path, pair: Pair) -> bytes:
    """The exchange from ``pair.src``, which must be h1, to ``pair.dst``, as a pcapng file of h1's interface."""
    output = io.BytesIO()
    point = Point(path.a, "eth1", "h1:eth1", RATE)
    with (
        Verbs(path.a) as near,
        Verbs(path.b) as far,
        LiveCapture([point], Writer(output), wanted=parse("roce")) as capture,
    ):
        capture.start()
        for story in (reliable_connection, refusals, unreliable_connection, datagrams):
            story(Stage(pair, near, far))
        capture.stop()
    return output.getvalue()


def completes(pair: QueuePair, status: int = IBV_WC_SUCCESS) -> None:
    """The oldest request of ``pair`` ends with ``status``."""
    done = pair.completion
    assert done is not None
    assert done["status"] == status


def request(ours: QueuePair, theirs: QueuePair, operation: str, size: int, **more: Any) -> None:
    """Have ``operation`` done with a message of ``size`` octets, and see it completed on both sides."""
    takes_receive = operation.startswith("SEND") or operation.endswith("IMM")
    if takes_receive:
        theirs.ask("receive", size=ROOM)
    ours.ask("post", operation=operation, size=size, va=theirs.va, rkey=theirs.rkey, immdt=IMMDT, **more)
    completes(ours)
    if takes_receive:
        completes(theirs)


def reliable_connection(stage: Stage) -> None:
    with stage.connected("RC") as (ours, theirs):
        for size in SIZES:
            for operation in ("SEND", "SEND_WITH_IMM", "RDMA_WRITE", "RDMA_WRITE_WITH_IMM", "RDMA_READ"):
                request(ours, theirs, operation, size)
            request(ours, theirs, "SEND_WITH_INV", size, revoke=theirs.ask("bind"))
        request(ours, theirs, "ATOMIC_FETCH_AND_ADD", 8, operand=0x0102030405060708)
        request(ours, theirs, "ATOMIC_CMP_AND_SWP", 8, operand=0, swap=0x1112131415161718)
        for operation in ("FLUSH_RANGE", "FLUSH_MR", "ATOMIC_WRITE"):
            ours.ask("post_placement", operation=operation, size=8, va=theirs.va, rkey=theirs.rkey)
            completes(ours)
        with counted(stage.pair.dst, "send_rnr_err"):
            ours.ask("post", operation="SEND", size=SIZES[0])
        theirs.ask("receive", size=ROOM)
        completes(ours)
        completes(theirs)


def refusals(stage: Stage) -> None:
    """Every NAK; all but the first end the connection."""
    with stage.connected("RC", ahead=1) as (ours, _), counted(stage.pair.src, "rcvd_pkts"):
        ours.ask("post", operation="SEND", size=SIZES[0])
    with stage.connected("RC", rights=False) as (ours, theirs):
        ours.ask("post", operation="RDMA_WRITE", size=SIZES[0], va=theirs.va, rkey=theirs.rkey)
        completes(ours, IBV_WC_REM_INV_REQ_ERR)
    with stage.connected("RC") as (ours, theirs):
        ours.ask("post", operation="RDMA_WRITE", size=SIZES[0], va=theirs.va, rkey=theirs.rkey ^ 0x100)
        completes(ours, IBV_WC_REM_ACCESS_ERR)
    with stage.connected("RC") as (ours, theirs):
        theirs.ask("receive", size=ROOM, lkey=theirs.rkey ^ 0x100)
        ours.ask("post", operation="SEND", size=SIZES[0])
        completes(ours, IBV_WC_REM_OP_ERR)


def unreliable_connection(stage: Stage) -> None:
    with stage.connected("UC") as (ours, theirs):
        for size in SIZES:
            for operation in ("RDMA_WRITE", "RDMA_WRITE_WITH_IMM", "SEND", "SEND_WITH_IMM"):
                request(ours, theirs, operation, size)


def datagrams(stage: Stage) -> None:
    with stage.connected("UD") as (ours, theirs):
        for operation in ("SEND", "SEND_WITH_IMM"):
            request(ours, theirs, operation, SIZES[0], qpn=theirs.qpn)


@contextmanager
def counted(nic: Nic, counter: str) -> Iterator[None]:
    """Return when ``counter`` of the device has grown."""
    before = device_counters.read(nic.device)[counter]
    yield
    assert until(lambda: device_counters.read(nic.device)[counter] > before, timeout=10), counter


def main() -> None:
    """Record into the files that the command line names."""
    with two_hosts() as path:
        path.shape()
        for name, pair in zip(sys.argv[1:], (path.pair, path.pair6), strict=True):
            File(name).write_bytes(record(path, pair))


if __name__ == "__main__":
    main()
