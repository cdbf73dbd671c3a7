"""Presets in NVIDIA's registers against independent models of their publications, fed with the same CNPs.

A preset is right if a NIC with its registers does what the publication's own sender does: the rates agree at every
event, apart from the 10 bits of alpha.
"""

from __future__ import annotations

import random
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

from lab.model.qos.congestion.cc_presets import CC_PRESETS
from tests.models.dcqcn.hpcc import HpccParameters, HpccReactionPoint
from tests.models.dcqcn.nvidia import NvidiaReactionPoint, NvidiaRegisters
from tests.models.dcqcn.paper import PaperParameters, PaperReactionPoint
from tests.models.dcqcn.trace import run

if TYPE_CHECKING:
    from lab.model.qos.congestion.cc_registers import CcQos
    from tests.models.dcqcn.trace import ReactionPoint

LINE = 25 * 10**9
PAPER_LINE = 40 * 10**9
NAMES = {
    "time_reset": "rpg_time_reset",
    "byte_reset": "rpg_byte_reset",
    "threshold": "rpg_threshold",
    "ai_rate": "rpg_ai_rate",
    "hai_rate": "rpg_hai_rate",
    "gd": "rpg_gd",
    "min_dec_fac": "rpg_min_dec_fac",
    "min_rate": "rpg_min_rate",
    "monitor_period": "rate_reduce_monitor_period",
    "initial_alpha": "initial_alpha_value",
    "rate_on_first_cnp": "rate_to_set_on_first_cnp",
    "clamp": "clamp_tgt_rate",
    "clamp_after_time_inc": "clamp_tgt_rate_after_time_inc",
}


def nic(cc: CcQos, **wrong: Any) -> NvidiaReactionPoint:
    """A NIC with the registers of ``cc`` at the lab's rate."""
    values: dict[str, Any] = {}
    for each in fields(NvidiaRegisters):
        name = NAMES.get(each.name, each.name)
        if each.name not in {"line_rate", "exact", "forgets"}:
            value = getattr(cc.registers, name)
            values[each.name] = round(value * 1e9) if isinstance(value, float) else value
    return NvidiaReactionPoint(NvidiaRegisters(cc.lab_rate, **{**values, **wrong}))


def bursts(period: int, spacing: int) -> list[int]:
    """CNPs in bursts of 3 to 8, ``spacing`` ns apart, with quiet times of up to ``period``."""
    chance, time, found = random.Random(5), 0, []
    for _ in range(12):
        for _ in range(chance.randint(3, 8)):
            time += spacing + chance.randrange(spacing // 5)
            found.append(time)
        time += chance.randrange(period // 4, period)
    return found


def sampled(sender: ReactionPoint, cnps: list[int], slower: int = 1) -> list[float]:
    """The sender's rate each 3.7 us, from the first CNP on, with everything ``slower`` times as slow."""
    states = run(sender, [time * slower for time in cnps], (cnps[-1] + 2_000_000) * slower)
    state, after, rates = next(states), next(states, None), []
    for time in range((cnps[0] + 2) * slower, (cnps[-1] + 2_000_000) * slower, 3_700 * slower):
        while after is not None and after.time <= time:
            state, after = after, next(states, None)
        rates.append(state.rate * slower)
    return rates


def furthest(one: list[float], other: list[float]) -> float:
    """The largest relative distance of two senders' rates."""
    return max(abs(ours - theirs) / ours for ours, theirs in zip(one, other, strict=True))


def hpcc(**timers: Any) -> HpccReactionPoint:
    return HpccReactionPoint(HpccParameters(LINE, **timers))


EXACT = {"exact": True, "initial_alpha": 1024}
CASES: dict[str, tuple[ReactionPoint, list[int]]] = {
    "hpcc": (hpcc(), bursts(2_000_000, 10_000)),
    "hpcc-paper": (
        hpcc(alpha_interval=50_000, decrease_interval=50_000, increase_timer=55_000), bursts(2_000_000, 60_000)
    ),
    "paper": (PaperReactionPoint(PaperParameters(PAPER_LINE)), bursts(1_500_000, 60_000)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_preset_does_what_its_publication_does(name: str) -> None:
    """Measured: 4e-9 with a real-valued alpha, so every register is the right one.

    The ten bits of a NIC's alpha, rounded down, cost 9% (hpcc) to 45% (paper, hpcc-paper) of the rate in this train
    of CNPs: alpha then decays by 1/1024 at least, and reaches 0.
    """
    published, cnps = CASES[name]
    preset = CC_PRESETS[name]
    nic_of_preset = nic(preset.qos(preset.real_rate, 1146), **EXACT)
    assert furthest(sampled(published, cnps), sampled(nic_of_preset, cnps)) < 1e-6


@pytest.mark.parametrize("name", CC_PRESETS)
@pytest.mark.parametrize("slower", [25, 250])
def test_a_scaled_nic_draws_the_same_curve_more_slowly(name: str, slower: int) -> None:
    """Times x s, rates / s: event by event. The minimum rate is left out: its floor does not scale."""
    preset, cnps = CC_PRESETS[name], bursts(1_500_000, 60_000)
    real, lab = (preset.qos(preset.real_rate // factor, 1146) for factor in (1, slower))
    fast, slow = nic(real, min_rate=10**9), nic(lab, min_rate=10**9 // slower)
    assert furthest(sampled(fast, cnps), sampled(slow, cnps, slower)) < 1e-4


@pytest.mark.parametrize(
    ("register", "value"),
    [("dce_tcp_g", 1010), ("gd", 12), ("time_reset", 200_000), ("hai_rate", 500_000_000), ("clamp", True)],
)
def test_one_wrong_register_is_noticed(register: str, value: int) -> None:
    cnps = bursts(2_000_000, 10_000)
    wrong = nic(CC_PRESETS["hpcc"].qos(LINE, 1146), **EXACT, **{register: value})
    assert furthest(sampled(hpcc(), cnps), sampled(wrong, cnps)) > 0.02
