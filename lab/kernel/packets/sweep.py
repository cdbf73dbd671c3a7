"""Path sweeps: UDP packets with the DF bit from namespace to namespace, counted at the receiver.

Switches and filters treat them as RoCEv2 of the lossless class. Their queue pair exists on no host, so RDMA devices
drop them. Sender and receiver are sockets of this process in the namespaces: if it is killed, nothing is left behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import socket
import struct
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from lab.wire.udp_ports import ROCEV2_PORT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from ipaddress import IPv4Address

    from lab.kernel.process.netns import Namespace

SMALL: Final = 96
"""Bytes of a small packet, from its IP header on."""
_HEADERS: Final = 28
_TOS: Final = 106
"""DSCP 26 and ECT(0), as in RDMA traffic."""
_NOBODY: Final = 0xFFFFFE
"""The queue pair; Linux never uses it, because it assigns numbers in ascending order."""
_BTH: Final = struct.Struct("!BBHII")
"""Base transport header: opcode, flags, partition, queue pair, PSN (IBA vol. 1, 9.2)."""
_SEND_ONLY: Final = 4
_IP_MTU_DISCOVER, _PROBE = 10, 3
_SOL_PACKET, _STATISTICS, _ATTACH_FILTER = 263, 6, 26
_ETH_P_IP: Final = 0x0800
_FILTER: Final = b"".join(
    struct.pack("=HBBI", *each)
    for each in ((0x28, 0, 0, 36), (0x15, 0, 3, ROCEV2_PORT), (0x20, 0, 0, 46), (0x15, 0, 1, _NOBODY),
                 (0x06, 0, 0, 64), (0x06, 0, 0, 0))
)  # fmt: skip
"""Classic BPF: keeps the first 64 bytes of packets with this UDP port and queue pair (Ethernet, IPv4 of 20 bytes)."""
_BUFFER: Final = 1 << 22
_PATIENCE: Final = 1.0
"""Seconds to wait after the last packet: longer than any queue's delay."""
_POLL: Final = 0.01


@dataclass(frozen=True, slots=True)
class SweepFlow:
    """Sender and receiver of a flow. The source port selects one of several equal-cost paths."""

    sender: Namespace
    receiver: Namespace
    interface: str
    """Interface of the receiver."""
    src: IPv4Address
    dst: IPv4Address
    port: int


@dataclass(slots=True)
class Tally:
    """Packets of a flow: accepted by the sender's kernel, and received."""

    sent: int = 0
    came: int = 0
    large_sent: int = 0
    large_came: int = 0


def sweep(flows: Sequence[SweepFlow], large: int, rounds: int, every: int, pause: float) -> list[Tally] | None:
    """Send a small packet of each flow in each round, and one of ``large`` bytes in every ``every``-th round.

    ``pause`` is the time between rounds in seconds. Returns None if a receiver's buffer overflowed, because the
    counts are unknown then. Raises OSError if a source port is in use.
    """
    tallies = {(flow.src.packed, flow.port): Tally() for flow in flows}
    with contextlib.ExitStack() as opened:
        senders = [opened.enter_context(flow.sender.inside(partial(_sender, flow))) for flow in flows]
        receivers = [
            opened.enter_context(namespace.inside(partial(_receiver, interface)))
            for namespace, interface in dict.fromkeys((flow.receiver, flow.interface) for flow in flows)
        ]
        for number in range(rounds):
            for flow, sender in zip(flows, senders, strict=True):
                tally = tallies[flow.src.packed, flow.port]
                tally.sent += _send(sender, flow, SMALL, number)
                if number % every == 0:
                    tally.large_sent += _send(sender, flow, large, number)
            _count(receivers, tallies)
            time.sleep(pause)
        _await(receivers, tallies)
        if any(map(_overrun, receivers)):
            return None
    return [tallies[flow.src.packed, flow.port] for flow in flows]


def _sender(flow: SweepFlow) -> socket.socket:
    with contextlib.ExitStack() as failed:
        made = failed.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        made.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PROBE)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, _TOS)
        made.bind((str(flow.src), flow.port))
        failed.pop_all()
    return made


def _receiver(interface: str) -> socket.socket:
    program = ctypes.create_string_buffer(_FILTER)
    attached = struct.pack("@HP", len(_FILTER) // 8, ctypes.addressof(program))
    with contextlib.ExitStack() as failed:
        made = failed.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        made.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, attached)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        made.setblocking(False)
        made.bind((interface, _ETH_P_IP))
        failed.pop_all()
    return made


def _send(sender: socket.socket, flow: SweepFlow, size: int, number: int) -> bool:
    """Send a packet. Return False if the kernel rejects it, as it does above the NIC's MTU."""
    payload = _BTH.pack(_SEND_ONLY, 0, 0xFFFF, _NOBODY, number).ljust(size - _HEADERS, b"\0")
    with contextlib.suppress(OSError):
        sender.sendto(payload, (str(flow.dst), ROCEV2_PORT))
        return True
    return False


def _frames(receivers: Sequence[socket.socket]) -> Iterator[bytes]:
    """Yield the received frames. A link that went down causes one error, ahead of the frames received before."""
    for receiver in receivers:
        try:
            while frame := receiver.recv(64):
                yield frame
        except BlockingIOError:
            continue
        except OSError as error:
            if error.errno != errno.ENETDOWN:
                raise


def _count(receivers: Sequence[socket.socket], tallies: dict[tuple[bytes, int], Tally]) -> None:
    for frame in _frames(receivers):
        tally = tallies.get((frame[26:30], int.from_bytes(frame[34:36], "big")))
        if tally is None:
            continue  # from another sweep that runs at the same time
        if int.from_bytes(frame[16:18], "big") == SMALL:
            tally.came += 1
        else:
            tally.large_came += 1


def _await(receivers: Sequence[socket.socket], tallies: dict[tuple[bytes, int], Tally]) -> None:
    """Count until all sent packets have arrived, or until the timeout."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and any(
        each.came < each.sent or each.large_came < each.large_sent for each in tallies.values()
    ):
        time.sleep(_POLL)
        _count(receivers, tallies)


def _overrun(receiver: socket.socket) -> bool:
    _, dropped = struct.unpack("=II", receiver.getsockopt(_SOL_PACKET, _STATISTICS, 8))
    return bool(dropped)
