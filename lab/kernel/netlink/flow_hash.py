"""Predict the kernel's treatment of a packet without sending it: its flow hash, and the uplink of a tunnel packet.

The hash has a random key of each boot, which the kernel does not reveal (``__skb_get_hash``). ``ip route get`` is no
help: it hashes as for forwarded packets, but with ``fib_multipath_hash_policy`` 3 the kernel hashes its own packets
differently. BPF programs of a few instructions therefore query the kernel. They run once (BPF_PROG_TEST_RUN of
bpf(2)) and are attached to nothing.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from typing import TYPE_CHECKING, Final

from lab.errors import OperationFailed
from lab.kernel.bpf.libbpf import library
from lab.wire.header_fields import EthernetFields, Ipv4Fields, Ipv6Fields, UdpFields
from lab.wire.udp_ports import IPV4_TYPE, IPV6_TYPE, UDP

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ipaddress import IPv4Address, IPv6Address

_SCHED_CLS: Final = 3
_CALL, _EXIT, _MOVE, _MOVE_NUMBER, _ADD_NUMBER, _IF_EQUAL, _LOAD = 0x85, 0x95, 0xBF, 0xB7, 0x07, 0x15, 0x61
_GET_HASH_RECALC, _LOAD_BYTES, _FIB_LOOKUP = 34, 26, 69
_SKIP_NEIGHBOUR: Final = 4
"""Program type, opcodes, helpers and a flag of <linux/bpf.h>."""
_INSTRUCTION: Final = "<BBhi"
_ETHERNET: Final = EthernetFields.SIZE
_LOOKUP: Final = struct.Struct("!BBHHH4s4s4s12x4s12x16x")
"""struct bpf_fib_lookup: family, protocol, ports, length, interface, TOS, source, destination; 64 bytes."""
_INTERFACE: Final = 8
"""Offset of the interface index in it."""
_LOOPBACK: Final = (1).to_bytes(4, "little")
_HASH: Final = ((_CALL, 0, 0, _GET_HASH_RECALC), (_EXIT, 0, 0, 0))
_UPLINK: Final = (
    (_MOVE, 0x16, 0, 0),  # r6 = the packet
    (_MOVE_NUMBER, 2, 0, _ETHERNET), (_MOVE, 0xA3, 0, 0), (_ADD_NUMBER, 3, 0, -_LOOKUP.size),
    (_MOVE_NUMBER, 4, 0, _LOOKUP.size), (_CALL, 0, 0, _LOAD_BYTES),  # onto the stack
    (_MOVE, 0x61, 0, 0), (_MOVE, 0xA2, 0, 0), (_ADD_NUMBER, 2, 0, -_LOOKUP.size),
    (_MOVE_NUMBER, 3, 0, _LOOKUP.size), (_MOVE_NUMBER, 4, 0, _SKIP_NEIGHBOUR), (_CALL, 0, 0, _FIB_LOOKUP),
    (_IF_EQUAL, 0, 2, 0), (_MOVE_NUMBER, 0, 0, 0), (_EXIT, 0, 0, 0),
    (_LOAD, 0xA0, _INTERFACE - _LOOKUP.size, 0), (_EXIT, 0, 0, 0),
)  # fmt: skip
_LAST_PORT_SINCE: Final = 7
"""Major version of Linux since which tunnels use the last port."""
_ETHERTYPES: Final = {4: IPV4_TYPE, 6: IPV6_TYPE}
_HOPS: Final = 64


class SingleRun(ctypes.Structure):
    """struct bpf_test_run_opts of <bpf/bpf.h>."""

    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("data_in", ctypes.c_char_p),
        ("data_out", ctypes.c_void_p),
        ("data_size_in", ctypes.c_uint32),
        ("data_size_out", ctypes.c_uint32),
        ("ctx_in", ctypes.c_void_p),
        ("ctx_out", ctypes.c_void_p),
        ("ctx_size_in", ctypes.c_uint32),
        ("ctx_size_out", ctypes.c_uint32),
        ("retval", ctypes.c_uint32),
        ("repeat", ctypes.c_int),
        ("duration", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("cpu", ctypes.c_uint32),
        ("batch_size", ctypes.c_uint32),
    )


def hash_of(frame: bytes) -> int:
    """Return the kernel's 32-bit flow hash of an Ethernet frame: of its addresses, protocol and ports.

    Raises OperationFailed if the kernel rejects the program (it needs root), and EnvironmentLacks without libbpf.
    """
    return _returned(_HASH, frame)


def uplink_of(src: IPv4Address, dst: IPv4Address, sport: int, dport: int) -> int:
    """Return the index of the interface by which the calling thread's namespace sends UDP; 0 without a route.

    Raises the errors of ``hash_of``.
    """
    asked = _LOOKUP.pack(socket.AF_INET, UDP, sport, dport, 0, _LOOPBACK, bytes(4), src.packed, dst.packed)
    return _returned(_UPLINK, bytes(_ETHERNET) + asked)


def _returned(program: tuple[tuple[int, int, int, int], ...], data: bytes) -> int:
    """Return a program's return value for a packet."""
    libbpf = library()
    code = b"".join(struct.pack(_INSTRUCTION, *each) for each in program)
    descriptor = libbpf.bpf_prog_load(_SCHED_CLS, b"rl_flow_hash", b"GPL", code, len(program), None)
    if descriptor < 0:
        raise OperationFailed(f"the kernel takes no BPF program: {os.strerror(-descriptor)}", "use sudo, or --vm")
    try:
        run = SingleRun(sz=ctypes.sizeof(SingleRun), data_in=data, data_size_in=len(data))
        if (result := libbpf.bpf_prog_test_run_opts(descriptor, ctypes.byref(run))) < 0:
            raise OperationFailed(f"a BPF program cannot be run once: {os.strerror(-result)}", "rocelab doctor")
    finally:
        os.close(descriptor)
    return int(run.retval)


def udp_frame(src: IPv4Address | IPv6Address, dst: IPv4Address | IPv6Address, sport: int, dport: int) -> bytes:
    """Return the headers of a UDP packet in Ethernet, as far as the dissector reads: zero MACs and no payload."""
    udp = UdpFields.pack(sport=sport, dport=dport, length=UdpFields.SIZE)
    addresses = {"ttl": _HOPS, "src": int(src), "dst": int(dst)}
    if src.version == 4:
        ip = Ipv4Fields.pack(
            version_ihl=Ipv4Fields.PLAIN,
            length=Ipv4Fields.SIZE + len(udp),
            dont_fragment=1,
            protocol=UDP,
            **addresses,
        )
    else:
        ip = Ipv6Fields.pack(version=src.version, length=len(udp), next_header=UDP, **addresses)
    return EthernetFields.pack(ethertype=_ETHERTYPES[src.version]) + ip + udp


def has_last_port() -> bool:
    """Return whether this kernel's tunnels use the last port of a range: measured, 7.3 does and 6.18 does not."""
    major, _, _ = os.uname().release.partition(".")
    return int(major) >= _LAST_PORT_SINCE


def outer_port(inner: int, low: int, high: int, *, last: bool) -> int:
    """Return a tunnel's UDP source port for packets with the hash ``inner``, as ``udp_flow_src_port`` of Linux does.

    ``low`` and ``high`` are the device's port range, or the namespace's ip_local_port_range if it has none.
    ``last`` is the result of ``has_last_port``.
    """
    mixed = (inner ^ inner << 16) & 0xFFFFFFFF
    return (mixed * (high - low + last) >> 32) + low


def member_of(inner: int, weights: Sequence[int]) -> int:
    """Return the index of the nexthop group member that a tunnel uses for packets with the hash ``inner``.

    A member's share of the hash range is its weight's (RFC 2992; ``nh_hthr_group_rebalance`` of Linux).
    """
    total, upto = sum(weights), 0
    for place, weight in enumerate(weights):
        upto += weight
        if inner >> 1 <= ((upto << 31) + total // 2) // total - 1:
            return place
    raise ValueError(f"no member of {len(weights)} for the hash {inner:#x}")
