"""Delays of the sweep between all pairs of NICs: a slow link of a host is named, and a long one by design is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.diagnose.cause_engine import diagnose
from lab.diagnose.symptoms.path_delays import a_nic_has_a_slow_link, a_path_is_slow
from tests.unit.diagnose.made_facts import HOSTS, PEERS, configured, facts
from tests.unit.diagnose.made_windows import timed_pairs
from tests.unit.diagnose.test_swept import delayed

if TYPE_CHECKING:
    from lab.diagnose.facts import WindowFacts

QUIET = {"h1": {"completer_retry_err": 0}}


def swept(
    late: dict[tuple[str, str], float] | None = None, hosts: list[str] | None = None, **others: object
) -> WindowFacts:
    return facts({}, devices=QUIET, swept_pairs=timed_pairs(late or {}, hosts or HOSTS), **others)


def places(window: WindowFacts) -> list[str]:
    return [sign.place for sign in a_nic_has_a_slow_link(window)]


def test_pairs_of_one_speed_show_nothing() -> None:
    assert places(swept()) == []
    assert diagnose(swept()).causes == ()


@pytest.mark.parametrize("late", [0.0003, 0.005, 0.5])
def test_the_slow_direction_of_a_host_s_link_is_named(late: float) -> None:
    assert places(swept({("h3", ""): late})) == [f"h3:eth1--{PEERS['h3:eth1']}"]
    assert places(swept({("", "h3"): late})) == [f"{PEERS['h3:eth1']}--h3:eth1"]
    found = diagnose(swept({("h3", ""): late})).causes
    assert [(each.cause, each.places) for each in found] == [("link-delay", (f"h3:eth1--{PEERS['h3:eth1']}",))]


def test_two_slow_links_are_named_and_a_slow_pair_is_none() -> None:
    assert len(places(swept({("h3", ""): 0.005, ("h6", ""): 0.005}))) == 2
    assert places(swept({("h3", "h6"): 0.005})) == []


def test_two_nics_have_nobody_to_compare_with() -> None:
    assert places(swept({("h3", ""): 0.005}, hosts=["h3", "h4"])) == []


def test_a_link_that_is_longer_by_design_is_not_slow() -> None:
    long = configured("h3:eth1", PEERS["h3:eth1"], delay=0.005)
    both = {("h3", ""): 0.005, ("", "h3"): 0.005}
    assert len(places(swept(both))) == 2
    assert places(swept(both, qos=long)) == []
    assert places(swept({**both, ("h3", "h1"): 0.0, ("h4", ""): 0.005}, qos=long)) == [f"h4:eth1--{PEERS['h4:eth1']}"]


def test_a_link_with_a_lower_rate_by_design_is_not_slow() -> None:
    """At 2 Mb/s a small packet takes half a millisecond."""
    late = {("h3", ""): 0.00054, ("", "h3"): 0.00054}
    assert len(places(swept(late))) == 2
    assert places(swept(late, qos=configured("h3:eth1", PEERS["h3:eth1"], rate=2 * 10**6))) == []


def test_a_path_over_a_link_that_is_longer_by_design_is_not_slow() -> None:
    window = delayed((("leaf1", "leaf2"), 1))
    assert list(a_path_is_slow(window))
    long = configured("leaf1:swp1", PEERS["leaf1:swp1"], delay=0.005)
    designed = facts({}, devices=QUIET, swept=window.swept, qos=long)
    assert not list(a_path_is_slow(designed))
