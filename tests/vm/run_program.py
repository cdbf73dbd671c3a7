"""A tc program run once on a packet of ours, by BPF_PROG_TEST_RUN (bpf(2))."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Final

from lab.kernel.bpf.libbpf import library
from lab.kernel.netlink.flow_hash import SingleRun

LONGEST: Final = 1 << 16
"""Bytes of the longest packet."""


class _Skb(ctypes.Structure):
    """As much of struct __sk_buff of <linux/bpf.h> as is set or read here, and room for the rest."""

    _fields_ = (
        ("len", ctypes.c_uint32),
        ("pkt_type", ctypes.c_uint32),
        ("mark", ctypes.c_uint32),
        ("before_ifindex", ctypes.c_uint32 * 7),
        ("ifindex", ctypes.c_uint32),
        ("before_gso_size", ctypes.c_uint32 * 33),
        ("gso_size", ctypes.c_uint32),
        ("rest", ctypes.c_uint32 * 30),
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a program returned, and what it made of the packet and its mark."""

    verdict: int
    packet: bytes
    mark: int


def run_program(program: int, packet: bytes, index: int, mark: int, repeat: int, *, gso_size: int = 0) -> Outcome:
    """Run ``program`` on ``packet`` with ``skb->mark`` and the interface ``index`` of the calling thread's namespace.

    The outcome is that of the last of ``repeat`` runs, each on what the one before it left. The kernel takes 15 bytes
    and more; of an IP packet without a tag it wants the whole header.
    """
    before, after = _Skb(mark=mark, ifindex=index, gso_size=gso_size), _Skb()
    output = ctypes.create_string_buffer(LONGEST)
    options = SingleRun(
        sz=ctypes.sizeof(SingleRun),
        data_in=packet,
        data_out=ctypes.addressof(output),
        data_size_in=len(packet),
        data_size_out=LONGEST,
        ctx_in=ctypes.addressof(before),
        ctx_out=ctypes.addressof(after),
        ctx_size_in=ctypes.sizeof(before),
        ctx_size_out=ctypes.sizeof(after),
        repeat=repeat,
    )
    result = library().bpf_prog_test_run_opts(program, ctypes.byref(options))
    assert result == 0, os.strerror(-result)
    return Outcome(ctypes.c_int32(options.retval).value, output.raw[: options.data_size_out], after.mark)
