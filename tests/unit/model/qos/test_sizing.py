"""Thresholds by hand: worked examples of the sources, and what holds for every link."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.errors import UsageError
from lab.model.load import load_topology
from lab.model.qos.advice import advise
from lab.model.qos.plan_yaml import plan_yaml
from lab.model.qos.sizing import (
    FLOOR_FRAMES,
    GBIT,
    SizedLink,
    SonicAsic,
    ecn_bound,
    fixed_point,
    headroom,
    headroom_terms,
    least_rtt,
    make_plan,
    sonic_headroom,
    wire_size,
)
from lab.model.topology import MTU_RANGE
from lab.units import parse_rate

FRAME = 9216 - 22
"""Bytes of IP packet in an untagged frame of 9216 with VLAN tag and FCS."""
SONIC_XOFF = {
    (10, 5): 29696, (25, 5): 29696, (40, 5): 29696, (50, 5): 29696, (100, 5): 30720,
    (10, 40): 29696, (25, 40): 31744, (40, 40): 32768, (50, 40): 33792, (100, 40): 38912,
    (10, 300): 36864, (25, 300): 48128, (40, 300): 59392, (50, 300): 66560, (100, 300): 104448,
}  # fmt: skip
"""xoff of pg_profile_lookup.ini of ACS-MSN2700 (Spectrum) in sonic-buildimage, by Gb/s and metres."""


def bits(cable: SizedLink) -> list[int]:
    return [8 * term.size for term in headroom_terms(cable)]


def test_the_terms_of_a_100_gigabit_port_are_those_of_the_standard() -> None:
    """As chapter 7 of "Detecting, Troubleshooting, and Preventing Congestion in Storage Networks" has them."""
    frame, pause, cable, interfaces, response, lossless = bits(SizedLink(100 * GBIT, 100, 2300 - 22, FRAME))
    assert frame == 73_888
    assert pause == 672
    assert interfaces == 2 * 122_880
    assert response == 201_728
    assert lossless == 18_560
    assert cable == pytest.approx(2 * 500e-9 * 100e9, rel=0.02)  # at 5 ns a metre


@pytest.mark.parametrize(
    ("gigabits", "response"), [(1, 1024), (10, 30_720), (25, 40_960), (40, 60_416), (100, 201_728), (400, 463_360)]
)
def test_the_peers_response_is_the_limit_of_its_rate(gigabits: int, response: int) -> None:
    assert bits(SizedLink(gigabits * GBIT, 1, 1500, 1500))[4] == response


def test_a_data_sheet_takes_the_place_of_the_limits() -> None:
    assert bits(SizedLink(100 * GBIT, 1, 1500, 1500, response=10, interface=800))[3:5] == [1600, 5120]


@pytest.mark.parametrize(("link", "xoff"), SONIC_XOFF.items())
def test_sonics_formula_gives_sonics_table(link: tuple[int, int], xoff: int) -> None:
    """Within one of its steps of 1,024 bytes: the table was made with a slightly faster cable."""
    rate, length = link
    assert 0 <= sonic_headroom(SizedLink(rate * GBIT, length, 1500, 9216)) - xoff <= 1024


def test_large_cells_cost_more_and_large_packets_less() -> None:
    cable = SizedLink(100 * GBIT, 40, 1500, 9216)
    assert sonic_headroom(cable, SonicAsic(cell=144)) > sonic_headroom(cable)
    assert sonic_headroom(cable, small_packets=0) == -(-(1500 + 9216 + 5051 + 819 + 3891) // 1024) * 1024


def test_dcqcns_bound_is_that_of_its_paper() -> None:
    """12 MB, 32 ports, 8 classes, 22.4 KB of headroom: 24.47 KB each, and 21.75 KB with beta 8 (section 4)."""
    assert ecn_bound(12_000_000, 32, 8, 22_400, 1e12) == pytest.approx(24_470, rel=1e-3)
    assert ecn_bound(12_000_000, 32, 8, 22_400, 8) == pytest.approx(21_750, rel=1e-3)


def test_more_flows_settle_at_more_marks() -> None:
    chances = [fixed_point(40 * GBIT, senders, 1000) for senders in (2, 4, 8, 16, 64)]
    assert chances == sorted(chances)
    assert chances[0] == pytest.approx(0.00092, rel=0.01)  # below 1%, the paper's Pmax, with two flows


def test_a_plan_by_hand() -> None:
    cable = SizedLink(100 * GBIT, 40, 4096, 4096)
    made = make_plan(cable, 16)
    frame = 4096 + 18 + 24
    assert made.size("headroom") == 2 * frame + 84 + 5051 + 30_720 + 25_216
    assert made.rtt == pytest.approx(8 * (40 / 1.98e8 + 8 * frame / 1e11))
    assert made.size("kmin") == 3 * (4096 + 18)
    assert made.size("kmax") == 4 * made.size("kmin")
    assert made.size("xoff") == 5 * made.size("kmin")
    assert made.size("buffer") == 16 * (made.size("xoff") + made.size("headroom"))
    assert all(term.arithmetic and term.source for term in made.terms)
    assert all(choice.arithmetic and choice.source and choice.larger and choice.smaller for choice in made.choices)


def test_a_single_sender_resumes_before_the_link_idles() -> None:
    """XON covers what leaves until data come again, so XOFF is twice that where it is more than 5/4 of Kmax."""
    made = make_plan(SizedLink(100 * GBIT, 300, 4096, 9000), 1)
    assert made.size("xon") >= made.size("headroom") - wire_size(4096)
    assert made.size("xoff") > 5 * made.size("kmax") // 4


CABLES = st.builds(
    lambda rate, length, mtu, more: SizedLink(rate, length, mtu, min(mtu + more, MTU_RANGE[1])),
    st.integers(10**6, 800 * GBIT),
    st.floats(0.1, 100_000),
    st.integers(*MTU_RANGE),
    st.integers(0, 5000),
)


@given(CABLES, st.integers(1, 100_000), st.one_of(st.none(), st.floats(1e-7, 1)))
def test_thresholds_are_in_order_on_every_link(cable: SizedLink, senders: int, rtt: float | None) -> None:
    made = make_plan(cable, senders, rtt)
    assert 0 < made.size("xon") < made.size("xoff")
    assert FLOOR_FRAMES * cable.mtu < made.size("kmin") < made.size("kmax") < made.size("xoff")
    assert 0.01 <= made.value("pmax") <= 1
    assert senders * made.size("xon") + senders >= made.size("headroom") - wire_size(cable.mtu)


@given(CABLES, st.integers(1, 64), st.integers(10**6, 800 * GBIT), st.floats(0.1, 100_000), st.integers(*MTU_RANGE))
def test_faster_longer_and_larger_need_no_less(
    cable: SizedLink, senders: int, rate: int, length: float, mtu: int
) -> None:
    for other in (
        SizedLink(max(rate, cable.rate), cable.length, cable.mtu, cable.port_mtu),
        SizedLink(cable.rate, max(length, cable.length), cable.mtu, cable.port_mtu),
        SizedLink(cable.rate, cable.length, max(mtu, cable.mtu), max(mtu, cable.port_mtu)),
        SizedLink(cable.rate, cable.length, cable.mtu, max(mtu, cable.port_mtu)),
    ):
        assert headroom(other) >= headroom(cable)
        one, two = make_plan(cable, senders), make_plan(other, senders)
        for name in ("kmin", "kmax", "xoff", "xon", "headroom", "buffer"):
            assert two.size(name) >= one.size(name), name


@settings(max_examples=60, deadline=None)
@given(CABLES, st.integers(1, 256), st.sampled_from(["1Mbit", "100Mbit", "640Mbit", "25Gbit"]))
def test_the_yaml_is_one_that_a_topology_may_have(cable: SizedLink, senders: int, rate: str) -> None:
    try:
        text = plan_yaml(make_plan(cable, senders), parse_rate(rate))
    except UsageError:
        return
    shape = "generate: {shape: leaf-spine, spines: 1, leaves: 2, hosts_per_leaf: 1}"
    topology = load_topology(f"name: t\ndefaults: {{rate: {rate}, mtu: {cable.mtu}}}\n{shape}\n{text}")
    assert advise(topology) == ()


def test_the_yaml_keeps_the_ratios_and_three_frames() -> None:
    made = make_plan(SizedLink(400 * GBIT, 40, 4200, 9000), 8, rtt=12e-6)
    topology = load_topology(
        "name: t\ndefaults: {rate: 100Mbit}\ngenerate: {shape: leaf-spine, spines: 1, leaves: 2}\n"
        + plan_yaml(made, 10**8)
    )
    assert topology.qos is not None
    profile = topology.qos.profiles["planned"]
    kmin, kmax = profile.ecn[3].kmin, profile.ecn[3].kmax
    assert isinstance(kmin, int)
    assert isinstance(kmax, int)
    assert kmin >= 3 * 4218 - 1
    assert kmax / kmin == pytest.approx(4, rel=1e-3)
    assert profile.ecn[3].pmax == pytest.approx(made.value("pmax"), abs=1e-4)


def test_a_round_trip_that_no_emulated_buffer_holds_is_refused() -> None:
    with pytest.raises(UsageError, match=r"is more than the .* that ports share at 100 Mb/s: a shorter --rtt"):
        plan_yaml(make_plan(SizedLink(10**8, 10, 1500, 1500), 1, rtt=0.5), 10**8)


def test_the_least_round_trip_is_four_links_there_and_back() -> None:
    assert least_rtt(SizedLink(10 * GBIT, 198, 1458, 1458)) == pytest.approx(8 * (1e-6 + 1.2e-6))
