"""A PFC deadlock: packets run in a circle for a moment, and four ports wait for each other for ever after.

Story
    Given  h1 and h6 write to h5
    When   three routes send what is for h5 round leaf1, spine1, leaf2, spine2 (Hu et al., HotNets 2016)
    Then   each of the four holds packets for the next, is full, and pauses the one before: a cyclic buffer dependency
    When   the routes are right again
    Then   nothing moves: four ports are paused and pause, with packets that nobody may send, and no host has a part
    When   leaf1's port has a PFC watchdog, which drops what waits there
    Then   the circle is open, the others send what they have, and h5 gets what it got

            +---> spine1 ---+
        leaf1               v        each arrow is full, and waits for the next to have room
      h1 -> ^             leaf2 <- h6, -x- h5
            +---- spine2 <--+

Numbers
    a circle of n switches with links of B takes what comes in until each packet has used up its TTL: it locks where
    more than n B / TTL comes in, here 4 x 100 / 64 = 6.25 Mb/s (Hu et al., 3.1). Each host offers 100
    four buffers of 218 KB have to fill: a QP of SoftRoCE has no more than 64 packets of 4 KB under way, 0.26 MB
    QPs retransmit every 1.07 s. A hardware NIC gives up after seven retries; SoftRoCE treats seven as unlimited
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.traffic.workload import show_queue

WRITERS: Final = ("h1:h5", "h6:h5")
QPS: Final = 16
CIRCLE: Final = ("leaf1:swp1", "spine1:swp2", "leaf2:swp2", "spine2:swp1")
"""Who sends to the next, which pauses it."""
PAUSING: Final = ("spine1:swp1", "leaf2:swp1", "spine2:swp2", "leaf1:swp2")
"""The other ends: each sends pauses to the one above it."""
ROUTES: Final = (("leaf1", "spine1"), ("spine2", "leaf1"), ("leaf2", "spine2"))
"""The last one closes the circle, and is the first to be mended."""
OPENED: Final = CIRCLE[0]
LOCKS: Final = 1.0
"""Seconds until all four are full, and to spare: a port holds 218 KB, which come in 17 ms."""
SETTLING: Final = 2.0
"""Seconds: the watchdog sees a storm after 0.2 s, and a QP that stood still sends again within 1.07 s."""


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 3)] = 1.5
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """Healthy, a circle, no circle any more, a watchdog, healthy."""
    with stage.writing(*WRITERS, qps=QPS):
        with stage.phase("baseline"):
            stage.hold(p.hold)
        with stage.phase("inject"):
            routes = [stage.inject("static-route", switch, to="h5", via=via) for switch, via in ROUTES]
            stage.hold(LOCKS)
            for route in reversed(routes):
                stage.heal(route)
        with stage.phase("observe"):
            stage.hold(p.hold)
        for port in CIRCLE:
            show_queue(stage, port)
        stage.linger()
        with stage.phase("fix"):
            stage.set(OPENED, "pfc.watchdog.enabled=true")
            stage.hold(SETTLING)
        with stage.phase("verify"):
            stage.hold(p.hold)


def four_ports_wait_for_each_other(rec: Recording, p: Params) -> Verdict:
    """Each is paused all the time, sends nothing, and keeps what it has; and each next one goes on pausing it."""
    phase = rec.phase("observe")
    paused = [rec.port(port).paused(3).during(phase).delta() / 1e6 / phase.seconds for port in CIRCLE]
    sent = sum(rec.port(port).tx_bytes(3).during(phase).delta() for port in CIRCLE)
    held = [set(rec.port(port).depth(3).during(phase).values.tolist()) for port in CIRCLE]
    refreshed = [rec.port(port).tx_pause(3).during(phase).delta() for port in PAUSING]
    still = all(len(depths) == 1 and min(depths) > 0 for depths in held)
    told = ", ".join(
        f"{port} {share:.0%} with {min(depths) / 1000:.0f} KB"
        for port, share, depths in zip(CIRCLE, paused, held, strict=True)
    )
    return expect(
        min(paused) > 0.99 and sent == 0 and still and min(refreshed) > 0,
        f"paused {told}; {sent} bytes sent, {sum(refreshed)} pauses",
    )


def no_host_has_a_part_in_it(rec: Recording, p: Params) -> Verdict:
    """All hosts are silent: they send no pause, and no packet of the class, and still it does not end."""
    hosts = [port for port in rec.ports if port.startswith("h")]
    packets = sum(rec.port(port).tx_packets(3).during("observe").delta() for port in hosts)
    pauses = sum(rec.port(port).tx_pause(3).during("observe").delta() for port in hosts)
    return expect(packets == pauses == 0, f"{len(hosts)} ports of hosts sent {packets} packets and {pauses} pauses")


def nothing_alarms(rec: Recording, p: Params) -> Verdict:
    """Not a packet is dropped for want of room, before the watchdog does."""
    lost = sum(rec.port(port).drops(3).during(each).delta() for port in rec.ports for each in ("inject", "observe"))
    return expect(lost == 0, f"{lost} packets dropped")


def one_port_that_drops_opens_it(rec: Recording, p: Params) -> Verdict:
    """The watchdog of one port drops what waits there, and the three others send all that they had."""
    storms = rec.delta("queue3_storms", OPENED, "fix")
    dropped = {port: rec.port(port).drops(3).during("fix").delta() for port in rec.ports}
    held = {port: rec.port(port).depth(3).during("observe").last for port in CIRCLE if port != OPENED}
    sent = {port: rec.port(port).tx_bytes(3).during("fix").delta() for port in held}
    told = ", ".join(f"{port} sent {sent[port] / 1000:.0f} KB and had {held[port] / 1000:.0f}" for port in held)
    right = storms > 0 and dropped[OPENED] == sum(dropped.values()) > 0
    return expect(
        right and all(sent[port] >= held[port] for port in held),
        f"{storms} storm seen at {OPENED}, {dropped[OPENED]} of {sum(dropped.values())} packets dropped; {told}",
    )


def rate_recovers(rec: Recording, p: Params) -> Verdict:
    """h5 gets what it got."""
    before, after = (
        rec.port("leaf2:swp3").tx_bytes(3).during(each).rate() * 8 / 1e6 for each in ("baseline", "verify")
    )
    return expect(after > 0.98 * before > 0, f"{before:.1f} Mb/s before, {after:.1f} Mb/s after")


ANSWER: Final = StoryAnswer(
    cause="pfc-deadlock",
    where=("leaf1", "spine1", "leaf2", "spine2", "leaf1:swp1", "spine1:swp2", "leaf2:swp2", "spine2:swp1"),
    level=3,
    workload="h1 and h6 write to h5",
    hints=(
        "nobody gets anything through, and no host sends a pause",
        "all four switches: each has a port that is paused for ever",
        "rx_prio3_pause_duration and queue3_depth_bytes of leaf1:swp1, spine1:swp2, leaf2:swp2 and spine2:swp1",
        "rocelab congestion, or rocelab counters with the four ports, twice",
        "each waits for the next, the last one for the first, with the same bytes in its queue: a circle",
    ),
    sign="ports of switches pause each other in a circle, and no host has a part in it (rocelab congestion)",
    because=(
        "A loop of routes, gone by now, filled four buffers that wait for each other: a cyclic buffer dependency."
    ),
    fix="Have one port of the circle drop what waits there: a PFC watchdog, or its link down and up.",
    prevention=(
        "Routes without valleys, so that no circle of buffers can be; a PFC watchdog on switches' ports "
        "as a last resort."
    ),
)

SCENARIO = Scenario(
    "pfc-deadlock", "incast.yaml", Params, run,
    (four_ports_wait_for_each_other, no_host_has_a_part_in_it, nothing_alarms, one_port_that_drops_opens_it,
     rate_recovers),
    answer=ANSWER,
)  # fmt: skip
