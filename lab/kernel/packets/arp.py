"""ARP probes (RFC 826): send requests for IPv4 addresses on a link, and collect the MAC addresses that answer.

It neither reads nor changes the kernel's tables, except that the kernel may learn from a reply. The sockets are
created in the namespaces by this process: if it is killed, nothing is left behind.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import time
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Final

from lab.kernel.packets.socket_filter import attach_filter
from lab.wire.filter import assembler as asm
from lab.wire.filter.assembler import Assembler, Label

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.kernel.process.netns import Namespace
    from lab.wire.filter.assembler import Instruction

_ETH_P_ALL: Final = 0x0003
_ETH_P_ARP: Final = 0x0806
_EVERYBODY: Final = b"\xff" * 6
_ARP: Final = struct.Struct("!HHBBH6s4s6s4s")
"""Types and lengths of both kinds of address, operation, then the addresses of sender and target."""
_ETHERNET: Final = 14
_IPV4_OVER_ETHERNET: Final = (1, 0x0800, 6, 4)
_REQUEST, _REPLY = 1, 2
_PACKET: Final = 64
_PATIENCE: Final = 1.0
"""Seconds in which replies count: a host's interval between requests (RFC 1122, 2.3.2.1)."""
_ROUNDS: Final = 2
"""Number of requests for each question: one frame may be lost."""


@dataclass(frozen=True, slots=True)
class Question:
    """An ARP request for ``target``, sent on an interface with its address ``source``."""

    namespace: Namespace
    interface: str
    source: IPv4Address
    target: IPv4Address


@dataclass(frozen=True, slots=True)
class _Asking:
    """An interface's socket, and the questions sent through it."""

    socket: socket.socket
    questions: Sequence[Question]


def ask(questions: Sequence[Question]) -> list[frozenset[str]]:
    """Send all requests at once, and return the MAC addresses that answered each; an empty set if none did.

    Raises OSError if an interface is gone. An interface that is down gets no answers.
    """
    asked: dict[tuple[Namespace, str], list[Question]] = {}
    for each in questions:
        asked.setdefault((each.namespace, each.interface), []).append(each)
    answered: dict[Question, set[str]] = {each: set() for each in questions}
    with contextlib.ExitStack() as opened, selectors.DefaultSelector() as sockets:
        for (namespace, interface), here in asked.items():
            made = opened.enter_context(namespace.inside(partial(_socket, interface)))
            sockets.register(made, selectors.EVENT_READ, _Asking(made, here))
        for _ in range(_ROUNDS if questions else 0):
            for key in sockets.get_map().values():
                _send(key.data)
            for there, mac, address in _answers(sockets):
                for each in there:
                    if each.target == address:
                        answered[each].add(mac)
    return [frozenset(answered[each]) for each in questions]


def _socket(interface: str) -> socket.socket:
    """Return a socket that receives the ARP frames of an interface, also if a bridge takes them from it.

    One that is bound to ARP itself only receives what the bridge leaves.
    """
    with contextlib.ExitStack() as failed:
        made = failed.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        attach_filter(made, arp_program())
        made.bind((interface, _ETH_P_ALL))
        failed.pop_all()
    return made


def arp_program() -> tuple[Instruction, ...]:
    """Return the program that accepts ARP frames, for SO_ATTACH_FILTER."""
    program, other = Assembler(), Label()
    program.add(asm.LDX_CONSTANT, 0)
    program.add(asm.LD_HALF, _ETHERNET - 2)
    program.jump(asm.JUMP_EQUAL, _ETH_P_ARP, None, other)
    program.add(asm.RETURN, _PACKET)
    program.place(other)
    program.add(asm.RETURN, 0)
    return program.finish()


def _send(asking: _Asking) -> None:
    mac = asking.socket.getsockname()[4]
    for each in asking.questions:
        wanted = _ARP.pack(*_IPV4_OVER_ETHERNET, _REQUEST, mac, each.source.packed, bytes(6), each.target.packed)
        with contextlib.suppress(OSError):
            # Without waiting: a paused port keeps requests, so that the buffer of the socket may be full for long.
            asking.socket.send(_EVERYBODY + mac + _ETH_P_ARP.to_bytes(2, "big") + wanted, socket.MSG_DONTWAIT)


def _answers(sockets: selectors.BaseSelector) -> Iterator[tuple[Sequence[Question], str, IPv4Address]]:
    """Yield a socket's questions, and the MAC and IPv4 address of each reply, until replies no longer count."""
    deadline = time.monotonic() + _PATIENCE
    while (left := deadline - time.monotonic()) > 0:
        for key, _ in sockets.select(left):
            if answer := _answer(_received(key.data.socket)):
                yield key.data.questions, *answer


def _received(asking: socket.socket) -> bytes:
    """Return a received frame; b"" for a frame of our own, or if the link has gone down."""
    with contextlib.suppress(OSError):
        frame, sender = asking.recvfrom(_PACKET)
        if sender[2] != socket.PACKET_OUTGOING:
            return frame
    return b""


def _answer(frame: bytes) -> tuple[str, IPv4Address] | None:
    if len(frame) < _ETHERNET + _ARP.size:
        return None
    *kinds, operation, mac, address, _, _ = _ARP.unpack_from(frame, _ETHERNET)
    if tuple(kinds) != _IPV4_OVER_ETHERNET or operation != _REPLY:
        return None
    return mac.hex(":"), IPv4Address(address)
