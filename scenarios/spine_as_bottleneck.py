"""Broadcasts of one host: its leaf sends a copy to each other leaf, and its uplink is full three times as soon.

Story
    Given  h1 is in a network of four leaves; h5 on the same leaf streams to h6 and pings it, in another network
    When   h1 broadcasts 20 Mb/s
    Then   leaf1's uplink carries three copies, and spine1 sends one to each leaf; h5's stream has enough room
    When   h1 broadcasts 40 Mb/s, less than half of its own link's rate
    Then   leaf1's uplink is full, and leaf1 drops the copies that do not fit
    And    h5's pings wait in the queue for as long as the packets before them take to be sent
    And    h5's stream keeps its rate: each input port has its share of the buffer, and only h1's is used up
    When   h1 stops
    Then   h5's pings wait no longer

        h1 -- leaf1 == three copies == spine1 -- leaf2 -- h2, h6
        h5 --/      100 Mb/s                  -- leaf3 -- h3        one copy to each
                                              -- leaf4 -- h4

Numbers
    copies: one for each VTEP of the network except its own (ingress replication, RFC 8365 section 9): 4 - 1 = 3
    a frame of 4000 bytes has 4050 in the tunnel, and with FCS, preamble and gap 4074 on the wire
    20 Mb/s: 625 frames/s x 3 x 4074 x 8 = 61 Mb/s.  40 Mb/s: 1250 x 3 x 4074 x 8 = 122 Mb/s of 100
"""

from __future__ import annotations

import json
from typing import Annotated, Final

from lab.model.overlay.intent import FLOOD_MAC
from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, between, expect, in_words
from lab.scenario.phase_measures import dropped
from lab.scenario.probes.overlay_state import ping_each, show_fdb
from lab.scenario.three_acts import PhaseParameters
from lab.scenario.traffic.background_traffic import pinging, streaming
from lab.scenario.traffic.workload import said, show_link
from lab.telemetry.read.program_series import echoes, received

SENDER, LEAF, UPLINK = "h1", "leaf1", "leaf1:swp1"
INPUT, OTHER_INPUT = "leaf1:swp2", "leaf1:swp3"
"""leaf1's ports to h1 and to h5."""
RECEIVERS: Final = ("h2:eth1", "h3:eth1", "h4:eth1")
PAIR: Final = "h5:h6"
VNI: Final = 10010
CLASS: Final = 0
"""The priority of packets with DSCP 0 or without DSCP."""
TUNNEL, WIRE = 50, 24
"""Bytes that VXLAN adds to a frame; FCS, preamble and gap between frames."""
MBIT: Final = 10**6
LINK, STREAM = 100 * MBIT, 20 * MBIT
PHASES: Final = ("baseline", "few", "observe", "verify")
SETTLING: Final = 0.5
"""Seconds: the uplink's queue fills or drains in a tenth of that."""


class Params(PhaseParameters):
    """The rates of broadcasts."""

    few: Annotated[int, between(5, 24)] = 20
    """Mb/s of broadcasts that fit into the uplink."""
    many: Annotated[int, between(36, 90)] = 40
    """Mb/s of broadcasts that do not fit."""


def run(stage: Stage, p: Params) -> None:
    """Quiet, few, many, quiet."""
    with streaming(stage, PAIR, rate=STREAM), pinging(stage, PAIR):
        stage.measure("baseline", p.hold)
        few = stage.inject("broadcast-storm", SENDER, rate=f"{p.few}Mbit")
        with stage.holding("few", p.hold):
            show_fdb(stage, LEAF, VNI)
        stage.heal(few)
        with stage.phase("inject"):
            many = stage.inject("broadcast-storm", SENDER, rate=f"{p.many}Mbit")
            stage.hold(SETTLING)
        stage.measure("observe", p.hold)
        show_link(stage, UPLINK)
        stage.linger(lambda: ping_each(stage, "h5", "h6"))
        with stage.phase("fix"):
            stage.heal(many)
            stage.hold(SETTLING)
        stage.measure("verify", p.hold)


def _growth(rec: Recording, port: str, counter: str, phase: str) -> int:
    """Return the growth of a counter of the broadcasts' priority, ``{n}`` in its name."""
    return rec.delta(counter.format(n=CLASS), port, phase)


def one_copy_for_each_vtep(rec: Recording, p: Params) -> Verdict:
    """leaf1's uplink is offered one copy of h1's frames for each VTEP of the network, at both rates."""
    vteps = sum(entry["mac"] == FLOOD_MAC and "dst" in entry for entry in json.loads(said(rec, "few", "bridge")))
    copies = []
    for phase in ("few", "observe"):
        offered = _growth(rec, UPLINK, "queue{n}_offered_packets", phase)
        broadcasts, other = (_growth(rec, port, "rx_prio{n}_packets", phase) for port in (INPUT, OTHER_INPUT))
        copies.append((offered - other) / max(broadcasts, 1))
    near = all(abs(each - vteps) < 0.05 * vteps for each in copies)
    return expect(near and vteps > 1, f"{vteps} VTEPs; {copies[0]:.3f} copies at few, {copies[1]:.3f} at many Mb/s")


def bytes_match_the_copies(rec: Recording, p: Params) -> Verdict:
    """The uplink carries three copies of h1's frames and one of h5's, each with the tunnel's headers."""
    broadcasts, other = (
        _growth(rec, port, "rx_prio{n}_bytes", "few") + TUNNEL * _growth(rec, port, "rx_prio{n}_packets", "few")
        for port in (INPUT, OTHER_INPUT)
    )
    wanted, sent = len(RECEIVERS) * broadcasts + other, _growth(rec, UPLINK, "tx_prio{n}_bytes", "few")
    return expect(wanted > 0 and abs(sent - wanted) < 0.005 * wanted, f"{sent} bytes, {wanted} expected")


def each_host_receives_one_copy(rec: Recording, p: Params) -> Verdict:
    """Behind the spine each copy has its own path: every host of the network receives each frame once."""
    sent = _growth(rec, INPUT, "rx_prio{n}_packets", "few")
    counts = [_growth(rec, port, "rx_prio{n}_packets", "few") for port in RECEIVERS]
    once = all(abs(count - sent) <= 0.02 * sent for count in counts)
    return expect(sent > 0 and once, f"h1 sent {sent}, other hosts received {in_words(counts)}")


def the_uplink_is_full(rec: Recording, p: Params) -> Verdict:
    """leaf1's uplink is full and drops packets, while h1's own link carries less than half of its rate."""
    seconds = rec.phase("observe").seconds
    loads = [
        8 * (_growth(rec, port, way + "_bytes", "observe") + WIRE * _growth(rec, port, way + "_packets", "observe"))
        / seconds / LINK
        for port, way in ((UPLINK, "tx_prio{n}"), (INPUT, "rx_prio{n}"))
    ]  # fmt: skip
    few, many = (dropped(rec, phase, ports=[UPLINK], priority=CLASS) for phase in ("few", "observe"))
    evidence = f"uplink {loads[0]:.1%} full, h1's link {loads[1]:.1%}; dropped: {few} of few, {many} of many"
    return expect(loads[0] > 0.97 and loads[1] < p.many / 100 + 0.05 and few == 0 < many, evidence)


def only_broadcasts_are_dropped(rec: Recording, p: Params) -> Verdict:
    """Only h1's port has used up its share of leaf1's buffer, and h5's stream keeps its 20 Mb/s."""
    mine, other = (_growth(rec, port, "pg{n}_drop_packets", "observe") for port in (INPUT, OTHER_INPUT))
    rates = {phase: received(rec, PAIR).during(phase).rate() * 8 / STREAM for phase in PHASES}
    evidence = ", ".join(f"{phase} {rate:.0%}" for phase, rate in rates.items())
    kept = all(rate > 0.9 for rate in rates.values())
    return expect(kept and other == 0 < mine, f"{mine} packets of h1 dropped, {other} of h5; h5's stream: {evidence}")


def pings_wait_in_the_queue(rec: Recording, p: Params) -> Verdict:
    """With many broadcasts a ping takes longer, by the time that the uplink's queue takes to be sent."""
    depth = float(rec.port(UPLINK).depth(CLASS).during("observe").values.mean())
    wanted = depth * 8 / LINK * 1e3
    times = echoes(rec, PAIR).times
    before, during, after = (
        float(times.during(phase).values.mean()) / 1e6 for phase in ("baseline", "observe", "verify")
    )
    evidence = f"pings took {before:.2f}, {during:.2f}, {after:.2f} ms; {depth / 1e3:.0f} KB of queue {wanted:.2f} ms"
    near = abs(during - before - wanted) < 0.2 * wanted
    return expect(near and during > 4 * max(before, after), evidence)


ANSWER: Final = StoryAnswer(
    cause="spine-as-bottleneck",
    where=("h1", "h1:eth1", "leaf1:swp2"),
    level=2,
    workload="h5 streams to h6 by TCP, 20 Mb/s, and pings it",
    hints=(
        "h5's pings to h6 take many times as long as before, and no lossless packet is dropped",
        "leaf1: its uplink is full, and its hosts send less than half of the uplink's rate",
        "queue0_offered_packets of leaf1:swp1, and rx_prio0_packets of every host",
        "rocelab counters --priority 0, and rocelab exec leaf1 -- bridge fdb show dev vni10010",
        "h1 broadcasts: each frame leaves leaf1 once for every VTEP of the network",
    ),
    sign="a leaf's uplinks are offered several times the packets that its hosts send (rocelab counters)",
    because="h1 broadcasts without end; leaf1 sends each frame to three VTEPs, and its uplink is full.",
    fix="Disconnect h1 from its network, and repair the program that broadcasts there.",
    prevention="Limit broadcasts at host ports (storm control); configure networks only on leaves with their hosts.",
)

SCENARIO = Scenario(
    "spine-as-bottleneck", "flood.yaml", Params, run,
    (one_copy_for_each_vtep, bytes_match_the_copies, each_host_receives_one_copy, the_uplink_is_full,
     only_broadcasts_are_dropped, pings_wait_in_the_queue), answer=ANSWER,
)  # fmt: skip
