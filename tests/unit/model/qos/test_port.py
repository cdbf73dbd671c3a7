"""The executable parts of the port model against the theory that they come from."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.model.qos.headroom import headroom_needed
from lab.model.qos.port import EcnQos, GroupQos, members, vector
from lab.model.qos.presets import PRESETS
from lab.model.qos.qos_values import ALPHAS

SHARED = 10**6


def group(alpha: Fraction | None = Fraction(1), xoff: int | None = None, **sizes: int) -> GroupQos:
    return GroupQos(**{"reserved": 0, "xon": 1000, "headroom": 0, **sizes}, alpha=alpha, xoff=xoff)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("groups", [1, 2, 8])
def test_greedy_groups_settle_where_choudhury_and_hahne_say(alpha: Fraction, groups: int) -> None:
    """In a steady state n greedy groups hold alpha S / (1 + n alpha) each, and leave S / (1 + n alpha) free."""
    full = group(alpha)
    held = [0] * groups
    step = 50
    while any(grown := [size + step <= full.threshold(SHARED - sum(held)) for size in held]):
        held = [size + step if grows else size for size, grows in zip(held, grown, strict=True)]
    expected = float(alpha * SHARED / (1 + groups * alpha))
    assert held == pytest.approx([expected] * groups, abs=step * (1 + groups * float(alpha)))
    if groups == 1:
        assert full.alone(SHARED) == int(alpha * SHARED / (1 + alpha))


def test_reserved_bytes_are_there_when_the_pool_is_full() -> None:
    for kind in (group(reserved=500), group(None, xoff=9000, reserved=500)):
        assert kind.threshold(0) == kind.threshold(-7) == 500


def test_a_static_threshold_does_not_move() -> None:
    static = group(None, xoff=4000)
    assert {static.threshold(free) for free in (1, 100, 10**9)} == {4000}
    assert static.alone(SHARED) == 4000


@given(st.sampled_from(ALPHAS), st.integers(0, 10**9), st.integers(0, 10**6))
def test_a_pause_ends_below_where_it_began(alpha: Fraction, free: int, xon: int) -> None:
    moving = group(alpha, xon=xon, reserved=100)
    assert moving.release(free) < moving.threshold(free)
    static = group(None, xoff=xon + 1, xon=xon)
    assert static.release(max(free, 1)) <= xon < static.threshold(max(free, 1))
    assert static.release(2 * xon) == xon, "with room for all that it may take it is what was written"


@given(st.sampled_from([*ALPHAS, None]), st.integers(-(10**6), 10**6), st.integers(1, 10**6), st.integers(0, 10**6))
def test_a_group_that_resumes_does_not_pause_with_its_next_packet(
    alpha: Fraction | None, free: int, xon: int, reserved: int
) -> None:
    """Whatever is left of the pool, after an XON there is room for as much again as the group holds."""
    kind = group(alpha, xoff=None if alpha else 2 * xon, xon=xon, reserved=reserved)
    most = kind.threshold(free) if alpha else reserved + max(free, 0)
    assert 2 * kind.release(free) <= most


def test_marking_is_a_line_between_two_steps() -> None:
    ecn = EcnQos(enabled=True, kmin=1000, kmax=3000, pmax=0.2)
    depths = (0, 1000, 1500, 2000, 3000, 3001, 10**9)
    assert [ecn.probability(depth) for depth in depths] == pytest.approx([0, 0, 0.05, 0.1, 0.2, 1, 1])
    assert replace(ecn, enabled=False).probability(10**9) == 0


@pytest.mark.parametrize("kmax", [1000, 1001])
def test_thresholds_side_by_side_make_a_step(kmax: int) -> None:
    ecn = EcnQos(enabled=True, kmin=1000, kmax=kmax, pmax=1.0)
    assert [ecn.probability(depth) for depth in (1000, 1001, 1002)] == [0, 1, 1]


@pytest.mark.parametrize(
    ("rate", "mtu", "delay", "reaction", "terms"),
    [
        # Two largest frames of 1500 + 18 + 24 bytes, a PFC frame of 84, 2 x 100 m of cable at 5 ns/m, and the quanta
        # that IEEE 802.3 clause 31B.3.7 allows at 10 Gb/s: 60, which is 3 us and 3840 bytes.
        (10 * 10**9, 1500, 500e-9, 60 * 512 / 10**10, (2 * 1542, 84, 1250, 3840)),
        (100 * 10**6, 9000, 0.0, 0.0, (2 * 9042, 84)),
        (100 * 10**6, 9000, 1e-3, 10e-3, (2 * 9042, 84, 25_000, 125_000)),
    ],
)
def test_headroom_is_the_sum_of_its_terms(
    rate: int, mtu: int, delay: float, reaction: float, terms: tuple[int, ...]
) -> None:
    assert headroom_needed(rate, mtu, delay, reaction) == pytest.approx(sum(terms), abs=1)


@given(st.integers(10**6, 25 * 10**9), st.integers(1280, 9216), st.floats(0, 1), st.floats(0, 1))
def test_nothing_that_is_sent_in_time_exceeds_the_headroom(
    rate: int, mtu: int, delay: float, reaction: float
) -> None:
    """A peer that sends at the link's rate until it obeys, and then ends its frame."""
    wire = rate / 8
    pause_arrives = (mtu + 42 + 84) / wire + delay
    sent = (pause_arrives + reaction) * wire + mtu + 42 + delay * wire
    assert headroom_needed(rate, mtu, delay, reaction) >= sent * (1 - 1e-9)


@given(st.sets(st.integers(0, 7)))
def test_vectors(numbers: set[int]) -> None:
    assert set(members(vector(numbers))) == numbers
    assert vector(numbers) == sum(2**number for number in numbers)


def test_what_is_lossless_follows_from_the_priorities() -> None:
    port = replace(PRESETS["pfc-ecn"].port(10**8, 9000, 0.0), priority_to_queue=(0, 0, 0, 5, 0, 0, 0, 0))
    assert (port.lossless_groups, port.lossless_queues) == (1 << 3, 1 << 5)
    assert port.committed == 8 * 18036 + port.groups[3].headroom
    none = replace(port, pfc=replace(port.pfc, priorities=0))
    assert (none.lossless_groups, none.lossless_queues, none.committed) == (0, 0, 8 * 18036)


def test_each_half_of_pfc_is_enabled_alone() -> None:
    pfc = PRESETS["sonic"].port(10**8, 9000, 0.0).pfc
    assert (pfc.tx_priorities, pfc.rx_priorities) == (0b11000, 0b11000)
    assert replace(pfc, rx=False).rx_priorities == replace(pfc, tx=False).tx_priorities == 0
    assert replace(pfc, rx=False).tx_priorities == 0b11000
