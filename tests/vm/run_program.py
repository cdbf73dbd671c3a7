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


_OUTPUT: Final = ctypes.create_string_buffer(LONGEST)
"""What every run writes its packet to: a buffer for each run would be cleared and copied for it."""


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
    return PreparedRun(program, packet, index, mark, repeat, gso_size=gso_size).run()


class PreparedRun:
    """A run that is repeated as it was: what it takes is put together once."""

    def __init__(
        self, program: int, packet: bytes, index: int, mark: int = 0, repeat: int = 1, *, gso_size: int = 0
    ) -> None:
        self._program = program
        self._before, self._after = _Skb(mark=mark, ifindex=index, gso_size=gso_size), _Skb()
        self._options = SingleRun(
            sz=ctypes.sizeof(SingleRun),
            data_in=packet,
            data_out=ctypes.addressof(_OUTPUT),
            data_size_in=len(packet),
            ctx_in=ctypes.addressof(self._before),
            ctx_out=ctypes.addressof(self._after),
            ctx_size_in=ctypes.sizeof(self._before),
            repeat=repeat,
        )
        self._run = library().bpf_prog_test_run_opts

    def run(self) -> Outcome:
        """Run it in the calling thread's namespace, and what came of it."""
        verdict = self.verdict()
        packet = ctypes.string_at(_OUTPUT, self._options.data_size_out)
        return Outcome(ctypes.c_int32(verdict).value, packet, self._after.mark)

    def verdict(self) -> int:
        """Run it, and return its verdict as the kernel has it, without a sign."""
        options = self._options
        options.data_size_out, options.ctx_size_out = LONGEST, ctypes.sizeof(self._after)
        result = self._run(self._program, ctypes.byref(options))
        assert result == 0, os.strerror(-result)
        return int(options.retval)
