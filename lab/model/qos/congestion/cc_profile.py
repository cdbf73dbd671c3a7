"""The congestion control of a QoS profile, and its application to a port."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from lab.model.qos.congestion.cc_presets import BASES, CC_PRESETS
from lab.model.qos.congestion.cc_registers import CcAlgorithm, CcRegisters

if TYPE_CHECKING:
    from lab.model.qos.congestion.cc_registers import CcQos, CnpModeration

OFF: Final = "off"
LINK: Final = "link"
RealRate: TypeAlias = int | Literal["link"]
"""The rate in bit/s of the NIC that registers are meant for; ``link``: that of the lab's link, unscaled."""


@dataclass(frozen=True, slots=True)
class CcProfile:
    """The settings of ``nic.cc``; None: not set by the profile. Registers are those of a NIC of ``real_rate``."""

    algorithm: CcAlgorithm | Literal["off"] | None = None
    preset: str | None = None
    real_rate: RealRate | None = None
    np: bool | None = None
    rp: bool | None = None
    moderation: CnpModeration | None = None
    rpg_time_reset: float | None = None
    rpg_byte_reset: int | None = None
    rpg_threshold: int | None = None
    rpg_ai_rate: int | None = None
    rpg_hai_rate: int | None = None
    rpg_gd: int | None = None
    rpg_min_dec_fac: int | None = None
    rpg_min_rate: int | None = None
    dce_tcp_g: int | None = None
    dce_tcp_rtt: float | None = None
    rate_reduce_monitor_period: float | None = None
    initial_alpha_value: int | None = None
    rate_to_set_on_first_cnp: int | None = None
    clamp_tgt_rate: bool | None = None
    clamp_tgt_rate_after_time_inc: bool | None = None
    min_time_between_cnps: float | None = None
    cnp_dscp: int | None = None
    cnp_802p_prio: int | None = None
    timely_t_low: float | None = None
    timely_t_high: float | None = None
    timely_min_rtt: float | None = None
    timely_alpha: float | None = None
    timely_beta: float | None = None
    timely_add_step: int | None = None
    timely_hai_threshold: int | None = None
    timely_hai_factor: int | None = None
    timely_initial_rate: int | None = None

    def __bool__(self) -> bool:
        return any(getattr(self, each.name) is not None for each in fields(self))

    def applied(self, cc: CcQos | None, rate: int, frame: int) -> CcQos | None:
        """Return ``cc`` with these settings, on a host's link of ``rate`` bit/s with RoCE frames of ``frame`` bytes.

        Any setting but ``algorithm: off`` turns congestion control on. It starts from the preset, or from what the
        port has. A port without congestion control, or with another algorithm, starts from the algorithm's base.
        """
        if not self:
            return cc
        if self.algorithm == OFF:
            return None
        if self.preset is not None or cc is None or self.algorithm not in {None, cc.algorithm}:
            base = CC_PRESETS[self.preset or BASES[self.algorithm or CcAlgorithm.DCQCN]].qos(rate, frame)
        else:
            base = cc
        if self.real_rate is not None:
            real = rate if self.real_rate == LINK else self.real_rate
            base = replace(base, real_rate=real, lab_rate=rate)
        said = {each.name: getattr(self, each.name) for each in fields(CcRegisters)}
        registers = {name: value for name, value in said.items() if value is not None}
        switches = {name: getattr(self, name) for name in ("algorithm", "np", "rp", "moderation")}
        return replace(
            base,
            published=replace(base.published, **registers),
            **{name: value for name, value in switches.items() if value is not None},
        )
