"""The registers of a NIC's congestion control, with NVIDIA's names, and their values at the lab's rate."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

from lab.units import WIRE_OVERHEAD

QP_TIMEOUT: Final = 18
"""The default local ACK timeout of rocelab's QPs: 4.096 us x 2^18 = 1.07 s (IBA vol. 1, 9.7.6.1.3)."""
_TICK: Final = Fraction(4_096, 10**9)
_PATIENCE: Final = 4
"""Packets that a QP at its minimum rate sends in one timeout, so that it never retransmits for its own slowness."""
BYTE_RESET_UNIT: Final = 64
"""Bytes in one unit of the hardware's ``rpg_byte_reset``."""
ALPHA_RANGE: Final = 1024
"""``alpha`` and ``dce_tcp_g`` are fractions of 2^10."""
TIMES: Final = ("rpg_time_reset", "dce_tcp_rtt", "rate_reduce_monitor_period", "min_time_between_cnps")
"""Registers in seconds."""
RATES: Final = ("rpg_ai_rate", "rpg_hai_rate", "rpg_min_rate", "rate_to_set_on_first_cnp")
"""Registers in bit/s."""


class CcAlgorithm(StrEnum):
    """The algorithm that sets the rate of each QP."""

    DCQCN = "dcqcn"


class CnpModeration(StrEnum):
    """The scope in which a NIC keeps the minimum time between two CNPs."""

    QP = "qp"
    DESTINATION = "destination"
    PORT = "port"


@dataclass(frozen=True, slots=True)
class CcRegisters:
    """The registers of one NIC, with NVIDIA's names: times in seconds, rates in bit/s, sizes in bytes."""

    rpg_time_reset: float
    """Time between two increases without a CNP."""
    rpg_byte_reset: int
    """Bytes between two increases; 0 turns the byte counter off. The hardware counts in units of 64 bytes."""
    rpg_threshold: int
    """Increases of one kind until additive increase; hyper increase after that many of both kinds."""
    rpg_ai_rate: int
    """Step of the target rate in additive increase."""
    rpg_hai_rate: int
    """Step of the target rate in hyper increase."""
    rpg_gd: int
    """The rate is cut by rate x alpha / 2^gd. alpha has 10 bits, so 11 is alpha / 2."""
    rpg_min_dec_fac: int
    """Percent of the rate that a single cut leaves at least."""
    rpg_min_rate: int
    """No cut goes below this rate."""
    dce_tcp_g: int
    """Part of alpha that an update retains, of 1024."""
    dce_tcp_rtt: float
    """Time between two updates of alpha."""
    rate_reduce_monitor_period: float
    """Time between two looks for CNPs that cut; 0 cuts at each CNP."""
    initial_alpha_value: int
    """alpha at the first CNP of a QP, of 1024."""
    rate_to_set_on_first_cnp: int
    """Rate and target at the first CNP; 0 leaves them."""
    clamp_tgt_rate: bool
    """Every cut sets the target to the rate before the cut."""
    clamp_tgt_rate_after_time_inc: bool
    """So does a cut after an increase by the timer."""
    min_time_between_cnps: float
    """Time between two CNPs, in the scope of ``CnpModeration``."""
    cnp_dscp: int
    """DSCP of CNPs."""
    cnp_802p_prio: int
    """PCP of CNPs that carry a VLAN tag."""


@dataclass(frozen=True, slots=True)
class CcQos:
    """Congestion control of one host port.

    ``lab_rate`` and ``floor`` are those of the link when the registers were set: a link that is slowed down later
    keeps its NIC's registers.
    """

    algorithm: CcAlgorithm
    np: bool
    """Notification point: whether the NIC answers CE marks with CNPs."""
    rp: bool
    """Reaction point: whether the NIC slows a QP down on CNPs."""
    moderation: CnpModeration
    """The scope of min_time_between_cnps."""
    real_rate: int
    """Rate in bit/s of the link that the published registers are meant for."""
    lab_rate: int
    """Rate in bit/s of the lab's link. s = real_rate / lab_rate."""
    floor: int
    """The lowest minimum rate in bit/s that causes no retransmission: one packet in a quarter of the QP timeout."""
    published: CcRegisters
    """The registers as published."""

    @property
    def scale(self) -> Fraction:
        """s: how many times as slow as the real link the lab's is."""
        return Fraction(self.real_rate, self.lab_rate)

    @property
    def registers(self) -> CcRegisters:
        """The registers at the lab's rate, which the data plane obeys: times x s, rates / s, bytes unchanged.

        The minimum rate is at least ``floor``; so is the rate on the first CNP, unless it is 0.
        """
        said, s = self.published, self.scale
        times: dict[str, Any] = {name: float(Fraction(repr(getattr(said, name))) * s) for name in TIMES}
        rates: dict[str, Any] = {name: round(getattr(said, name) / s) for name in RATES}
        rates["rpg_min_rate"] = max(rates["rpg_min_rate"], self.floor)
        if said.rate_to_set_on_first_cnp:
            rates["rate_to_set_on_first_cnp"] = max(rates["rate_to_set_on_first_cnp"], rates["rpg_min_rate"])
        return replace(said, **times, **rates)


def floor_rate(frame: int, timeout: int = QP_TIMEOUT) -> int:
    """Return the minimum rate in bit/s of a QP: one ``frame`` of bytes in a quarter of its timeout.

    ``timeout`` is the exponent of the local ACK timeout. A QP below that rate would retransmit packets that wait in
    its own NIC.
    """
    quarter = _TICK * (1 << timeout) / _PATIENCE
    return math.ceil(8 * (frame + WIRE_OVERHEAD) / quarter)
