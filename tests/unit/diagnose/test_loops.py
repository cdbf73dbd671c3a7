"""Packets that go in a circle: by which switches, which of them is at fault, and what is no circle."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lab.diagnose.cause_engine import diagnose
from lab.diagnose.diagnosis import DiagnosisOutcome
from lab.diagnose.ip_stacks import Stack
from lab.diagnose.run import diagnose_run
from lab.telemetry.read.recording import Recording
from lab.telemetry.store import recording_folder as files
from tests.unit.diagnose.made_facts import facts, first, named
from tests.unit.diagnose.made_windows import astray
from tests.unit.diagnose.recorded import begun, during

if TYPE_CHECKING:
    from pathlib import Path

BACK = ("swp1",)
"""By which spine1 sends what is for h5 back to leaf1, and leaf1 to spine1."""


@pytest.mark.parametrize(
    ("made", "places"),
    [
        ({"spine1": {"10.0.0.8/31": BACK}}, ("spine1",)),
        ({"spine1": {"10.0.0.9/32": BACK}, "leaf1": {"10.0.0.9/32": BACK}}, ("spine1",)),
        ({"leaf2": {"10.0.0.9/32": ("swp1",)}}, ("leaf2",)),
        ({"spine2": {"10.0.0.0/16": ("swp1",)}, "leaf1": {"10.77.0.0/16": ("swp2",)}}, ()),
        ({"spine2": {"10.77.0.0/16": ("swp1",)}, "leaf1": {"10.77.0.0/16": ("swp2",)}}, ("leaf1", "spine2")),
        ({"spine1": {"fd00::/16": BACK}, "leaf1": {"fd00::/16": BACK}}, ("leaf1", "spine1")),
    ],
    ids=["one back", "two static", "a leaf back", "less specific", "of no host", "IPv6"],
)
def test_the_switch_is_named_that_sends_packets_no_nearer(made: Any, places: tuple[str, ...]) -> None:
    """Of an address that no host has, all of the circle."""
    found = diagnose(facts({}, routes=astray(**made)))
    assert named(found) == (("routing-loop", places) if places else ("healthy", ()))
    if places:
        assert all(" to " in line.says and ", by swp" in line.says for line in found.causes[0].evidence)


def test_two_circles_are_both_named() -> None:
    """One of leaf1 and spine1, and one of leaf2 and spine2, of other hosts."""
    made = astray(spine1={"10.0.0.8/31": BACK}, spine2={"10.0.0.0/31": ("swp2",)})
    (found,) = diagnose(facts({}, routes=made)).causes
    assert (found.cause, set(found.places)) == ("routing-loop", {"spine1", "spine2"})


def test_a_network_on_a_link_between_switches_is_no_circle() -> None:
    """Each end has it by its own interface: what is for it has arrived."""
    linked: Any = {"leaf1": {"10.255.0.0/31": ("swp1",)}, "spine1": {"10.255.0.0/31": ("swp1",)}}
    own = Stack(macs={}, own=frozenset(), networks={"swp1": frozenset({"10.255.0.0/31"})})
    made = facts({}, routes=astray(**linked), stacks={"leaf1": own, "spine1": own})
    assert diagnose(made).outcome is DiagnosisOutcome.HEALTHY
    assert first(replace(made, stacks={}))[0] == "routing-loop"
    six: Any = {"leaf1": {"fe80::/64": ("swp1",)}, "spine1": {"fe80::/64": ("swp1",)}}
    assert diagnose(facts({}, routes=astray(**six))).outcome is DiagnosisOutcome.HEALTHY


def test_a_default_route_does_not_lead_packets_for_a_switch_back_to_it() -> None:
    """They have arrived, although no learned route of the switch has its own address."""
    made = astray(leaf1={"0.0.0.0/0": ("swp1",)}, spine1={"10.252.0.1/32": BACK})
    own = Stack(macs={}, own=frozenset({"10.252.0.1"}), networks={})
    assert diagnose(facts({}, routes=made, stacks={"leaf1": own})).outcome is DiagnosisOutcome.HEALTHY
    assert first(facts({}, routes=made))[0] == "routing-loop"


@pytest.mark.parametrize("there_before", [True, False])
def test_a_static_route_comes_before_what_is_learnt(tmp_path: Path, there_before: bool) -> None:
    """Also where iproute2 lists the learnt one behind it, and where it comes later and goes again."""
    made = begun(tmp_path / "run")
    state = files.read_json(made.folder.state("before"))
    assert state is not None
    for switch, known in astray().items():
        state[switch]["routes"] = [
            {"dst": prefix, "protocol": "bgp", "metric": 20, "nexthops": [{"dev": hop} for hop in hops]}
            for prefix, hops in known.items()
        ]
    static = {"dst": "10.0.0.8/31", "protocol": "boot", "dev": "swp1"}
    if there_before:
        state["spine1"]["routes"].insert(0, static)
    own = {"protocol": "kernel", "scope": "link", "prefsrc": "10.0.0.9", "dst": "10.0.0.8/31", "dev": "eth1"}
    state["h5"] = {"routes": [own]}
    files.write_json(made.folder.state("before"), state)
    during(made, "before", lambda _: None)
    told = {"source": "kernel", "kind": "route", "node": "spine1", "prefix": "10.0.0.8/31", "type": "unicast",
            "protocol": "boot", "table": 254, "metric": 0}  # fmt: skip
    made.event(made.ns, **told, interfaces=["swp1"], gone=False)
    during(made, "looping", lambda _: None)
    made.event(made.ns, **told, interfaces=[], gone=True)
    during(made, "after", lambda _: None)
    recording = Recording.open(made.finished())
    found = [diagnose_run(recording, phase).causes for phase in ("before", "looping", "after")]
    assert [[each.cause for each in causes] for causes in found] == [
        ["routing-loop"] if there_before else [],
        ["routing-loop"],
        [],
    ]
