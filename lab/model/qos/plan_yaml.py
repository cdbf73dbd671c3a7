"""A QoS plan as the key ``qos`` of a topology file, for emulated links that are slower than the real ones."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from lab.errors import UsageError
from lab.model.qos.headroom import frame_size
from lab.model.qos.presets import PRESETS, UNCONTROLLED
from lab.model.qos.sizing import FLOOR_FRAMES
from lab.units import exact_rate, format_rate, format_size

if TYPE_CHECKING:
    from lab.model.qos.sizing import Plan

PROFILE: Final = "planned"
"""The name of the profile."""


def plan_yaml(plan: Plan, link_rate: int, cc: str | None = None) -> str:
    """Return ``qos`` as YAML text, with the plan's thresholds scaled to links of ``link_rate`` bit/s and its MTU.

    Thresholds keep their durations and ratios; Kmin is at least three frames. With the registers of the preset ``cc``
    they keep their bytes, because times grow with the registers' timers. Headroom is computed by rocelab, whose ports
    respond more slowly than hardware. UsageError is raised for thresholds beyond the emulated buffer.
    """
    scale = (
        Fraction(1)
        if cc is not None
        else max(
            Fraction(link_rate, plan.cable.rate),
            Fraction(FLOOR_FRAMES * frame_size(plan.cable.mtu), plan.size("kmin")),
        )
    )
    kmin, kmax, xoff = (int(plan.size(name) * scale) for name in ("kmin", "kmax", "xoff"))
    base = UNCONTROLLED if cc is None else cc
    shared = PRESETS[base].shared(link_rate, plan.cable.mtu)
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
        f"qos:\n  fabric: [{base}, {PROFILE}]\n  profiles:\n    {PROFILE}:\n"
        f"      ecn: {{3: {{kmin: {kmin}, kmax: {kmax}, pmax: {plan.value('pmax'):.4f}}}}}\n"
        f"      buffer: {{groups: {{3: {{xoff: {xoff}, xon: {xoff // 2}}}}}}}\n"
        + ("" if cc is None else f"      nic: {{cc: {{real_rate: {exact_rate(real.rate)}}}}}\n")
    )
