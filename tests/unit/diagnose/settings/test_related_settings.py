"""Causes that are a relation of two settings: the one that siblings have otherwise is named."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lab.diagnose.diagnosis import Diagnosis, DiagnosisOutcome
from lab.diagnose.related_settings import with_related_settings
from tests.unit.diagnose.settings.made_settings import setting
from tests.unit.diagnose.settings.setting_diagnoses import cause

if TYPE_CHECKING:
    from lab.diagnose.differing import DifferingSetting

XOFF = setting("spine1", "port swp1", "groups.3.xoff", "swp1", value="20000", expected="45000")
KMIN = setting("spine1", "port swp1", "queues.3.ecn.kmin", "swp1", value="80000", expected="40000")
KMAX = setting("spine1", "port swp1", "queues.3.ecn.kmax", "swp1", value="160000", expected="at most XOFF, 20000",
               against="rule")  # fmt: skip
DELAY = setting("spine1", "port swp1", "delay", "swp1", value="0.001", expected="0")
WEIGHT = setting("spine1", "port swp1", "queues.3.weight", "swp1", value="9", expected="1")


@pytest.mark.parametrize(
    ("named", "settings", "then"),
    [
        ("ecn-above-xoff", (XOFF,), "buffer-differs"),
        ("ecn-above-xoff", (XOFF, KMAX), "buffer-differs"),
        ("ecn-above-xoff", (XOFF, KMIN), "ecn-above-xoff"),
        ("ecn-above-xoff", (KMIN,), "ecn-above-xoff"),
        ("ecn-above-xoff", (WEIGHT,), "ecn-above-xoff"),
        ("ecn-above-xoff", (), "ecn-above-xoff"),
        ("headroom-too-small", (DELAY,), "delay-differs"),
        ("headroom-too-small", (DELAY, XOFF), "headroom-too-small"),
        ("pfc-one-sided", (XOFF,), "pfc-one-sided"),
    ],
)
def test_the_setting_that_differs_is_named(named: str, settings: tuple[DifferingSetting, ...], then: str) -> None:
    before = Diagnosis(
        outcome=DiagnosisOutcome.FAULT, causes=(cause(named, "spine1:swp1", 0.8),), unexplained=(), missing=(),
        start=0.0, end=2.0, located=(), differing=settings,
    )  # fmt: skip
    (found,) = with_related_settings(before).causes
    assert (found.cause, found.places, found.confidence) == (then, ("spine1:swp1",), 0.8)
    if then != named:
        assert "swp1" in found.fix
        assert found.evidence[0].source == "settings"
    both = replace(before, causes=(replace(cause(named, "spine1:swp1"), places=("spine1:swp1", "spine1:swp2")),))
    assert with_related_settings(both) == both, "the other port has no setting that differs"


def test_a_port_that_has_its_address_and_no_route_to_its_network_lacks_the_route() -> None:
    """Both look alike in the routes of a node. The route is only listed if the node has the address."""
    lost = setting("leaf1", "route 10.0.0.0/31", value="absent", against="rule",
                   expected="present: type unicast, protocol kernel, next hops dev swp3")  # fmt: skip
    other = replace(lost, expected=lost.expected.replace("swp3", "swp4"))
    before = Diagnosis(
        outcome=DiagnosisOutcome.FAULT, causes=(cause("wrong-address", "leaf1:swp3", 0.95),), unexplained=(),
        missing=(), start=0.0, end=2.0, located=(), differing=(lost,),
    )  # fmt: skip
    (found,) = with_related_settings(before).causes
    assert (found.cause, found.places, found.confidence) == ("route-differs", ("leaf1:swp3",), 0.95)
    assert found.fix == "rocelab exec leaf1 -- ip route replace 10.0.0.0/31 proto kernel dev swp3"
    for differing in ((), (other,), (replace(lost, expected="present: type unicast, protocol bgp"),)):
        (found,) = with_related_settings(replace(before, differing=differing)).causes
        assert found.cause == "wrong-address"
