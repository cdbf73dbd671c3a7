"""Published registers of congestion control by name, with the source of every value.

Public descriptions of DCQCN disagree in timers, gain and clamping. Each preset is one of them in NVIDIA's registers.
A retained part of 1020 of 1024 is a gain g of 1/256; 1019 is 5/1024. ``connectx`` is what users publish of
`mlxconfig -e query`; Google's simulator isekai (isekai/host/rdma) has the same, but for the rate on the first CNP.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from lab.model.qos.congestion.cc_registers import (
    BYTE_RESET_UNIT,
    CcAlgorithm,
    CcQos,
    CcRegisters,
    CnpModeration,
    floor_rate,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_MBIT: Final = 10**6
_GBIT: Final = 10**9

PAPER: Final = "Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015, sections 3 and 5"
NS3_RDMA: Final = "github.com/bobzhuyb/ns3-rdma (the paper's authors), mix/config.txt"
HTSIM: Final = "github.com/f-forcher/uet-htsim, htsim/sim/dcqcn.cpp"
HPCC: Final = "github.com/alibaba-edu/High-Precision-Congestion-Control, simulation/run.py"
HPCC_NIC: Final = "the same, simulation/src/point-to-point/model/rdma-hw.cc"
MLXCONFIG: Final = "mlxconfig -e query"
ISEKAI: Final = "isekai, rdma_roce_cc_dcqcn.h"
LAB: Final = "rocelab"

LINK_DELAY: Final = 1e-6
"""One-way delay in seconds of a link in the simulators of both papers: mix/topology.txt, 0.001ms."""


@dataclass(frozen=True, slots=True)
class CcPreset:
    """Registers for a NIC of ``real_rate`` bit/s, and the source of each by name."""

    summary: str
    real_rate: int
    registers: CcRegisters
    sources: Mapping[str, str]
    moderation: CnpModeration = CnpModeration.QP
    algorithm: CcAlgorithm = CcAlgorithm.DCQCN
    np: bool = True
    """Whether NICs send CNPs."""

    def qos(self, rate: int, frame: int) -> CcQos:
        """Return the preset on a host's link of ``rate`` bit/s; ``frame`` is its largest RoCE frame in bytes."""
        return CcQos(
            algorithm=self.algorithm,
            np=self.np,
            rp=True,
            moderation=self.moderation,
            real_rate=self.real_rate,
            lab_rate=rate,
            floor=floor_rate(frame),
            published=self.registers,
        )


def _hpcc(alpha_timer: float, cut_timer: float, increase_timer: float) -> CcRegisters:
    """Return the DCQCN of HPCC's evaluation, for 25 Gb/s, with three timers in seconds."""
    return CcRegisters(
        rpg_time_reset=increase_timer,
        rpg_byte_reset=0,
        rpg_threshold=1,
        rpg_ai_rate=5 * _MBIT,
        rpg_hai_rate=50 * _MBIT,
        rpg_gd=11,
        rpg_min_dec_fac=50,
        rpg_min_rate=1000 * _MBIT,
        dce_tcp_g=1020,
        dce_tcp_rtt=alpha_timer,
        rate_reduce_monitor_period=cut_timer,
        initial_alpha_value=1023,
        rate_to_set_on_first_cnp=0,
        clamp_tgt_rate=False,
        clamp_tgt_rate_after_time_inc=True,
        min_time_between_cnps=0.0,
        cnp_dscp=48,
        cnp_802p_prio=6,
    )


_HPCC_SOURCES: Final = {
    "rpg_time_reset": f"{HPCC}, t_inc",
    "rpg_byte_reset": f"none: {HPCC_NIC} has no byte counter",
    "rpg_threshold": f"{HPCC}, FAST_RECOVERY_TIMES",
    "rpg_ai_rate": f"{HPCC}, ai = 5 Mb/s per 25 Gb/s",
    "rpg_hai_rate": f"{HPCC}, hai = 50 Mb/s per 25 Gb/s",
    "rpg_gd": f"{HPCC_NIC}: rate x (1 - alpha / 2)",
    "rpg_min_dec_fac": f"{HPCC_NIC}: alpha is at most 1, so a cut leaves half",
    "rpg_min_rate": f"{HPCC}, MIN_RATE",
    "dce_tcp_g": f"{HPCC}, g = 1/256",
    "dce_tcp_rtt": f"{HPCC}, t_alpha",
    "rate_reduce_monitor_period": f"{HPCC}, t_dec",
    "initial_alpha_value": f"{HPCC_NIC}: 1, here the largest 10-bit value",
    "rate_to_set_on_first_cnp": f"{HPCC_NIC}, RateOnFirstCnp: 1.0 of the rate",
    "clamp_tgt_rate": f"{HPCC}, CLAMP_TARGET_RATE 0",
    "clamp_tgt_rate_after_time_inc": f"{HPCC_NIC}: the target follows the rate after an increase by the timer",
    "min_time_between_cnps": f"{HPCC_NIC}: a flag in each ACK, so there is no minimum",
    "cnp_dscp": f"{LAB}: HPCC sends no CNPs; the value of a ConnectX",
    "cnp_802p_prio": f"{LAB}: as cnp_dscp",
}

_DCQCN_PRESETS: Final[Mapping[str, CcPreset]] = {
    "paper": CcPreset(
        summary="DCQCN of the paper: cut at each CNP, timer and byte counter",
        real_rate=40 * _GBIT,
        registers=CcRegisters(
            rpg_time_reset=55e-6,
            rpg_byte_reset=156_250 * BYTE_RESET_UNIT,
            rpg_threshold=5,
            rpg_ai_rate=40 * _MBIT,
            rpg_hai_rate=200 * _MBIT,
            rpg_gd=11,
            rpg_min_dec_fac=50,
            rpg_min_rate=100 * _MBIT,
            dce_tcp_g=1020,
            dce_tcp_rtt=55e-6,
            rate_reduce_monitor_period=0.0,
            initial_alpha_value=1023,
            rate_to_set_on_first_cnp=0,
            clamp_tgt_rate=True,
            clamp_tgt_rate_after_time_inc=True,
            min_time_between_cnps=50e-6,
            cnp_dscp=48,
            cnp_802p_prio=6,
        ),
        sources={
            "rpg_time_reset": f"{PAPER}; {HTSIM}, _cc_update_period. The authors' simulator has 60 us",
            "rpg_byte_reset": f"{PAPER}: 10 MB; {HTSIM}, _B",
            "rpg_threshold": f"{PAPER}: F = 5; {NS3_RDMA}, FAST_RECOVERY_TIMES",
            "rpg_ai_rate": f"{PAPER}; {NS3_RDMA}, RATE_AI",
            "rpg_hai_rate": f"{NS3_RDMA}, RATE_HAI; the paper gives none",
            "rpg_gd": f"{PAPER}, equation 1: rate x (1 - alpha / 2)",
            "rpg_min_dec_fac": f"{PAPER}, equation 1: alpha is at most 1, so a cut leaves half",
            "rpg_min_rate": "github.com/bobzhuyb/ns3-rdma, src/point-to-point/model/qbb-net-device.cc, MinRate",
            "dce_tcp_g": f"{PAPER}: g = 1/256; {NS3_RDMA}, DCTCP_GAIN",
            "dce_tcp_rtt": f"{PAPER}; {NS3_RDMA}, ALPHA_RESUME_INTERVAL",
            "rate_reduce_monitor_period": f"{PAPER}, equation 1: every CNP cuts",
            "initial_alpha_value": f"{PAPER}: 1, here the largest 10-bit value",
            "rate_to_set_on_first_cnp": f"{PAPER}: none",
            "clamp_tgt_rate": f"{PAPER}, equation 1: target = rate; {NS3_RDMA}, CLAMP_TARGET_RATE",
            "clamp_tgt_rate_after_time_inc": "no effect: clamp_tgt_rate is on",
            "min_time_between_cnps": f"{PAPER}: 50 us; {NS3_RDMA}, CNP_INTERVAL",
            "cnp_dscp": f"{LAB}: the paper says high priority; the value of a ConnectX",
            "cnp_802p_prio": f"{LAB}: as cnp_dscp",
        },
    ),
    "connectx": CcPreset(
        summary="defaults of NVIDIA's ConnectX, for a port of 25 Gb/s",
        real_rate=25 * _GBIT,
        registers=CcRegisters(
            rpg_time_reset=300e-6,
            rpg_byte_reset=32_767 * BYTE_RESET_UNIT,
            rpg_threshold=1,
            rpg_ai_rate=5 * _MBIT,
            rpg_hai_rate=50 * _MBIT,
            rpg_gd=11,
            rpg_min_dec_fac=50,
            rpg_min_rate=1 * _MBIT,
            dce_tcp_g=1019,
            dce_tcp_rtt=1e-6,
            rate_reduce_monitor_period=4e-6,
            initial_alpha_value=1023,
            rate_to_set_on_first_cnp=0,
            clamp_tgt_rate=False,
            clamp_tgt_rate_after_time_inc=True,
            min_time_between_cnps=4e-6,
            cnp_dscp=48,
            cnp_802p_prio=6,
        ),
        sources={
            "rpg_time_reset": f"{MLXCONFIG}: RPG_TIME_RESET 300; {ISEKAI}",
            "rpg_byte_reset": f"{MLXCONFIG}: RPG_BYTE_RESET 32767, in 64 bytes as in {ISEKAI}",
            "rpg_threshold": f"{MLXCONFIG}: RPG_THRESHOLD 1; {ISEKAI}",
            "rpg_ai_rate": f"{MLXCONFIG}: RPG_AI_RATE 5; {ISEKAI}",
            "rpg_hai_rate": f"{MLXCONFIG}: RPG_HAI_RATE 50; {ISEKAI}",
            "rpg_gd": f"{MLXCONFIG}: RPG_GD 11; {ISEKAI}",
            "rpg_min_dec_fac": f"{MLXCONFIG}: RPG_MIN_DEC_FAC 50; {ISEKAI}",
            "rpg_min_rate": f"{MLXCONFIG}: RPG_MIN_RATE 1; {ISEKAI}",
            "dce_tcp_g": f"{MLXCONFIG}: DCE_TCP_G 1019; {ISEKAI}",
            "dce_tcp_rtt": f"{MLXCONFIG}: DCE_TCP_RTT 1; {ISEKAI}",
            "rate_reduce_monitor_period": f"{MLXCONFIG}: RATE_REDUCE_MONITOR_PERIOD 4; {ISEKAI}",
            "initial_alpha_value": f"{MLXCONFIG}: INITIAL_ALPHA_VALUE 1023; {ISEKAI}",
            "rate_to_set_on_first_cnp": f"{MLXCONFIG}: RATE_TO_SET_ON_FIRST_CNP 0",
            "clamp_tgt_rate": f"{MLXCONFIG}: CLAMP_TGT_RATE False; {ISEKAI}",
            "clamp_tgt_rate_after_time_inc": f"{MLXCONFIG}: CLAMP_TGT_RATE_AFTER_TIME_INC True; {ISEKAI}",
            "min_time_between_cnps": f"{MLXCONFIG}: MIN_TIME_BETWEEN_CNPS 4; older firmware has 0 or 2",
            "cnp_dscp": f"{MLXCONFIG}: CNP_DSCP 48",
            "cnp_802p_prio": f"{MLXCONFIG}: CNP_802P_PRIO 6",
        },
    ),
    "hpcc": CcPreset(
        summary="DCQCN of HPCC's evaluation, with the vendor's timers",
        real_rate=25 * _GBIT,
        registers=_hpcc(1e-6, 4e-6, 300e-6),
        sources=_HPCC_SOURCES,
    ),
    "hpcc-paper": CcPreset(
        summary="DCQCN of HPCC's evaluation, with the timers of the DCQCN paper",
        real_rate=25 * _GBIT,
        registers=_hpcc(50e-6, 50e-6, 55e-6),
        sources=_HPCC_SOURCES,
    ),
}
TIMELY_PAPER: Final = "Mittal et al., TIMELY: RTT-based Congestion Control for the Datacenter, SIGCOMM 2015"
_TIMELY_PRESETS: Final[Mapping[str, CcPreset]] = {
    "timely": CcPreset(
        summary="TIMELY with the parameters of HPCC's evaluation, for 10 Gb/s",
        algorithm=CcAlgorithm.TIMELY,
        np=False,
        real_rate=10 * _GBIT,
        registers=replace(_DCQCN_PRESETS["connectx"].registers, rpg_min_rate=10 * _MBIT),
        sources={
            "rpg_min_rate": f"{LAB}: one step; the paper gives none",
            "timely_t_low": f"{TIMELY_PAPER}, section 4.3; {HPCC_NIC}, TimelyTLow",
            "timely_t_high": f"{TIMELY_PAPER}, section 4.3; {HPCC_NIC}, TimelyTHigh",
            "timely_min_rtt": f"{HPCC_NIC}, TimelyMinRtt",
            "timely_alpha": f"{HPCC_NIC}, TimelyAlpha",
            "timely_beta": f"{TIMELY_PAPER}; {HPCC_NIC}, TimelyBeta",
            "timely_add_step": f"{TIMELY_PAPER}: 10 Mb/s; {HPCC}, ai = 10 Mb/s per 10 Gb/s",
            "timely_hai_threshold": f"{TIMELY_PAPER}, algorithm 1: five completions",
            "timely_hai_factor": f"{TIMELY_PAPER}, algorithm 1: N = 5; {HPCC}, hai = 50 Mb/s per 10 Gb/s",
            "timely_initial_rate": f"{HPCC_NIC}: the rate of the NIC",
        },
    ),
}
CC_PRESETS: Final[Mapping[str, CcPreset]] = {**_DCQCN_PRESETS, **_TIMELY_PRESETS}
"""Presets by name."""
BASES: Final[Mapping[CcAlgorithm, str]] = {CcAlgorithm.DCQCN: "connectx", CcAlgorithm.TIMELY: "timely"}
"""The registers that a profile starts from, by algorithm, on a port without congestion control or with another."""
