"""The registers of a NIC's congestion control, and their values at the lab's rate.

DCQCN has NVIDIA's names, TIMELY those of its paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

from lab.units import WIRE_OVERHEAD

QP_TIMEOUT: Final = 18
"""The default local ACK timeout of rocelab's QPs: 4.096 us x 2^18 = 1.07 s (IBA vol. 1, 9.7.6.1.3)."""
_TICK: Final = Fraction(4_096, 10**9)
_PATIENCE: Final = 4
"""Packets that a QP at the floor of its minimum rate sends in one timeout."""
BYTE_RESET_UNIT: Final = 64
"""Bytes in one unit of the hardware's ``rpg_byte_reset``."""
ALPHA_RANGE: Final = 1024
"""``alpha`` and ``dce_tcp_g`` are fractions of 2^10."""
TIMES: Final = (
    "rpg_time_reset", "dce_tcp_rtt", "rate_reduce_monitor_period", "min_time_between_cnps",
    "timely_t_low", "timely_t_high", "timely_min_rtt",
)  # fmt: skip
"""Registers in seconds."""
RATES: Final = (
    "rpg_ai_rate", "rpg_hai_rate", "rpg_min_rate", "rate_to_set_on_first_cnp",
    "timely_add_step", "timely_initial_rate",
)  # fmt: skip
"""Registers in bit/s."""
FRACTIONS: Final = ("timely_alpha", "timely_beta")
"""Registers that are real numbers up to 1."""
_FIRST_RATES: Final = ("rate_to_set_on_first_cnp", "timely_initial_rate")
_TIMELY: Final = "timely_"
_ANY_SENDER: Final = ("rpg_min_rate",)
_RECEIVER: Final = ("min_time_between_cnps", "cnp_dscp", "cnp_802p_prio")
"""Registers of the notification point, which is the same for every algorithm."""


class CcAlgorithm(StrEnum):
    """The algorithm that sets the rate of each QP."""

    DCQCN = "dcqcn"
    """By CNPs."""
    TIMELY = "timely"
    """By the RTT."""


class CnpModeration(StrEnum):
    """The scope in which a NIC keeps the minimum time between two CNPs."""

    QP = "qp"
    DESTINATION = "destination"
    PORT = "port"


@dataclass(frozen=True, slots=True)
class CcRegisters:
    """The registers of one NIC, for every algorithm: times in seconds, rates in bit/s, sizes in bytes."""

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
    timely_t_low: float = 50e-6
    """The rate grows after a shorter RTT."""
    timely_t_high: float = 500e-6
    """The rate shrinks after a longer RTT."""
    timely_min_rtt: float = 20e-6
    """Unit of the RTT's gradient: the RTT of an empty network."""
    timely_alpha: float = 0.875
    """Weight of a new difference of RTTs in its moving average."""
    timely_beta: float = 0.8
    """Factor of a decrease of the rate."""
    timely_add_step: int = 10_000_000
    """Step of the rate in an increase."""
    timely_hai_threshold: int = 5
    """RTTs in a row without a positive gradient from which on steps are larger."""
    timely_hai_factor: int = 5
    """How many times as large."""
    timely_initial_rate: int = 0
    """Rate of a QP at its first acknowledgement; 0: the rate of the link."""


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
    """The lowest minimum rate in bit/s: one packet in a quarter of the QP timeout."""
    published: CcRegisters
    """The registers as published."""

    @property
    def names(self) -> tuple[str, ...]:
        """The registers that have an effect: those of the algorithm, and of CNPs where the NIC sends them."""
        timely = self.algorithm is CcAlgorithm.TIMELY
        return tuple(
            name
            for name in (each.name for each in fields(CcRegisters))
            if name in _ANY_SENDER or (self.np if name in _RECEIVER else name.startswith(_TIMELY) is timely)
        )

    @property
    def scale(self) -> Fraction:
        """s: how many times as slow as the real link the lab's is."""
        return Fraction(self.real_rate, self.lab_rate)

    @property
    def registers(self) -> CcRegisters:
        """The registers at the lab's rate, which the data plane obeys: times x s, rates / s, bytes unchanged.

        The minimum rate is at least ``floor``; so are the rates at the first CNP and RTT, unless they are 0.
        """
        said, s = self.published, self.scale
        times: dict[str, Any] = {name: float(Fraction(repr(getattr(said, name))) * s) for name in TIMES}
        rates: dict[str, Any] = {name: round(getattr(said, name) / s) for name in RATES}
        rates["rpg_min_rate"] = max(rates["rpg_min_rate"], self.floor)
        for name in _FIRST_RATES:
            if getattr(said, name):
                rates[name] = max(rates[name], rates["rpg_min_rate"])
        return replace(said, **times, **rates)


def floor_rate(frame: int, timeout: int = QP_TIMEOUT) -> int:
    """Return the lowest minimum rate in bit/s of a QP: one ``frame`` of bytes in a quarter of its timeout.

    ``timeout`` is the exponent of the local ACK timeout. At this rate, messages of up to three packets get their ACK
    within it. rxe requests an ACK with the last packet of a message and with every 64th packet only. So with messages
    of 64 packets, a QP below 16 times this rate retransmits packets that wait in its own NIC.
    """
    quarter = _TICK * (1 << timeout) / _PATIENCE
    return math.ceil(8 * (frame + WIRE_OVERHEAD) / quarter)
