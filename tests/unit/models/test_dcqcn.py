"""The models of DCQCN against what can be computed by hand from their descriptions."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.models.dcqcn.hpcc import HpccParameters, HpccReactionPoint
from tests.models.dcqcn.nvidia import NvidiaReactionPoint, NvidiaRegisters
from tests.models.dcqcn.paper import PaperParameters, PaperReactionPoint
from tests.models.dcqcn.trace import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.models.dcqcn.trace import RateState, ReactionPoint

LINE = 40_000_000_000
US = 1000


def states(model: ReactionPoint, cnps: Sequence[int], until: int, *events: str) -> list[RateState]:
    """The states after some kinds of events."""
    return [state for state in run(model, cnps, until) if state.event in events]


def paper(**parameters: Any) -> PaperReactionPoint:
    return PaperReactionPoint(replace(PaperParameters(LINE, minimum=0), **parameters))


def nvidia(**registers: Any) -> NvidiaReactionPoint:
    return NvidiaReactionPoint(replace(NvidiaRegisters(LINE), **registers))


def hpcc(**parameters: Any) -> HpccReactionPoint:
    return HpccReactionPoint(replace(HpccParameters(LINE, minimum=0), **parameters))


def test_before_a_cnp_nothing_happens() -> None:
    for model in (paper(), nvidia(), hpcc()):
        assert list(run(model, [], 10**9, sent=[(time, 10**7) for time in range(0, 10**6, 1000)])) == []


def test_the_papers_first_cnp_halves_the_rate() -> None:
    """Equation 1 with alpha = 1: target = rate, rate x 1/2, and alpha stays 1."""
    (state,) = run(paper(), [7], 7)
    assert (state.rate, state.target, state.alpha) == (LINE / 2, LINE, 1.0)


def test_the_papers_alpha_decays_by_255_of_256_each_timer() -> None:
    """Equation 2: after k timers of 55 us alpha is (1 - g)^k."""
    decay = states(paper(), [0], 100 * 55 * US, "alpha")
    assert [state.time for state in decay[:3]] == [55_000, 110_000, 165_000]
    assert decay[99].alpha == pytest.approx((255 / 256) ** 100)


def test_a_cnp_after_ten_quiet_timers_cuts_by_that_alpha() -> None:
    (_, cut) = states(paper(byte_counter=0, additive=0, hyper=0), [0, 10 * 55 * US + 1], 551 * US, "cnp")
    before = LINE * (1 - 2**-11)  # ten increases halve the gap of LINE / 2 ten times
    alpha = (255 / 256) ** 10
    assert cut.target == pytest.approx(before)
    assert cut.rate == pytest.approx(before * (1 - alpha / 2))
    assert cut.alpha == pytest.approx(255 / 256 * alpha + 1 / 256)


def test_fast_recovery_halves_the_gap_five_times_then_the_target_grows() -> None:
    """Two CNPs in a row leave a rate of 10 Gb/s and a target of 20. With a timer only, hyper increase follows."""
    found = states(paper(byte_counter=0), [0, 1], 1 + 7 * 55 * US, "timer")
    assert [state.rate / 1e9 for state in found[:5]] == pytest.approx([15, 17.5, 18.75, 19.375, 19.6875])
    assert [state.target / 1e9 for state in found] == pytest.approx([20, 20, 20, 20, 20, 20.04, 20.24])
    assert found[5].rate / 1e9 == pytest.approx((19.6875 + 20.04) / 2)


def test_hyper_increase_comes_after_the_fifth_additive_stage_of_both_counters() -> None:
    """A packet of 10 MB right after each timer: both counters advance together."""
    sent = [(1 + k * 55 * US, 10_000_000) for k in range(1, 9)]
    found = [state.target for state in run(paper(), [0, 0, 0], 8 * 55 * US + 1, sent) if state.event == "bytes"]
    steps = [round((after - before) / 1e6) for before, after in itertools.pairwise(found)]
    assert steps == [0, 0, 0, 40, 80, 400, 400]


def test_the_byte_counter_counts_from_the_last_cnp() -> None:
    sent = [(10 + k, 4_000_000) for k in range(4)]
    assert [state.time for state in run(paper(), [0], 50, sent) if state.event == "bytes"] == [12]
    assert [state.time for state in run(paper(), [0, 11], 50, sent) if state.event == "bytes"] == [13]


def test_nvidias_alpha_has_ten_bits_and_truncates() -> None:
    """1023 x 1019 / 1024 = 1018.0, then 1013.0, 1008.1: each rounded down."""
    decay = states(nvidia(), [0], 3 * US, "alpha")
    assert [round(state.alpha * 1024) for state in decay] == [1018, 1013, 1008]


def test_nvidias_alpha_rises_by_five_with_a_flag() -> None:
    """CNPs at 1.5 us: alpha 1018 at 1 us, then 1018 x 1019 / 1024 + 5 = 1018 at 2 us."""
    decay = states(nvidia(), [0, 1500], 3 * US, "alpha")
    assert [round(state.alpha * 1024) for state in decay] == [1018, 1018, 1013]


def test_nvidia_cuts_once_in_four_microseconds() -> None:
    """alpha is 1003 after four updates without a flag: cut by rate x 1003 / 2048, and by half at most."""
    cuts = states(nvidia(), [0, 4500, 5000, 5500], 12 * US, "decrease")
    assert [state.time for state in cuts] == [4000, 8000]
    assert cuts[0].rate == LINE - (LINE * 1003 >> 11)
    assert cuts[0].target == LINE
    assert cuts[1].target == LINE, "no increase came between: the target stays"


def test_nvidia_never_leaves_less_than_its_percentage_or_its_minimum() -> None:
    (cut,) = states(nvidia(min_dec_fac=80), [0], 4 * US, "decrease")
    assert cut.rate == LINE * 80 // 100
    (cut,) = states(nvidia(min_rate=30_000_000_000), [0], 4 * US, "decrease")
    assert cut.rate == 30_000_000_000


def test_the_rate_of_the_first_cnp_replaces_the_first_cut() -> None:
    found = list(run(nvidia(rate_on_first_cnp=10_000_000_000), [0], 8 * US))
    assert {(state.rate, state.target) for state in found} == {(10_000_000_000, 10_000_000_000)}


def test_nvidia_clamps_the_target_after_an_increase_by_the_timer() -> None:
    cnps = [0, 305 * US]
    (first, second) = states(nvidia(), cnps, 310 * US, "decrease")
    (rise,) = states(nvidia(), cnps, 310 * US, "timer")
    assert rise.rate == (first.rate + LINE) // 2
    assert second.target == rise.rate
    (_, unclamped) = states(nvidia(clamp_after_time_inc=0), cnps, 310 * US, "decrease")
    assert unclamped.target == LINE


def test_with_a_period_of_zero_nvidia_cuts_as_the_paper_does() -> None:
    """alpha 1023 / 1024 instead of 1: 0.1% apart."""
    registers = {"monitor_period": 0, "dce_tcp_g": 1020, "dce_tcp_rtt": 55 * US, "time_reset": 55 * US}
    ours = list(run(nvidia(**registers, clamp=1, threshold=5, byte_reset=0, min_rate=0), [0, 50 * US], 90 * US))
    theirs = list(run(paper(byte_counter=0), [0, 50 * US], 90 * US))
    assert [state.event for state in ours] == [state.event for state in theirs]
    assert [state.rate for state in ours] == pytest.approx([state.rate for state in theirs], rel=2e-3)


def test_hpccs_first_cut_comes_after_four_updates_of_alpha() -> None:
    (cut,) = states(hpcc(), [0], 5 * US, "decrease")
    assert cut.time == 4001
    assert cut.rate == pytest.approx(LINE * (1 - (255 / 256) ** 4 / 2))


def test_hpcc_recovers_once_adds_once_and_then_hyper_increases() -> None:
    found = states(hpcc(), [0], 4001 + 4 * 300 * US, "timer")
    assert [state.target for state in found] == [LINE] * 4, "the target is the line rate already"
    slow = states(hpcc(clamp_target=True), [0, 5 * US], 8001 + 4 * 300 * US, "timer")
    steps = [round((after.target - before.target) / 1e6) for before, after in itertools.pairwise(slow)]
    assert steps == [5, 50, 50]


WRONG: list[tuple[Any, Any, str, float]] = [
    (PaperReactionPoint, PaperParameters(LINE, minimum=0), "gain", 1 / 128),
    (PaperReactionPoint, PaperParameters(LINE, minimum=0), "increase_timer", 65_000),
    (PaperReactionPoint, PaperParameters(LINE, minimum=0, additive=2e9), "fast_recoveries", 2),
    (NvidiaReactionPoint, NvidiaRegisters(LINE), "dce_tcp_g", 1009),
    (NvidiaReactionPoint, NvidiaRegisters(LINE), "gd", 10),
    (NvidiaReactionPoint, NvidiaRegisters(LINE), "clamp", True),
    (NvidiaReactionPoint, NvidiaRegisters(LINE, ai_rate=2_000_000_000), "threshold", 3),
    (HpccReactionPoint, HpccParameters(LINE, minimum=0), "gain", 1 / 128),
    (HpccReactionPoint, HpccParameters(LINE, minimum=0), "decrease_interval", 50_000),
    (HpccReactionPoint, HpccParameters(LINE, minimum=0), "clamp_target", True),
]


@pytest.mark.parametrize(
    ("kind", "right", "name", "value"), WRONG, ids=[f"{kind.__name__}-{name}" for kind, _, name, _ in WRONG]
)
def test_one_wrong_register_is_visible(kind: Any, right: Any, name: str, value: float) -> None:
    """Bursts of CNPs with quiet times between: the rates differ by more than the 2% that a port may be off."""
    cnps = sorted(burst * 1500 * US + k * 50 * US for burst in range(5) for k in range(6))
    until = 8_000 * US

    def sampled(parameters: Any) -> list[float]:
        times = run(kind(parameters), cnps, until)
        state, rates = next(times), []
        for time in range(0, until, 10 * US):
            while state.time < time and (after := next(times, None)) is not None:
                state = after
            rates.append(state.rate)
        return rates

    pairs = zip(sampled(right), sampled(replace(right, **{name: value})), strict=True)
    assert max(abs(one - other) / one for one, other in pairs) > 0.02
