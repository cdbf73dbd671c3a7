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

from lab.kernel.netlink.interfaces import bridge_or_itself
from lab.kernel.packets.socket_filter import attach_filter
from lab.wire.filter import assembler as asm
from lab.wire.filter.assembler import Assembler, Label
from lab.wire.header_fields import BthFields, EthernetFields, Ipv4Fields, Ipv6Fields, UdpFields
from lab.wire.opcodes import Opcode
from lab.wire.udp_ports import IPV4_TYPE, IPV6_TYPE, ROCEV2_PORT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from ipaddress import IPv4Address, IPv6Address

    from lab.kernel.process.netns import Namespace
    from lab.wire.filter.assembler import Instruction

SMALL: Final = 96
"""Bytes of a small packet, from its IP header on."""
_TOS: Final = 106
"""DSCP 26 and ECT(0), as in RDMA traffic."""
_NOBODY: Final = 0xFFFFFE
"""The queue pair; Linux never uses it, because it assigns numbers in ascending order."""
_IP_MTU_DISCOVER, _PROBE = 10, 3
_IPV6_MTU_DISCOVER, _IPV6_TCLASS = 23, 67
_SOL_PACKET, _STATISTICS = 263, 6
_IP: Final = EthernetFields.SIZE
_AFTER_IP: Final = UdpFields.SIZE + BthFields.SIZE
"""Bytes from the end of the IP header to the time of sending."""
_TIME: Final = struct.Struct("@q")
"""A time in ns of CLOCK_REALTIME, the clock of the kernel's stamps. It is read on the machine that sent it."""
_KEPT: Final = 84
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
    src: IPv4Address | IPv6Address
    """The address of the sender, of the same version as ``dst``."""
    dst: IPv4Address | IPv6Address
    port: int


@dataclass(frozen=True, slots=True)
class _Version:
    """The differences between the versions of IP."""

    ethertype: int
    fields: type[Ipv4Fields] | type[Ipv6Fields]
    uncounted: int
    """Bytes of the header that its length field does not count."""

    @property
    def udp(self) -> int:
        """The offset of the UDP header in a frame."""
        return _IP + self.fields.SIZE

    @property
    def headers(self) -> int:
        """Bytes of the IP and UDP headers."""
        return self.fields.SIZE + UdpFields.SIZE


_VERSIONS: Final = {4: _Version(IPV4_TYPE, Ipv4Fields, 0), 6: _Version(IPV6_TYPE, Ipv6Fields, Ipv6Fields.SIZE)}
_BY_TYPE: Final = {each.ethertype: each for each in _VERSIONS.values()}


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
            opened.enter_context(namespace.inside(partial(_receiver, interface, version)))
            for namespace, interface, version in dict.fromkeys(
                (flow.receiver, flow.interface, flow.src.version) for flow in flows
            )
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
        if flow.src.version == 4:
            made = failed.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            made.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PROBE)
            made.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, _TOS)
        else:
            made = failed.enter_context(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
            made.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PROBE)
            made.setsockopt(socket.IPPROTO_IPV6, _IPV6_TCLASS, _TOS)
        made.setblocking(False)  # the packets of a paused port fill the socket's buffer as long as the pause lasts
        made.bind((str(flow.src), flow.port))
        failed.pop_all()
    return made


def _receiver(interface: str, version: int) -> socket.socket:
    with contextlib.ExitStack() as failed:
        made = failed.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        attach_filter(made, sweep_program(version))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        made.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        made.setblocking(False)
        made.bind((bridge_or_itself(interface), _VERSIONS[version].ethertype))
        failed.pop_all()
    return made


def sweep_program(version: int = 4) -> tuple[Instruction, ...]:
    """Return the receivers' filter: the beginnings of packets with RoCEv2's port and the sweep's queue pair.

    It expects IP of a version, without options or extension headers, directly in Ethernet.
    """
    program, other = Assembler(), Label()
    program.add(asm.LDX_CONSTANT, 0)
    udp = _VERSIONS[version].udp
    wanted = ((UdpFields.DPORT, udp, ROCEV2_PORT), (BthFields.DESTQP, udp + UdpFields.SIZE, _NOBODY))
    for bits, header, value in wanted:
        program.load(bits, header)
        program.jump(asm.JUMP_EQUAL, value, None, other)
    program.add(asm.RETURN, _KEPT)
    program.place(other)
    program.add(asm.RETURN, 0)
    return program.finish()


def _send(sender: socket.socket, flow: SweepFlow, size: int, number: int) -> bool:
    """Send a packet. Return False if the kernel rejects it: above the NIC's MTU, or if a paused port has too many."""
    bth = BthFields.pack(opcode=Opcode.RC_SEND_ONLY, pkey=BthFields.PKEY.most, destqp=_NOBODY, psn=number)
    payload = (bth + _TIME.pack(time.clock_gettime_ns(time.CLOCK_REALTIME))).ljust(
        size - _VERSIONS[flow.src.version].headers, b"\0"
    )
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
        version = _BY_TYPE[EthernetFields.ETHERTYPE.read(frame)]
        header = version.fields
        ends = header.SRC.octets(frame, _IP), header.DST.octets(frame, _IP)
        tally = tallies.get((*ends, UdpFields.SPORT.read(frame, version.udp)))
        if tally is None:
            continue  # from another sweep that runs at the same time
        if header.LENGTH.read(frame, _IP) + version.uncounted == SMALL:
            tally.came += 1
            delay = arrived - _TIME.unpack_from(frame, version.udp + _AFTER_IP)[0]
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
