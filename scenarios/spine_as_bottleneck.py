"""Broadcasts of one host: its leaf sends each once to every other leaf, and its uplink is full three times as soon.

Story
    Given  h1 is in a network of four leaves; h5 on the same leaf streams to h6 and pings it, in another network
    When   h1 broadcasts 20 Mb/s
    Then   leaf1's uplink carries three copies of each, spine1 one to each leaf, and h5's stream has room beside them
    When   h1 broadcasts 40 Mb/s, not half of what its own link carries
    Then   leaf1's uplink is full, and what does not fit of the copies is dropped at leaf1, before the spine
    And    h5 waits behind them in the queue that it shares, as long as that takes to be sent; its stream has its rate
           still, since the buffer is shared out by the ports that packets came in by, and h1's has used up its own
    When   h1 is quiet
    Then   h5 waits for nobody

        h1 -- leaf1 == three copies == spine1 -- leaf2 -- h2, h6
        h5 --/      100 Mb/s                  -- leaf3 -- h3        one copy to each
                                              -- leaf4 -- h4

Numbers
    copies: one for each VTEP of the network but its own (ingress replication, RFC 8365 section 9): 4 - 1 = 3
    a frame of 4000 octets has 4050 in the tunnel, and with FCS, preamble and gap 4074 on the wire
    20 Mb/s: 625 frames/s x 3 x 4074 x 8 = 61 Mb/s.  40 Mb/s: 1250 x 3 x 4074 x 8 = 122 Mb/s of 100
"""

from __future__ import annotations

import json
from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, between, expect, time_of
from lab.scenario.probes.overlay_state import FLOODED, ping_each, show_fdb
from lab.scenario.traffic.background_traffic import pinging, streaming
from lab.scenario.traffic.workload import said, show_link
from lab.scenario.verdict import in_words
from lab.telemetry.read.program_series import echoes, received

LOUD, LEAF, UPLINK, SPINE = "h1", "leaf1", "leaf1:swp1", "spine1:swp1"
FROM_LOUD, FROM_OTHER = "leaf1:swp2", "leaf1:swp3"
"""leaf1's ports to h1 and to h5."""
HEARERS: Final = ("h2:eth1", "h3:eth1", "h4:eth1")
ORDINARY: Final = "h5:h6"
VNI: Final = 10010
CLASS: Final = 0
"""Of what has no DSCP, and of DSCP 0."""
TUNNEL, WIRE = 50, 24
"""Octets that VXLAN adds to a frame; FCS, preamble and gap between frames."""
MBIT: Final = 10**6
LINK, STREAM = 100 * MBIT, 20 * MBIT
PHASES: Final = ("baseline", "few", "observe", "verify")


class Params(Parameters):
    """What a reader may turn."""

    few: Annotated[int, between(5, 24)] = 20
    """Mb/s that are flooded where all is well."""
    many: Annotated[int, between(36, 90)] = 40
    """Mb/s of the same where they are too many."""
    hold: Annotated[float, time_of(1, 60)] = 2.0
    """How long it is looked at each time."""


def run(stage: Stage, p: Params) -> None:
    """Quiet, a few, many, quiet."""
    with streaming(stage, ORDINARY, rate=STREAM), pinging(stage, ORDINARY):
        with stage.phase("baseline"):
            stage.hold(p.hold)
        few = stage.inject("broadcast-storm", LOUD, rate=f"{p.few}Mbit")
        with stage.phase("few"):
            stage.hold(p.hold)
            show_fdb(stage, LEAF, VNI)
        stage.heal(few)
        with stage.phase("inject"):
            many = stage.inject("broadcast-storm", LOUD, rate=f"{p.many}Mbit")
            stage.hold(0.5)
        with stage.phase("observe"):
            stage.hold(p.hold)
        show_link(stage, UPLINK)
        stage.linger(lambda: ping_each(stage, "h5", "h6"))
        with stage.phase("fix"):
            stage.heal(many)
            stage.hold(0.5)
        with stage.phase("verify"):
            stage.hold(p.hold)


def _grown(rec: Recording, port: str, counter: str, phase: str) -> int:
    return rec.port(port).counter(counter.format(n=CLASS)).during(phase).delta()


def one_copy_for_each_vtep(rec: Recording, p: Params) -> Verdict:
    """leaf1 offers its uplink as many copies of h1's frames as it has VTEPs to flood to, few or many."""
    vteps = sum(entry["mac"] == FLOODED and "dst" in entry for entry in json.loads(said(rec, "few", "bridge")))
    copies = []
    for phase in ("few", "observe"):
        offered = _grown(rec, UPLINK, "queue{n}_offered_packets", phase)
        loud, other = (_grown(rec, port, "rx_prio{n}_packets", phase) for port in (FROM_LOUD, FROM_OTHER))
        copies.append((offered - other) / max(loud, 1))
    near = all(abs(each - vteps) < 0.05 * vteps for each in copies)
    return expect(near and vteps > 1, f"{vteps} VTEPs; copies: {copies[0]:.3f} of few, {copies[1]:.3f} of many")


def octets_are_what_arithmetic_says(rec: Recording, p: Params) -> Verdict:
    """The uplink carries three copies of what h1 sends and one of what h5 does, each with the tunnel's headers."""
    loud, other = (
        _grown(rec, port, "rx_prio{n}_bytes", "few") + TUNNEL * _grown(rec, port, "rx_prio{n}_packets", "few")
        for port in (FROM_LOUD, FROM_OTHER)
    )
    wanted, sent = len(HEARERS) * loud + other, _grown(rec, UPLINK, "tx_prio{n}_bytes", "few")
    return expect(wanted > 0 and abs(sent - wanted) < 0.005 * wanted, f"{sent} octets, {wanted} expected")


def everybody_gets_one(rec: Recording, p: Params) -> Verdict:
    """Behind the spine each copy has its own way: every host of the network gets each frame once."""
    sent = _grown(rec, FROM_LOUD, "rx_prio{n}_packets", "few")
    got = [_grown(rec, port, "rx_prio{n}_packets", "few") for port in HEARERS]
    each_has = all(abs(count - sent) <= 0.02 * sent for count in got)
    return expect(sent > 0 and each_has, f"h1 sent {sent}, others got {in_words(got)}")


def the_uplink_is_full(rec: Recording, p: Params) -> Verdict:
    """leaf1's uplink carries what its rate allows and drops the rest; h1's own link carries not half of its."""
    seconds = rec.phase("observe").seconds
    loads = [
        8 * (_grown(rec, port, way + "_bytes", "observe") + WIRE * _grown(rec, port, way + "_packets", "observe"))
        / seconds / LINK
        for port, way in ((UPLINK, "tx_prio{n}"), (FROM_LOUD, "rx_prio{n}"))
    ]  # fmt: skip
    lost = {each: rec.port(UPLINK).drops(CLASS).during(each).delta() for each in ("few", "observe")}
    told = f"uplink {loads[0]:.1%} full, h1's link {loads[1]:.1%}; dropped: {in_words(lost)}"
    return expect(loads[0] > 0.97 and loads[1] < p.many / 100 + 0.05 and lost["few"] == 0 < lost["observe"], told)


def what_is_dropped_came_from_h1(rec: Recording, p: Params) -> Verdict:
    """Only h1's port has used up its share of leaf1's buffer, and h5's stream of 20 Mb/s arrives all the time."""
    refused = [_grown(rec, port, "pg{n}_drop_packets", "observe") for port in (FROM_LOUD, FROM_OTHER)]
    rates = {phase: received(rec, ORDINARY).during(phase).rate() * 8 / STREAM for phase in PHASES}
    told = ", ".join(f"{phase} {rate:.0%}" for phase, rate in rates.items())
    whole = all(rate > 0.9 for rate in rates.values())
    return expect(
        whole and refused[1] == 0 < refused[0], f"dropped of h1, h5: {in_words(refused)}; its stream: {told}"
    )


def others_wait_for_the_queue(rec: Recording, p: Params) -> Verdict:
    """A ping of h5 takes longer by what the uplink's queue takes to be sent; before and afterwards it does not."""
    depth = rec.port(UPLINK).depth(CLASS).during("observe").values.mean()
    wanted = float(depth) * 8 / LINK * 1e3
    times = echoes(rec, ORDINARY).times
    before, waits, after = (
        float(times.during(phase).values.mean()) / 1e6 for phase in ("baseline", "observe", "verify")
    )
    told = f"pings took {before:.2f}, {waits:.2f}, {after:.2f} ms; {depth / 1e3:.0f} KB before them {wanted:.2f}"
    near = abs(waits - before - wanted) < 0.2 * wanted
    return expect(near and waits > 4 * max(before, after), told)


ANSWER: Final = StoryAnswer(
    cause="spine-as-bottleneck",
    where=("h1", "h1:eth1", "leaf1:swp2"),
    level=2,
    workload="h5 streams to h6 by TCP, 20 Mb/s, and pings it",
    hints=(
        "h5's pings to h6 take many times as long as they did, and nothing lossless is dropped",
        "leaf1: its uplink is full, and its hosts send not half as much as it carries",
        "queue0_offered_packets of leaf1:swp1, and rx_prio0_packets of every host",
        "rocelab counters --priority 0, and rocelab exec leaf1 -- bridge fdb show dev vni10010",
        "h1 broadcasts: each frame leaves leaf1 once for every VTEP that it floods to",
    ),
    sign="a leaf's uplinks are offered several times the packets that its hosts send (rocelab counters)",
    because="h1 broadcasts without end; leaf1 sends each frame to three VTEPs, and its uplink is full.",
    fix="Take h1 off its network, and mend what broadcasts there.",
    prevention="Limit broadcasts at ports of hosts (storm control); keep networks off leaves without their hosts.",
)

SCENARIO = Scenario(
    "spine-as-bottleneck", "flood.yaml", Params, run,
    (one_copy_for_each_vtep, octets_are_what_arithmetic_says, everybody_gets_one, the_uplink_is_full,
     what_is_dropped_came_from_h1, others_wait_for_the_queue), answer=ANSWER,
)  # fmt: skip
