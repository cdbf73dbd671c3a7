"""A plan as the key ``qos`` of a topology file, for emulated links that are slower than the real ones."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from lab.errors import UsageError
from lab.model.qos.headroom import frame_size
from lab.model.qos.presets import DEFAULT, PRESETS
from lab.model.qos.sizing import FLOOR_FRAMES
from lab.units import exact_rate, format_rate, format_size

if TYPE_CHECKING:
    from lab.model.qos.sizing import Plan

PROFILE: Final = "planned"
"""The name of the profile."""


def plan_yaml(plan: Plan, link_rate: int) -> str:
    """YAML text of ``qos`` for links of ``link_rate`` bit/s and the plan's MTU: its thresholds, scaled.

    Thresholds keep the time that they mean, and their ratios; Kmin holds at least three frames. Headroom is left to
    rocelab, whose ports do not respond as hardware does. UsageError for thresholds that no emulated buffer holds.
    """
    scale = max(
        Fraction(link_rate, plan.cable.rate),
        Fraction(FLOOR_FRAMES * frame_size(plan.cable.mtu), plan.size("kmin")),
    )
    kmin, kmax, xoff = (int(plan.size(name) * scale) for name in ("kmin", "kmax", "xoff"))
    shared = PRESETS[DEFAULT].shared(link_rate, plan.cable.mtu)
    if xoff > shared:
        has = f"the {format_size(shared)} that ports share at {format_rate(link_rate)}"
        raise UsageError(
            f"XOFF of {format_size(xoff)} is more than {has}",
            "a shorter --rtt, more --senders, or a higher --link-rate",
        )
    real = plan.cable
    return (
        f"# From rocelab qos plan, for {plan.senders} senders, {format_rate(real.rate)}, {real.length:g} m,"
        f" MTU {real.mtu}: sizes x {float(scale):.4g}\n"
        f"# for links of {exact_rate(link_rate)}. Headroom is rocelab's own: its ports respond more slowly.\n"
        f"qos:\n  fabric: [{DEFAULT}, {PROFILE}]\n  profiles:\n    {PROFILE}:\n"
        f"      ecn: {{3: {{kmin: {kmin}, kmax: {kmax}, pmax: {plan.value('pmax'):.4f}}}}}\n"
        f"      buffer: {{groups: {{3: {{xoff: {xoff}, xon: {xoff // 2}}}}}}}\n"
    )
