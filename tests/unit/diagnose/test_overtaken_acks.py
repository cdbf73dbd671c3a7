"""Links that reorder acknowledgements: both ends count them, and no RDMA device does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.diagnose.cause_engine import diagnose
from lab.diagnose.conservation.hop_balance import HopKind
from lab.diagnose.conservation.locations import PacketEffect, locate, overtaken_acks
from lab.diagnose.diagnosis import DiagnosisOutcome
from lab.diagnose.extract import collect
from lab.telemetry.read.recording import Recording
from tests.unit.diagnose.made_conservation import (
    ACKNOWLEDGED,
    OVERTAKEN,
    QUIET,
    RESENT,
    STRAY,
    UPLINK,
    ZERO,
    holding,
    hop,
)
from tests.unit.diagnose.made_facts import facts, first, full, writing
from tests.unit.diagnose.recorded import begun

if TYPE_CHECKING:
    from pathlib import Path

    from lab.diagnose.facts import WindowFacts
    from tests.unit.telemetry.made import Made

UP = "leaf1:swp1--spine1:swp1"
DOWN = "spine1:swp2--leaf2:swp1"
"""The next link on the way of the acknowledgements."""


def passed(*links: tuple[str, int, int], **others: object) -> WindowFacts:
    """Links, and how many acknowledgements out of order were sent into each and arrived."""
    frames: dict[str, dict[str, int]] = {}
    for link, sent, came in links:
        sender, receiver = link.split("--")
        frames.setdefault(sender, {"overtaken_acks_rx": 0})["overtaken_acks_tx"] = sent
        frames.setdefault(receiver, {"overtaken_acks_tx": 0})["overtaken_acks_rx"] = came
    lanes = others.pop("lanes", {})
    return facts(lanes, frames=frames, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize("hits", [1, 108])
def test_only_the_link_that_reorders_is_named(hits: int) -> None:
    """All links behind it deliver as many, and were sent as many."""
    found = diagnose(passed((UP, 0, hits), (DOWN, hits, hits), ("leaf2:swp3--h5:eth1", hits, hits)))
    assert [(each.cause, each.places, each.confidence) for each in found.causes] == [("link-reorder", (UP,), 0.95)]
    assert found.outcome is DiagnosisOutcome.FAULT


def test_it_is_listed_where_packets_are_not_conserved_with_the_packets_of_the_link() -> None:
    sent = {"leaf1:swp1": {"tx_packets": 200, "tx_bytes": 12_400}}
    (place,) = locate(passed((UP, 2, 12), lanes=sent))
    assert (place.place, place.effect, place.packets, place.share) == (UP, PacketEffect.REORDER, 10, 0.05)
    assert (place.evidence.of, place.evidence.source, place.evidence.value) == (
        "spine1:swp1", "rx_ack_out_of_order", 12,
    )  # fmt: skip


@pytest.mark.parametrize("came", [38, 40, 41])
def test_paths_that_merge_out_of_order_are_no_fault_of_the_link_behind(came: int) -> None:
    """Packets are sprayed: the leaf sends them out of order. Some are lost, or under way at an end of the window."""
    window = passed(("leaf2:swp3--h5:eth1", 40, came), ("spine1:swp2--leaf2:swp1", 0, 0))
    assert not list(overtaken_acks(window))
    assert diagnose(window).outcome is DiagnosisOutcome.HEALTHY


def test_a_sender_without_counters_is_not_compared_with() -> None:
    """Its queues were replaced, so that it counts neither packets nor their order."""
    received = {"spine1:swp1": {"rx_packets": 500, "tx_packets": 40}}
    assert not list(overtaken_acks(passed((UP, 0, 9), lanes=received, hops=(hop(HopKind.SWITCH, "leaf1", 100),))))
    assert list(overtaken_acks(passed((UP, 0, 9), lanes=received)))


def test_in_an_incast_it_is_named_first() -> None:
    lanes = {**full("leaf1:swp3"), **full("h2:eth1"), **full("h3:eth1")}
    found = diagnose(passed((UP, 0, 1), lanes=lanes, transfers=writing("h2:h1", "h3:h1")))
    assert [(each.cause, each.fault) for each in found.causes][:1] == [("link-reorder", True)]


def test_another_fault_hides_it() -> None:
    """A change of classes, for example, reorders what waits in two queues."""
    assert first(facts(STRAY, qos=ZERO, current=True, frames=OVERTAKEN)) == ("malformed-pfc", ("h1:eth1",))


def test_data_that_are_overtaken_as_well_have_the_counted_place() -> None:
    assert first(facts({}, hops=holding(0.2, 0.9), devices=RESENT, frames=OVERTAKEN)) == ("link-reorder", (UP,))


@pytest.mark.parametrize(
    ("came", "causes"), [(None, {"link-delay": 0.6, "link-reorder": 0.35}), (0, {"link-delay": 0.7})]
)
def test_acknowledgements_that_only_stay_are_late_if_their_order_is_counted(
    came: int | None, causes: dict[str, float]
) -> None:
    """Recordings of earlier versions do not count it."""
    frames = {} if came is None else {"spine1:swp1": {"overtaken_acks_rx": came}}
    held = (hop(HopKind.LINK, UP, 0, held=0.95),)
    found = diagnose(facts(ACKNOWLEDGED, hops=held, qos=UPLINK, devices=QUIET, frames=frames))
    assert {each.cause: each.confidence for each in found.causes} == causes


def test_those_that_are_overtaken_are_not_late() -> None:
    held = (hop(HopKind.LINK, UP, 0, held=0.95),)
    found = diagnose(facts(ACKNOWLEDGED, hops=held, qos=UPLINK, devices=QUIET, frames=OVERTAKEN))
    assert [each.cause for each in found.causes] == ["link-reorder"]


def overtaking(made: Made) -> None:
    """Three acknowledgements arrive out of order at a spine, which sends them on."""
    for end, counter in (("spine1:swp1", "rx"), ("spine1:swp2", "tx"), ("leaf2:swp1", "rx")):
        made.counters(end)[f"{counter}_ack_out_of_order"] += 3


def test_a_recording_has_the_counters_of_both_ends(tmp_path: Path) -> None:
    made = begun(tmp_path / "run")
    made.phase("observe")
    for step in range(20):
        made.sample()
        if step == 10:
            overtaking(made)
    made.phase("")
    recording = Recording.open(made.finished())
    (found,) = overtaken_acks(collect(recording, recording.window("observe", None, None)))
    assert (found.place, found.packets) == (UP, 3)
