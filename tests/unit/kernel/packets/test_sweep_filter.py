"""The filter of a sweep's receivers, run by the classic BPF machine of the filters' tests."""

from __future__ import annotations

import inspect
import socket
import struct

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from lab.kernel.packets import sweep
from lab.kernel.packets.sweep import sweep_program
from lab.wire.opcodes import Opcode
from lab.wire.rocev2 import BTH
from tests.unit.wire.filter.machine import check, run

OURS = BTH(OpCode=Opcode.RC_SEND_ONLY, DestQP=0xFFFFFE)
IP_HEADER = Ether() / IP(src="10.0.0.1", dst="10.0.0.2")


def test_the_kernel_takes_it() -> None:
    check(sweep_program())


@pytest.mark.parametrize(
    ("packet", "kept"),
    [
        (IP_HEADER / UDP(sport=49152, dport=4791) / OURS / bytes(68), 84),
        (IP_HEADER / UDP(sport=49152, dport=4791) / BTH(DestQP=0xFFFFFD) / bytes(68), 0),
        (IP_HEADER / UDP(sport=49152, dport=4790) / bytes(OURS), 0),
        (IP_HEADER / TCP(dport=4791) / bytes(68), 0),
        (IP_HEADER / UDP(dport=4791), 0),
    ],
    ids=["the sweep's", "another queue pair", "another port", "TCP", "too short"],
)
def test_it_keeps_the_beginning_of_the_sweeps_packets(packet: Ether, kept: int) -> None:
    assert run(sweep_program(), bytes(packet)) == kept


@pytest.mark.parametrize(("queue_pair", "kept"), [(0xFFFFFE, 84), (17, 0)], ids=["the sweep's", "another's"])
def test_it_keeps_those_over_ipv6(queue_pair: int, kept: int) -> None:
    check(sweep_program(6))
    packet = Ether() / IPv6(src="fd00::1", dst="fd00::2") / UDP(sport=49152, dport=4791)
    whole = bytes(packet / BTH(OpCode=Opcode.RC_SEND_ONLY, DestQP=queue_pair) / bytes(68))
    assert run(sweep_program(6), whole) == kept


def test_it_has_no_instructions_of_its_own() -> None:
    """There is one assembler: the filters'. A sweep writes no code, and attaches as captures do."""
    source = inspect.getsource(sweep)
    assert "Assembler()" in source
    assert "attach_filter(" in source
    assert "0x15" not in source
    assert "=HBBI" not in source


class Receiver:
    """A socket that has received packets, with the kernel's time of arrival of each in ns."""

    def __init__(self, *frames: tuple[bytes, int]) -> None:
        self.frames = list(frames)

    def recvmsg(self, *_: int) -> tuple[bytes, list[tuple[int, int, bytes]], int, None]:
        if not self.frames:
            raise BlockingIOError
        frame, arrived = self.frames.pop(0)
        return frame, [(socket.SOL_SOCKET, 35, struct.pack("@ll", *divmod(arrived, 10**9)))], 0, None


def test_a_clock_that_is_set_back_gives_no_delay() -> None:
    """A negative one would be the fastest of all, and each other path would be slow."""
    sent = 10**18
    bth = bytes(BTH(OpCode=Opcode.RC_SEND_ONLY, DestQP=0xFFFFFE))[:12]
    payload = (bth + struct.pack("@q", sent)).ljust(sweep.SMALL - 28, b"\0")
    frame = bytes(IP_HEADER / UDP(sport=61000, dport=4791) / payload)[:84]
    tally = sweep.Tally()
    receiver = Receiver((frame, sent + 40_000), (frame, sent - 5_000_000))
    sweep._count([receiver], {(bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2)), 61000): tally})  # type: ignore[list-item]
    assert (tally.came, tally.delays) == (2, [40_000])
