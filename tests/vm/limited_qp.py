"""A NIC with a QP that CNPs slow down, by the port's programs alone: what its tests have in common."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import TYPE_CHECKING

from lab.wire import opcodes
from lab.wire.craft import build
from lab.wire.headers import Reth
from tests.inside import entered
from tests.models.dcqcn.nvidia import NvidiaRegisters
from tests.vm.port_programs import MAC, PORT, RATE

if TYPE_CHECKING:
    from lab.model.qos.congestion.cc_registers import CcQos, CcRegisters
    from tests.vm.port_programs import Switch

PEER = "02:00:00:00:00:22"
PATH = build.Path(PEER, MAC, "10.9.0.1", "10.9.0.2", ecn=0)
BACK = build.Path(MAC, PEER, "10.9.0.2", "10.9.0.1")
OURS, THEIRS, FREE = 0x12, 0xABCDEF, 0x13
NS = 10**9
LOSSLESS = 28
"""A DSCP whose priority a pause holds (PORT)."""


def start(nic: Switch, cc: CcQos) -> None:
    """A NIC with a QP that no CNP has slowed down."""
    nic.reset(replace(PORT, cc=cc))
    nic.connect(PATH.dst, OURS, PATH.src, THEIRS)


def registers(here: CcRegisters) -> NvidiaRegisters:
    """The model's registers."""
    return NvidiaRegisters(
        line_rate=RATE,
        time_reset=round(here.rpg_time_reset * NS),
        byte_reset=here.rpg_byte_reset,
        threshold=here.rpg_threshold,
        ai_rate=here.rpg_ai_rate,
        hai_rate=here.rpg_hai_rate,
        gd=here.rpg_gd,
        min_dec_fac=here.rpg_min_dec_fac,
        min_rate=here.rpg_min_rate,
        dce_tcp_g=here.dce_tcp_g,
        dce_tcp_rtt=round(here.dce_tcp_rtt * NS),
        monitor_period=round(here.rate_reduce_monitor_period * NS),
        initial_alpha=here.initial_alpha_value,
        rate_on_first_cnp=here.rate_to_set_on_first_cnp,
        clamp=here.clamp_tgt_rate,
        clamp_after_time_inc=here.clamp_tgt_rate_after_time_inc,
        exact=True,
        forgets=True,
    )


def send(nic: Switch, *frames: bytes, interface: str = "swp1") -> None:
    """Have the host send frames."""
    with entered(nic.inside):
        out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        with out:
            out.bind((interface, 0))
            for frame in frames:
                out.send(frame)


def write(qpn: int, size: int, path: build.Path = BACK) -> bytes:
    """A frame of ``size`` bytes that writes to the peer's QP."""
    opcode = opcodes.Opcode.RC_RDMA_WRITE_ONLY
    headers = build.rocev2(path, build.RoceMessage(opcode, qpn, reth=Reth(0, 1, 0)))
    data = bytes(size - len(headers))
    message = build.RoceMessage(opcode, qpn, reth=Reth(0, 1, len(data)), payload=data)
    return build.rocev2(path, message)
