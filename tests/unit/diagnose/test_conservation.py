"""Conservation of packets: what vanishes has a place at any rate, and what is in flight is no loss."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from lab.diagnose.cause_engine import diagnose
from lab.diagnose.conservation import accounts
from lab.diagnose.conservation.hop_balance import HopKind, balance
from lab.diagnose.conservation.locations import PacketEffect, locate
from lab.diagnose.diagnosis import DiagnosisOutcome
from lab.diagnose.extract import collect
from lab.diagnose.facts import PortFacts, Swept
from lab.diagnose.run import diagnose_run
from lab.model.load import read_topology
from lab.telemetry.read.recording import Recording
from lab.telemetry.sample.queue_pairs import GONE, INTERVAL
from tests.fabric.command import TOPOLOGIES
from tests.unit.diagnose.made_conservation import RESENT, hop
from tests.unit.diagnose.made_facts import HOSTS, PEERS, Lanes, configured, facts, first, full, writing
from tests.unit.diagnose.recorded import begun
from tests.unit.telemetry.made import RDMA, Made

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lab.diagnose.conservation.hop_balance import HopBalance
    from lab.diagnose.conservation.locations import Location
    from lab.diagnose.facts import WindowFacts

SAMPLES = 80
RATE = 150
"""Packets of a sample: 3,000 in a second, at 20 samples a second."""


def balanced(share: float, in_flight: int, seed: int = 1) -> HopBalance:
    """A link that loses a share of its packets, each by itself, and holds up to so many in flight."""
    chance = random.Random(seed)
    lost = [sum(chance.random() < share for _ in range(RATE)) for _ in range(SAMPLES)]
    entered = np.cumsum([RATE] * SAMPLES) + 1000
    left = entered - np.cumsum(lost) - [chance.randint(0, in_flight) for _ in range(SAMPLES)]
    return balance(HopKind.LINK, "a--b", entered, left)


@pytest.mark.parametrize("share", [0.005, 0.01, 0.02, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("in_flight", [0, 3])
def test_a_loss_is_counted_at_any_rate(share: float, in_flight: int) -> None:
    found = balanced(share, in_flight)
    expected = share * RATE * (SAMPLES - 5)
    assert abs(found.lost - expected) < 4 * expected**0.5 + in_flight + 1
    assert 0.5 * share < found.lost / found.entered <= 1


def test_a_port_that_counts_nothing_neither_loses_nor_duplicates_packets() -> None:
    """Another queueing discipline stands in place of its queues. Its peer counts what it sends."""
    nic, leaf = "h1:eth1", PEERS["h1:eth1"]
    links = (hop(HopKind.LINK, f"{nic}--{leaf}", -500), hop(HopKind.LINK, f"{leaf}--{nic}", 40))
    made = facts({leaf: {"rx_packets": 500, "tx_packets": 40}}, devices=RESENT, hops=links)
    assert {each.effect for each in locate(made)} == {PacketEffect.VANISH, PacketEffect.DUPLICATE}
    found = diagnose(replace(made, hops=(*links, hop(HopKind.NIC_TX, nic, 500))))
    assert [(each.cause, each.places, each.confidence) for each in found.causes] == [("queue-replaced", (nic,), 0.75)]
    assert not {PacketEffect.VANISH, PacketEffect.DUPLICATE} & {each.effect for each in found.located}


@pytest.mark.parametrize(
    ("lost_at", "answer"),
    [
        ((7, 19, 30, 44, 51), "gray-loss"),
        ((7, 19), "healthy"),
        ((3, 4, 5, 6, 7), "healthy"),
        ((7, 19, -25, 30, 44, 51), "healthy"),
    ],
    ids=["again and again", "twice", "when traffic begins", "with packets that come later"],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_acknowledgements_that_a_link_loses_or_duplicates_are_seen_although_nothing_is_sent_again(
    lost_at: tuple[int, ...], answer: str, sign: int
) -> None:
    """5 of 196 in three seconds: a later acknowledgement confirms the same data."""
    link = "spine1:swp1--leaf1:swp1"
    away = np.zeros(57, np.int64)
    for at in lost_at:
        away[abs(at) :] += sign if at > 0 else -sign
    entered = np.linspace(0, 196, 57).astype(np.int64)
    ends = {"tx_packets": 196}, {"rx_packets": 196 - int(away[-1])}
    lanes = {f"{end}/0": counts for end, counts in zip(link.split("--"), ends, strict=True)}
    made = facts(lanes, devices={"h5": {"out_of_seq_request": 0}},
                 hops=(balance(HopKind.LINK, link, entered, entered - away),))  # fmt: skip
    expected = {"gray-loss": {1: "gray-loss", -1: "link-duplicate"}[sign]}.get(answer, answer)
    assert first(made) == (expected, () if answer == "healthy" else (link,))


@pytest.mark.parametrize("rates", [(100, 20_000), (20_000, 100)], ids=["faster and faster", "slower and slower"])
@pytest.mark.parametrize("delay", [0.001, 0.005])
def test_a_long_link_whose_traffic_changes_its_rate_loses_nothing(rates: tuple[float, float], delay: float) -> None:
    """What is in flight grows and shrinks with the rate, without ever turning back."""
    chance = np.random.default_rng(7)
    for samples in (20, 40, 80):
        for _ in range(50):
            now = np.linspace(*rates, samples)
            entered = np.cumsum(now * 3 / samples).astype(np.int64)
            flying = (now * delay + chance.uniform()).astype(np.int64)
            found = balance(HopKind.LINK, "a--b", entered, entered - flying)
            assert (found.losses, found.gains) == (0, 0)


@pytest.mark.parametrize(
    ("missing", "other", "answer"),
    [
        (42, hop(HopKind.NIC_TX, "h5:eth1", 0), ("silent-drop", ("h1:eth1",))),
        (18, hop(HopKind.NIC_TX, "h5:eth1", 0), ("healthy", ())),
        (42, hop(HopKind.NIC_TX, "h5:eth1", -42), ("healthy", ())),
        (42, hop(HopKind.SWITCH, "leaf2", -42), ("healthy", ())),
        (42, hop(HopKind.NIC_TX, "h6:eth1", 0), ("healthy", ())),
    ],
    ids=["lost", "few", "of a program", "of a switch", "of a host without a device"],
)
def test_acknowledgements_that_a_host_drops_are_seen_if_all_that_is_lossless_is_of_rdma_devices(
    missing: int, other: HopBalance, answer: tuple[str, tuple[str, ...]]
) -> None:
    """A program may send other packets in a lossless class. They come to a NIC, and not to its RDMA device."""
    made = facts({"h5:eth1": {"tx_packets": 700}}, devices={"h5": {"out_of_seq_request": 0}},
                 hops=(hop(HopKind.NIC_RX, "h1:eth1", missing), other))  # fmt: skip
    assert first(made) == answer


def test_one_in_a_thousand_is_seen_in_four_seconds() -> None:
    assert all(balanced(0.001, 0, seed).lost > 0 for seed in (1, 2, 3))


@pytest.mark.parametrize("in_flight", [0, 1])
def test_a_few_lost_packets_are_seen_where_few_are_in_flight(in_flight: int) -> None:
    """Two of 699, as a link of a real recording lost them; with a packet in flight now and then, four."""
    lost = np.repeat([0, 1, 2], [13, 16, 14]) * (1 + in_flight)
    flying = np.where(np.arange(43) % 6 == 5, in_flight, 0)
    entered = np.linspace(0, 699, 43).astype(np.int64)
    found = balance(HopKind.LINK, "a--b", entered, entered - lost - flying)
    assert (found.entered, found.lost) == (699, lost[-1])
    assert balance(HopKind.LINK, "a--b", entered, entered - flying).lost == 0
    assert balance(HopKind.LINK, "a--b", entered, entered - np.minimum(lost, 1) - flying).lost == 1 - in_flight
    # The ports of a switch are read one after the other.
    assert balance(HopKind.SWITCH, "a", entered, entered - np.minimum(lost, 2) - flying).lost == 0


@pytest.mark.parametrize("in_flight", [0, 3, 12, 60])
def test_packets_in_flight_are_not_lost(in_flight: int) -> None:
    found = [balanced(0.0, in_flight, seed) for seed in range(50)]
    assert [(each.lost, each.surplus) for each in found] == [(0, 0)] * 50


def test_packets_in_flight_in_the_first_of_a_few_samples_are_no_surplus() -> None:
    """Seven samples of three seconds, as a busy machine took them: 93 packets were on the link at the first."""
    entered = np.linspace(0, 3620, 7).astype(np.int64)
    found = balance(HopKind.LINK, "a--b", entered, entered - np.array([93, 0, 10, 0, 4, 0, 0]))
    assert (found.lost, found.surplus) == (0, 0)


def test_a_burst_is_a_loss_and_more_arrivals_are_a_surplus() -> None:
    entered = np.arange(0, 4000, 100)
    burst = np.where(np.arange(40) < 20, 0, 70)
    assert balance(HopKind.LINK, "a--b", entered, entered - burst).lost == 70
    assert balance(HopKind.LINK, "a--b", entered, entered + burst).surplus == 70
    nothing = balance(HopKind.LINK, "a--b", np.array([], np.int64), np.array([], np.int64))
    assert (nothing.entered, nothing.lost) == (0, 0)


def carried(made: Made, lost_at: str = "", share: float = 0.0, priority: int = 3) -> None:
    """A step of a transfer from h1 to h5 by spine1, which loses a share of its packets at a hop."""
    count = RATE
    path = (
        "h1:eth1",
        "leaf1:swp3",
        "leaf1:swp1",
        "spine1:swp1",
        "spine1:swp2",
        "leaf2:swp1",
        "leaf2:swp3",
        "h5:eth1",
    )
    made.devices[HOSTS.index("h1"), RDMA.index("sent_pkts")] += count
    for number, port in enumerate(path):
        if lost_at == port:
            count -= round(count * share)
        direction = "rx" if number % 2 else "tx"
        made.counters(port)["priority"][f"{direction}_packets"][priority] += count
        made.counters(port)["priority"][f"{direction}_bytes"][priority] += 4170 * count
    if lost_at == "rdma":
        count -= round(count * share)
    made.devices[HOSTS.index("h5"), RDMA.index("rcvd_pkts")] += count
    if lost_at:
        made.devices[HOSTS.index("h5"), RDMA.index("out_of_seq_request")] += 1


def recorded(path: Path, step: Callable[[Made], None]) -> Recording:
    """Two seconds of a step, twenty times a second."""
    made = begun(path)
    made.phase("observe")
    for _ in range(40):
        made.sample()
        step(made)
    made.sample()
    made.phase("")
    return Recording.open(made.finished())


def located(path: Path, step: Callable[[Made], None]) -> tuple[Location, ...]:
    recording = recorded(path, step)
    return locate(collect(recording, recording.window("observe", None, None)))


@pytest.mark.parametrize("share", [0.02, 0.2, 0.6, 1.0])
@pytest.mark.parametrize(
    ("lost_at", "place"),
    [
        ("h1:eth1", "h1:eth1"),
        ("leaf1:swp3", "h1:eth1--leaf1:swp3"),
        ("leaf1:swp1", "leaf1"),
        ("spine1:swp1", "leaf1:swp1--spine1:swp1"),
        ("spine1:swp2", "spine1"),
        ("leaf2:swp1", "spine1:swp2--leaf2:swp1"),
        ("leaf2:swp3", "leaf2"),
        ("h5:eth1", "leaf2:swp3--h5:eth1"),
        ("rdma", "h5:eth1"),
    ],
)
def test_what_vanishes_has_a_place(tmp_path: Path, lost_at: str, place: str, share: float) -> None:
    found = located(tmp_path / "run", lambda made: carried(made, lost_at, share))
    assert [(each.place, each.effect) for each in found] == [(place, PacketEffect.VANISH)]
    assert abs(found[0].share - share) < 0.15 * share + 0.01


@pytest.mark.parametrize(("lost_at", "place"), [("h1:eth1", "h1:eth1"), ("leaf1:swp1", "leaf1")])
def test_what_leaves_a_nic_in_a_lossy_class_does_not_vanish_in_it(tmp_path: Path, lost_at: str, place: str) -> None:
    """Its queue pairs use another traffic class than lossless ones."""
    found = located(tmp_path / "run", lambda made: carried(made, lost_at, 0.2, priority=0))
    assert [each.place for each in found if each.effect is PacketEffect.VANISH] == [place]


def test_nothing_vanishes_where_all_arrives(tmp_path: Path) -> None:
    assert located(tmp_path / "run", carried) == ()


@pytest.mark.parametrize(("ended", "places"), [("h5", []), ("h1", ["h5:eth1"])])
def test_packets_for_a_queue_pair_that_has_ended_are_not_lost(tmp_path: Path, ended: str, places: list[str]) -> None:
    """Its end is reported half a second later. The end of a QP of another NIC changes nothing."""
    made = begun(tmp_path / "run")
    made.phase("observe")
    for number in range(80):
        made.sample()
        carried(made, *(("rdma", 1.0) if number >= 60 else ()))
        if number == 70:
            made.event(made.ns, source="rdma", kind="qp", node=ended, interface="eth1", qpn=17, state=GONE,
                       before="RTS", type="RC", remote=17, pid=1, program="")  # fmt: skip
    made.sample()
    made.phase("")
    recording = Recording.open(made.finished())
    found = locate(collect(recording, recording.window("observe")))
    assert [each.place for each in found if each.effect is PacketEffect.VANISH] == places
    assert accounts._POLL > INTERVAL


def bridged(made: Made, priority: int) -> None:
    """Frames that come to leaf1 of an overlay by a tunnel, and are dropped there."""
    for port, direction in (("spine1:swp1", "tx"), ("leaf1:swp1", "rx")):
        made.counters(port)["priority"][f"{direction}_packets"][priority] += 10


@pytest.mark.parametrize(("priority", "places"), [(0, []), (3, ["leaf1"])])
def test_copies_that_a_bridge_drops_are_not_lost(tmp_path: Path, priority: int, places: list[str]) -> None:
    """A leaf drops flooded frames that nobody behind it wants, and the other copies of a bond's frames."""
    made = Made(tmp_path / "run", read_topology(TOPOLOGIES / "roce-tenant.yaml"), hosts=["h1"])
    made.phase("observe")
    for _ in range(40):
        made.sample()
        bridged(made, priority)
    made.phase("")
    recording = Recording.open(made.finished())
    assert [each.place for each in locate(collect(recording, recording.window("observe", None, None)))] == places


def test_an_answer_names_the_place(tmp_path: Path) -> None:
    """A tenth of the packets vanishes inside spine1: neither a filter nor a ping tells why."""
    found = diagnose_run(recorded(tmp_path / "run", lambda made: carried(made, "spine1:swp2", 0.1)), "observe")
    assert [(each.cause, each.places, each.confidence) for each in found.causes] == [
        ("silent-drop", ("spine1",), 0.7)
    ]
    assert [each.place for each in found.located] == ["spine1"]


def test_a_whole_recording_names_each_place_once(tmp_path: Path) -> None:
    found = diagnose_run(recorded(tmp_path / "run", lambda made: carried(made, "spine1:swp2", 0.1)))
    assert [each.place for each in found.located] == ["spine1"]


def test_a_place_without_another_cause_is_last() -> None:
    """A lost device explains why its NIC gets more than it takes."""
    hops = (hop(HopKind.NIC_RX, "h5:eth1", 900),)
    assert first(facts({}, hops=hops, devices=RESENT))[0] == "silent-drop"
    lost = facts({}, hops=hops, devices=RESENT, without_device={"h5:eth1": 0.0})
    assert [each.cause for each in diagnose(lost).causes] == ["rdma-device-lost"]


def test_without_a_retransmission_small_balances_are_no_loss() -> None:
    quiet = facts({}, hops=(hop(HopKind.SWITCH, "spine1", 15),), devices={"h5": {"out_of_seq_request": 0}})
    assert diagnose(quiet).outcome is DiagnosisOutcome.HEALTHY
    assert first(replace(quiet, hops=(hop(HopKind.SWITCH, "spine1", 40),))) == ("silent-drop", ("spine1",))


def test_packets_of_a_sweep_are_not_lost_behind_a_nic() -> None:
    """No queue pair takes them."""
    came = Swept(1.0, ("h1:eth1", "leaf1:swp1", "spine1:swp2", "leaf2:swp3"), 61001, 9000, 100, 100, 10, 10)
    hops = (hop(HopKind.NIC_RX, "h5:eth1", 110),)
    (kept,) = locate(facts({}, hops=hops, devices=RESENT))
    assert (kept.place, kept.packets, kept.effect) == ("h5:eth1", 110, PacketEffect.VANISH)
    swept = locate(facts({}, hops=hops, devices=RESENT, swept=(came,)))
    assert PacketEffect.VANISH not in {each.effect for each in swept}


def test_a_receiver_that_is_not_ready_is_no_healthy_fabric() -> None:
    found = diagnose(facts({}, devices={"h1": {"retry_rnr_exceeded_err": 2}}))
    assert found.outcome is DiagnosisOutcome.UNKNOWN
    assert [line.source for line in found.unexplained] == ["retry_rnr_exceeded_err"]
    assert diagnose(facts({}, devices={"h1": {"retry_rnr_exceeded_err": 0}})).outcome is DiagnosisOutcome.HEALTHY


def three_leaves() -> WindowFacts:
    """The fabric with a third leaf, which has no hosts."""
    two = facts({})
    more = {}
    for number in (1, 2):
        here, there = f"leaf3:swp{number}", f"spine{number}:swp3"
        more.update({here: PortFacts(here, there, host=False), there: PortFacts(there, here, host=False)})
    prefixes = dict.fromkeys(two.routes["spine1"], ("swp1", "swp2"))
    return replace(two, ports={**two.ports, **more}, routes={**two.routes, "leaf3": prefixes})


def test_one_address_with_fewer_next_hops_than_at_a_sibling_is_named() -> None:
    """leaf1 and leaf3 both reach h5 by two spines, until a route of leaf1 to h5 alone takes one of them."""
    three = three_leaves()
    assert diagnose(three).outcome is DiagnosisOutcome.HEALTHY
    pinned = {**three.routes, "leaf1": {**three.routes["leaf1"], "10.0.0.9/32": ("swp2",)}}
    found = diagnose(replace(three, routes=pinned)).causes
    assert [(each.cause, each.places) for each in found] == [("one-path-only", ("leaf1",))]
    assert "10.0.0.9" in found[0].evidence[0].says


@pytest.mark.parametrize("device", ["br0", "bond0"])
def test_a_host_whose_port_is_in_a_bridge_has_one_next_hop_at_its_own_leaf(device: str) -> None:
    """A gateway on a bridge or a bond is a design of its own. A route by a tunnel is no narrow one."""
    three = three_leaves()
    (own,) = (address for nic, address in three.addresses.items() if nic.startswith("h1"))
    bridged = {**three.routes, "leaf1": {**three.routes["leaf1"], f"{own}/32": (device,)}}
    assert diagnose(replace(three, routes=bridged)).outcome is DiagnosisOutcome.HEALTHY
    tunnelled = {**three.routes, "leaf1": {**three.routes["leaf1"], "10.0.0.9/32": (device,)}}
    assert diagnose(replace(three, routes=tunnelled)).causes == ()


@pytest.mark.parametrize("dear", ["spine1", "spine2"])
def test_a_spine_with_its_own_link_to_a_leaf_lacks_no_path(dear: str) -> None:
    """A link has a higher cost: its spine takes a detour by two other leaves. The other spine has the direct link."""
    three = three_leaves()
    uplink = "swp2" if dear == "spine1" else "swp1"
    theirs = {prefix for prefix, hops in three.routes[dear].items() if hops == ("swp2",)}
    routes = dict(three.routes)
    for node, hops in ((dear, ("swp1", "swp3")), ("leaf1", (uplink,)), ("leaf3", (uplink,))):
        routes[node] = {prefix: hops if prefix in theirs else mine for prefix, mine in routes[node].items()}
    routes["leaf2"] = {prefix: (uplink,) if len(mine) > 1 else mine for prefix, mine in routes["leaf2"].items()}
    (found,) = diagnose(replace(three, routes=routes)).causes
    assert (found.cause, found.places) == ("one-path-only", ("leaf1", "leaf2")), "those with one path to leaf2"


def test_counted_drops_and_late_packets_have_a_place() -> None:
    lanes: Lanes = {"leaf2:swp3/0": {"offered": 500, "drops": {"shared": 100}}}
    (dropped,) = locate(facts(lanes, devices=RESENT))
    assert (dropped.place, dropped.effect, dropped.packets, dropped.share) == (
        "leaf2:swp3", PacketEffect.DROP, 100, 0.2,
    )  # fmt: skip
    (late,) = locate(facts({}, devices=RESENT))
    assert (late.place, late.effect) == ("h5:eth1", PacketEffect.REORDER)


@pytest.mark.parametrize(("overtaken", "seen"), [(0.0, False), (0.01, False), (0.3, True), (0.9, True)])
def test_a_link_on_which_packets_are_overtaken_holds_more_than_one(overtaken: float, seen: bool) -> None:
    """Each waits for ten others, and is counted where it arrives."""
    chance = random.Random(2)
    lost, held = 40, list[int]()
    entered, left = list[int](), list[int]()
    for number in range(RATE * SAMPLES):
        held = [until for until in held if until > number]
        if chance.random() < overtaken:
            held.append(number + 10)
        if number % RATE == 0:
            entered.append(number + lost)
            left.append(number - len(held))
    found = balance(HopKind.LINK, "leaf1:swp1--spine1:swp1", np.array(entered), np.array(left))
    assert found.lost == 0
    assert (first(facts({}, hops=(found,), devices=RESENT))[0] == "link-reorder") is seen


@pytest.mark.parametrize(("delay", "cause"), [(0.0, "link-reorder"), (0.01, "")])
def test_a_long_link_holds_packets_by_design(delay: float, cause: str) -> None:
    """Packets come out of order elsewhere, and 50 of 5,000 a second are on this link."""
    long = facts({}, hops=(hop(HopKind.LINK, "leaf1:swp1--spine1:swp1", 0, held=50.0),), devices=RESENT)
    long = replace(long, qos=configured("leaf1:swp1", delay=delay))
    assert [each.cause for each in diagnose(long).causes if each.cause == "link-reorder"] == [cause] * bool(cause)


@pytest.mark.parametrize(("beside", "named"), [(0.2, True), (0.8, False)])
def test_a_machine_that_is_late_holds_packets_on_all_links(beside: float, named: bool) -> None:
    """Two cables: on the other one packets stay as well. Both directions of one cable are one place."""
    links = ("leaf1:swp1--spine1:swp1", "spine1:swp1--leaf1:swp1", "leaf1:swp2--spine2:swp1")
    held = [hop(HopKind.LINK, link, 0, held=each) for link, each in zip(links, (1.0, 0.9, beside), strict=True)]
    window = facts({}, hops=tuple(held), qos=configured("leaf1:swp1", "leaf1:swp2", "spine1:swp1", "spine2:swp1"))
    assert ("link-delay" in {each.cause for each in diagnose(window).causes}) is named


def lossy(sent: int, came: int, size: int, come_size: int) -> Lanes:
    """What left leaf1 for spine1, and what came."""
    left = {"tx_packets": sent, "tx_bytes": sent * size}
    return {"leaf1:swp1": left, "spine1:swp1": {"rx_packets": came, "rx_bytes": came * come_size}}


@pytest.mark.parametrize("came", [900, 400, 50])
def test_a_link_that_loses_more_than_half_is_a_lossy_link(came: int) -> None:
    found = diagnose(facts(lossy(1000, came, 4000, 4000), devices=RESENT)).causes[0]
    assert (found.cause, found.places) == ("gray-loss", ("leaf1:swp1--spine1:swp1",))
    assert found.confidence <= 0.8 or came == 900


def test_large_packets_that_vanish_are_no_mtu_fault_where_both_mtus_are_large_enough() -> None:
    """A filter at ingress takes RoCE, and leaves small packets of routing."""
    lanes = lossy(1463, 120, 4000, 100)
    assert first(facts(lanes, devices=RESENT))[0] == "mtu-black-hole"
    known = facts(lanes, devices=RESENT, mtus={"leaf1:swp1": 9000, "spine1:swp1": 9000})
    assert first(known) == ("gray-loss", ("leaf1:swp1--spine1:swp1",))


def test_pauses_of_a_lossy_class_are_their_senders_fault() -> None:
    ignored: Lanes = {"leaf1:swp3/0": {"ignored": 400}}
    assert first(facts(ignored)) == ("malformed-pfc", ("h1:eth1",))
    assert first(facts({"leaf1:swp3": {"ignored": 400}})) == ("pfc-one-sided", ("leaf1:swp3",))


def test_other_lossless_priorities_than_those_of_the_neighbours_are_named() -> None:
    """leaf2 has PFC for priority 2 alone, which nobody else has."""
    ports = [f"leaf2:swp{number}" for number in range(1, 7)]
    pfc = replace(configured()["leaf1"].ports["swp1"].pfc, priorities=1 << 2)
    found = diagnose(facts({}, qos=configured(*ports, pfc=pfc), current=True)).causes
    assert [(each.cause, each.places) for each in found] == [("pfc-one-sided", ("leaf2",))]


def test_two_qps_that_share_an_uplink_by_chance_are_no_fault() -> None:
    """Without transfers the number of flows is not known."""
    lanes = {
        **full("leaf1:swp1"), "leaf1:swp2": {"tx_bytes": 500, "tx_packets": 5},
        "leaf1:swp3": {"pauses_out": 5, "resumes_out": 5}, "leaf1:swp4": {"pauses_out": 5, "resumes_out": 5},
    }  # fmt: skip
    assert [each.cause for each in diagnose(facts(lanes)).causes if each.fault] == []


@pytest.mark.parametrize(("qps", "named"), [(8, False), (10, False), (11, True), (5000, True)])
def test_qps_of_one_pair_that_share_an_uplink_by_chance_are_no_fault(qps: int, named: bool) -> None:
    """All of 8 QPs take the same one of two paths in one of 128 fabrics."""
    there = facts(full("leaf1:swp2"), transfers=writing("h1:h5", qps=qps))
    assert ("hash-polarisation" in {each.cause for each in diagnose(there).causes}) is named


@pytest.mark.parametrize(("hops", "named"), [(("swp2",), False), (("swp1", "swp2"), True)])
def test_qps_that_have_one_path_do_not_choose_it(hops: tuple[str, ...], named: bool) -> None:
    """A link is down behind one of the spines: leaf1 has one next hop to h5, and two to other hosts."""
    two = facts({})
    leaf1 = {prefix: hops if prefix == "10.0.0.8/31" else mine for prefix, mine in two.routes["leaf1"].items()}
    there = facts(
        full("leaf1:swp2"), transfers=writing("h1:h5", qps=16), routes={**two.routes, "leaf1": leaf1},
        down=frozenset({"spine1:swp2"}),
    )  # fmt: skip
    assert ("hash-polarisation" in {each.cause for each in diagnose(there).causes}) is named


@pytest.mark.parametrize(("before", "late", "named"), [(0, True, True), (7, True, True), (0, False, False)])
def test_a_link_with_a_packet_on_it_at_nearly_all_times_is_late(before: int, late: bool, named: bool) -> None:
    """540 acknowledgements in 61 samples, as on a link with 5 ms more in a real recording. Seven were lost before."""
    flying = np.where(np.isin(np.arange(61), (13, 18, 36)), 0, int(late)) + before
    flying[20] = before - 3  # the sampler was interrupted
    entered = np.linspace(0, 540, 61).astype(np.int64)
    found = balance(HopKind.LINK, "leaf1:swp3--h1:eth1", entered, entered - flying)
    there = facts({}, hops=(found,), qos=configured("leaf1:swp3", "h1:eth1"))
    causes = [(each.cause, each.places) for each in diagnose(there).causes]
    assert causes == ([("link-delay", ("leaf1:swp3--h1:eth1",))] if named else [])
