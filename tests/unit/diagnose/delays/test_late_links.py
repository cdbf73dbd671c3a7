"""Links on which packets stay: by the samples of a window, in comparison with the other links of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from lab.diagnose.cause_engine import diagnose
from lab.diagnose.conservation.hop_balance import HopKind, balance
from lab.diagnose.conservation.late_links import late_link
from lab.diagnose.extract import collect
from lab.diagnose.symptoms.path_delays import packets_stay_on_a_link
from lab.telemetry.read.recording import Recording
from tests.unit.diagnose.made_conservation import RESENT
from tests.unit.diagnose.made_facts import FULL, PACKETS, QOS, SECONDS, Lanes, configured, facts, first
from tests.unit.diagnose.recorded import begun

if TYPE_CHECKING:
    from pathlib import Path

    from lab.diagnose.conservation.hop_balance import HopBalance
    from lab.diagnose.facts import WindowFacts

LATE = "leaf1:swp1--spine1:swp1"
OTHERS = ("leaf1:swp2--spine2:swp1", "h1:eth1--leaf1:swp3", "h5:eth1--leaf2:swp3", "leaf2:swp6--h8:eth1")
OVERTAKEN = "0001010010101010000000000000000010001000010000000020100000101011"
"""The packets on a link at a load of 16%, of which a fifth is overtaken by the next one: recorded in the VM."""
JITTER = "211110101011101010010110101102110111111101111111011000201100100"
"""Those on a full link, each of which is late by up to some 100 us: recorded in the VM."""
USUAL = "1010010000000011000001010000000000000000000000000000000000000000"
"""Those on a full link without a fault, in the window of the former."""


def link(place: str, seen: str, load: float) -> HopBalance:
    flying = np.array([int(each) for each in seen])
    entered = np.linspace(0, load * PACKETS, len(flying)).astype(np.int64)
    return balance(HopKind.LINK, place, entered, entered - flying)


def window(seen: str, load: float, *others: tuple[str, float], **more: object) -> WindowFacts:
    """A window with a link at a load, and others with theirs."""
    links = {LATE: (seen, load), **dict(zip(OTHERS, others, strict=False))}
    lanes: Lanes = {
        place.partition("--")[0]: {"tx_bytes": int(share * FULL), "tx_packets": int(share * PACKETS)}
        for place, (_, share) in links.items()
    }
    return facts(lanes, hops=tuple(link(place, *each) for place, each in links.items()), qos=QOS, **more)


@pytest.mark.parametrize(
    ("seen", "load", "named"), [(OVERTAKEN, 0.16, True), (USUAL[::-1], 0.16, False), ("0" * 60 + "1111", 0.16, False)]
)
def test_a_link_with_a_small_load_that_reorders_is_named(seen: str, load: float, named: bool) -> None:
    """With one packet in two samples on the other links as well, it is the machine that is late."""
    full = ((USUAL, 0.9),) * 4
    assert (first(window(seen, load, *full, devices=RESENT)) == ("link-reorder", (LATE,))) is named
    busy = (("01" * 32, 0.3),) * 4
    assert first(window(seen, load, *busy, devices=RESENT))[0] == "unknown"


@pytest.mark.parametrize(("seen", "named"), [(JITTER, True), (USUAL, False)])
def test_a_full_link_with_jitter_is_late(seen: str, named: bool) -> None:
    """Nothing is lost or sent again."""
    made = window(seen, 1.0, *((USUAL, 1.0),) * 4, devices={"h5": {"out_of_seq_request": 0}})
    assert (first(made) == ("link-delay", (LATE,))) is named
    late = late_link(made)
    assert (late is not None) is named
    assert late is None or 0.00015 < late.seconds < 0.0004


@pytest.mark.parametrize("others", [0, 2])
def test_without_enough_links_to_compare_with_all_of_the_load_can_be_on_a_link(others: int) -> None:
    assert late_link(window(JITTER, 1.0, *((USUAL, 1.0),) * others)) is None


def test_a_link_that_is_long_by_design_is_compared_without_its_length() -> None:
    """200 us at 2,900 packets a second."""
    made = window(JITTER, 1.0, *((USUAL, 1.0),) * 4)
    long = configured("leaf1:swp1", delay=0.7 * SECONDS / PACKETS)
    assert late_link(made) is not None
    assert late_link(replace(made, qos=long)) is None


def test_a_link_whose_length_is_not_known_is_not_late() -> None:
    """The recording has no configuration: 4 packets are on a link with a delay by design."""
    made = window("4" * 10 + "40" * 27, 1.0, *((USUAL, 1.0),) * 4)
    assert first(made) == ("link-delay", (LATE,))
    assert list(packets_stay_on_a_link(replace(made, qos={}))) == []


@pytest.mark.parametrize(("length", "named"), [(0.0, True), (4 * SECONDS / PACKETS, False)])
def test_a_link_that_is_long_as_planned_does_not_reorder(length: float, named: bool) -> None:
    """Packets are overtaken somewhere. Without a configuration, the topology has the length of the link."""
    made = window("4" * 10 + "40" * 27, 1.0, *((USUAL, 1.0),) * 4, devices=RESENT)
    made = replace(made, qos={}, planned_delays={"leaf1:swp1": length})
    assert (first(made) == ("link-reorder", (LATE,))) is named


@pytest.mark.parametrize(
    ("size", "answers"),
    [
        (62, [("link-delay", 0.6, ("link-reorder",)), ("link-reorder", 0.35, ("link-delay",))]),
        (112, [("link-delay", 0.6, ("link-reorder",)), ("link-reorder", 0.35, ("link-delay",))]),
        (4170, [("link-delay", 0.7, ())]),
    ],
)
def test_acknowledgements_that_stay_on_a_link_are_late_or_overtaken(
    size: int, answers: list[tuple[str, float, tuple[str, ...]]]
) -> None:
    """No RDMA device counts an acknowledgement that another one has overtaken, as it does for data."""
    made = window("03" * 32, 0.5, *((USUAL, 0.5),) * 4, devices={"h5": {"out_of_seq_request": 0}})
    lane = made.lane("leaf1:swp1", 3)
    made = replace(made, lanes={**made.lanes, (lane.port, 3): replace(lane, tx_bytes=lane.tx_packets * size)})
    found = diagnose(made).causes
    assert [(each.cause, each.confidence, each.alternatives) for each in found] == answers
    assert {each.places for each in found} == {(LATE,)}


@pytest.mark.parametrize("us", [200, 300, 400])
def test_a_delay_at_a_third_of_the_load_is_seen(us: int) -> None:
    """Less than its load is on the link: only the comparison with other links shows it."""
    chance = np.random.default_rng(us)
    mean = us * 1e-6 * PACKETS / SECONDS / 3
    seen = "".join(map(str, np.minimum(9, chance.poisson(mean, 120))))
    made = window(seen, 0.33, *((USUAL, 1.0),) * 4)
    assert mean < 0.42
    found = late_link(made)
    assert found is not None
    assert found.hop.place == LATE


@pytest.mark.parametrize(("beside", "named"), [("02" * 32, False), (USUAL, True)])
def test_small_packets_are_as_late_as_large_ones_on_a_machine_that_is_late(beside: str, named: bool) -> None:
    """1.5 of 5,000 packets a second are on a link at 5% of its rate: 300 us each, and 200 us each on other links."""
    made = window("03" * 32, 0.05, *((beside, 0.9),) * 4)
    small = replace(made.hops[0], entered=int(5000 * SECONDS))
    assert (late_link(replace(made, hops=(small, *made.hops[1:]))) is not None) is named


@pytest.mark.parametrize("pauses", [1, 3])
def test_a_machine_that_pauses_is_no_late_link(pauses: int) -> None:
    """In the host's time, a link had 26 and 19 packets on it in two of 250 samples, and none in the others."""
    made = window(USUAL, 0.5, *((USUAL, 0.5),) * 4)
    entered = np.linspace(0, 5000, 64).astype(np.int64)
    flying = np.zeros(64, np.int64)
    flying[20 : 20 + pauses] = 26
    assert (
        late_link(replace(made, hops=(balance(HopKind.LINK, LATE, entered, entered - flying), *made.hops[1:])))
        is None
    )


@pytest.mark.parametrize("idle", [True, False])
def test_a_link_that_has_lost_packets_before_holds_none_of_them(tmp_path: Path, *, idle: bool) -> None:
    """The ends are read one after the other. In one of ten samples, a packet is counted at the receiver only.

    After a time without packets it is known that 14 were lost before, and not 13.
    """
    made = begun(tmp_path / "run")
    sent, came = (made.counters(port)["priority"] for port in LATE.split("--"))
    sent["tx_packets"][3] += 14

    def carry(count: int, ahead: int = 0) -> None:
        for counts, direction in ((sent, "tx"), (came, "rx")):
            counts[f"{direction}_packets"][3] += count
            counts[f"{direction}_bytes"][3] += 4170 * count
        came["rx_packets"][3] += ahead
        made.sample()
        came["rx_packets"][3] -= ahead

    for _ in range(20):
        carry(0 if idle else 150)
    made.phase("observe")
    for number in range(60):
        carry(150, int(number % 10 == 3))
    made.phase("")
    recording = Recording.open(made.finished())
    hops = collect(recording, recording.window("observe")).hops
    assert [round(each.held, 1) for each in hops if each.place == LATE] == [0.0 if idle else 0.9]
