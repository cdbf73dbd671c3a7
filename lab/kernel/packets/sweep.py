"""Path sweeps: UDP packets with the DF bit from namespace to namespace, counted and timed at the receiver.

Switches and filters treat them as RoCEv2 of the lossless class. Their queue pair exists on no host, so RDMA devices
drop them. Sender and receiver are sockets of this process in the namespaces: if it is killed, nothing is left behind.
All namespaces share one clock. A small packet carries its time of sending, and the receiver's kernel stamps it.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from lab.kernel.packets.socket_filter import attach_filter
from lab.wire.filter import assembler as asm
from lab.wire.filter.assembler import Assembler, Label
from lab.wire.header_fields import BthFields, EthernetFields, Ipv4Fields, UdpFields
from lab.wire.opcodes import Opcode
from lab.wire.udp_ports import IPV4_TYPE, ROCEV2_PORT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from ipaddress import IPv4Address

    from lab.kernel.process.netns import Namespace
    from lab.wire.filter.assembler import Instruction

SMALL: Final = 96
"""Bytes of a small packet, from its IP header on."""
_TOS: Final = 106
"""DSCP 26 and ECT(0), as in RDMA traffic."""
_NOBODY: Final = 0xFFFFFE
"""The queue pair; Linux never uses it, because it assigns numbers in ascending order."""
_IP_MTU_DISCOVER, _PROBE = 10, 3
_SOL_PACKET, _STATISTICS = 263, 6
_IP: Final = EthernetFields.SIZE
_UDP: Final = _IP + Ipv4Fields.SIZE
_BTH: Final = _UDP + UdpFields.SIZE
_SENT: Final = _BTH + BthFields.SIZE
"""Offset of the time of sending."""
_TIME: Final = struct.Struct("@q")
"""A time in ns of CLOCK_REALTIME, the clock of the kernel's stamps. It is read on the machine that sent it."""
_KEPT: Final = 64
"""Bytes of each packet that a receiver reads: its headers and its time of sending."""
_SO_TIMESTAMPNS: Final = 35
"""The option and its control message (socket(7))."""
_TIMESPEC: Final = struct.Struct("@ll")
_NS: Final = 10**9
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
    delays: list[int] = field(default_factory=list, compare=False)
    """The one-way delay of each small packet that was received, in ns, in the order of arrival.

    Delays during which the clock was set back are left out.
    """


def sweep(flows: Sequence[SweepFlow], large: int, rounds: int, every: int, pause: float) -> list[Tally] | None:
    """Send a small packet of each flow in each round, and one of ``large`` bytes in every ``every``-th round.

    With ``every`` 0, only small packets are sent. Flows with the same source and port share a sender.
    ``pause`` is the time between rounds in seconds. Returns None if a receiver's buffer overflowed, because the
    counts are unknown then. Raises OSError if a source port is in use.
    """
    tallies = {_key(flow): Tally() for flow in flows}
    with contextlib.ExitStack() as opened:
        made: dict[tuple[Namespace, bytes, int], socket.socket] = {}
        for flow in flows:
            if (own := (flow.sender, flow.src.packed, flow.port)) not in made:
                made[own] = opened.enter_context(flow.sender.inside(partial(_sender, flow)))
        senders = [made[flow.sender, flow.src.packed, flow.port] for flow in flows]
        receivers = [
            opened.enter_context(namespace.inside(partial(_receiver, interface)))
            for namespace, interface in dict.fromkeys((flow.receiver, flow.interface) for flow in flows)
        ]
        for number in range(rounds):
            for flow, sender in zip(flows, senders, strict=True):
                tally = tallies[_key(flow)]
                tally.sent += _send(sender, flow, SMALL, number)
                if every and number % every == 0:
                    tally.large_sent += _send(sender, flow, large, number)
            _count(receivers, tallies)
            time.sleep(pause)
        _await(receivers, tallies)
        if any(map(_overrun, receivers)):
            return None
    return [tallies[_key(flow)] for flow in flows]


def _key(flow: SweepFlow) -> tuple[bytes, bytes, int]:
    return flow.src.packed, flow.dst.packed, flow.port


def _sender(flow: SweepFlow) -> socket.socket:
    with contextlib.ExitStack() as failed:
        made = failed.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        made.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PROBE)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, _TOS)
        made.bind((str(flow.src), flow.port))
        failed.pop_all()
    return made


def _receiver(interface: str) -> socket.socket:
    with contextlib.ExitStack() as failed:
        made = failed.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        attach_filter(made, sweep_program())
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        made.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        made.setblocking(False)
        made.bind((interface, IPV4_TYPE))
        failed.pop_all()
    return made


def sweep_program() -> tuple[Instruction, ...]:
    """Return the receivers' filter: the beginnings of packets with RoCEv2's port and the sweep's queue pair.

    It expects IPv4 without options, directly in Ethernet.
    """
    program, other = Assembler(), Label()
    program.add(asm.LDX_CONSTANT, 0)
    for bits, header, value in ((UdpFields.DPORT, _UDP, ROCEV2_PORT), (BthFields.DESTQP, _BTH, _NOBODY)):
        program.load(bits, header)
        program.jump(asm.JUMP_EQUAL, value, None, other)
    program.add(asm.RETURN, _KEPT)
    program.place(other)
    program.add(asm.RETURN, 0)
    return program.finish()


def _send(sender: socket.socket, flow: SweepFlow, size: int, number: int) -> bool:
    """Send a packet. Return False if the kernel rejects it, as it does above the NIC's MTU."""
    bth = BthFields.pack(opcode=Opcode.RC_SEND_ONLY, pkey=BthFields.PKEY.most, destqp=_NOBODY, psn=number)
    payload = (bth + _TIME.pack(time.clock_gettime_ns(time.CLOCK_REALTIME))).ljust(size - (_BTH - _IP), b"\0")
    with contextlib.suppress(OSError):
        sender.sendto(payload, (str(flow.dst), ROCEV2_PORT))
        return True
    return False


def _frames(receivers: Sequence[socket.socket]) -> Iterator[tuple[bytes, int]]:
    """Yield the received frames, with their time of arrival in ns.

    A link that went down causes one error, ahead of the frames received before.
    """
    for receiver in receivers:
        try:
            while received := receiver.recvmsg(_KEPT, socket.CMSG_SPACE(_TIMESPEC.size)):
                frame, ancillary, *_ = received
                if not frame:
                    break
                yield frame, next((_arrival(data) for _, kind, data in ancillary if kind == _SO_TIMESTAMPNS), 0)
        except BlockingIOError:
            continue
        except OSError as error:
            if error.errno != errno.ENETDOWN:
                raise


def _arrival(stamp: bytes) -> int:
    seconds, ns = _TIMESPEC.unpack(stamp[: _TIMESPEC.size])
    return int(seconds) * _NS + int(ns)


def _count(receivers: Sequence[socket.socket], tallies: dict[tuple[bytes, bytes, int], Tally]) -> None:
    for frame, arrived in _frames(receivers):
        ends = Ipv4Fields.SRC.octets(frame, _IP), Ipv4Fields.DST.octets(frame, _IP)
        tally = tallies.get((*ends, UdpFields.SPORT.read(frame, _UDP)))
        if tally is None:
            continue  # from another sweep that runs at the same time
        if Ipv4Fields.LENGTH.read(frame, _IP) == SMALL:
            tally.came += 1
            delay = arrived - _TIME.unpack_from(frame, _SENT)[0]
            if delay >= 0:  # unless the clock was set back, which would make this path the fastest
                tally.delays.append(delay)
        else:
            tally.large_came += 1


def _await(receivers: Sequence[socket.socket], tallies: dict[tuple[bytes, bytes, int], Tally]) -> None:
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
