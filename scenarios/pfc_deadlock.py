"""A PFC deadlock: packets loop for a moment, and afterwards four ports wait for each other for ever.

Story
    Given  h1 and h6 write to h5
    When   three wrong routes send packets for h5 round leaf1, spine1, leaf2, spine2 (Hu et al., HotNets 2016)
    Then   each of the four is full and pauses the one before: a cyclic buffer dependency
    When   the routes are right again
    Then   nothing moves: four ports are paused, each by the next, and the hosts send nothing
    When   leaf1's port gets a PFC watchdog, which drops the packets queued there
    Then   the cycle is broken, the other ports send their packets, and h5 receives as before

              +---> spine1 ---+
          leaf1               v        each arrow is full, and waits for the next to have room
        h1 -> ^             leaf2 <- h6, -x- h5
              +---- spine2 <--+

Numbers
    a cycle of n switches with links of B circulates packets until their TTL is used up: it locks where
    more than n B / TTL comes in, here 4 x 100 / 64 = 6.25 Mb/s (Hu et al., 3.1). Each host offers 100
    four buffers of 218 KB have to fill: a QP of SoftRoCE has at most 64 packets of 4 KB in flight, 0.26 MB
    QPs retransmit every 1.07 s. A hardware NIC gives up after seven retries; SoftRoCE treats seven as unlimited
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.phase_measures import dropped, paused_share
from lab.scenario.shared_checks import nothing_is_lost, rate_recovers
from lab.scenario.three_acts import PhaseParameters, three_acts
from lab.scenario.traffic.workload import show_queue

CYCLE: Final = ("leaf1:swp1", "spine1:swp2", "leaf2:swp2", "spine2:swp1")
"""Each sends to the next, and the next pauses it."""
PAUSING: Final = ("spine1:swp1", "leaf2:swp1", "spine2:swp2", "leaf1:swp2")
"""The other ends of the links, which send the pauses."""
ROUTES: Final = (("leaf1", "spine1"), ("spine2", "leaf1"), ("leaf2", "spine2"))
"""The last one closes the cycle, and is removed first."""
LOCKS: Final = 1.0
"""Seconds until all four are full, with reserve: a port's 218 KB fill in 17 ms."""
SETTLING: Final = 2.0
"""Seconds: the watchdog detects a storm after 0.2 s, and a QP retransmits within 1.07 s."""


def run(stage: Stage, p: PhaseParameters) -> None:
    """Healthy, a loop, a deadlock without a loop, a watchdog, healthy."""

    def loop() -> None:
        routes = [stage.inject("static-route", switch, to="h5", via=via) for switch, via in ROUTES]
        stage.hold(LOCKS)
        stage.heal(*reversed(routes))

    def show() -> None:
        for port in CYCLE:
            show_queue(stage, port)

    with stage.writing("h1:h5", "h6:h5", qps=16):
        three_acts(
            stage, p.hold, broken=loop, show=show, healed=SETTLING,
            fix=lambda: stage.set(CYCLE[0], "pfc.watchdog.enabled=true"),
        )  # fmt: skip


def four_ports_wait_for_each_other(rec: Recording, p: PhaseParameters) -> Verdict:
    """Each is paused all the time, sends nothing and keeps its queue, and the next one sends it pauses."""
    paused = [paused_share(rec, "observe", port) for port in CYCLE]
    sent = sum(rec.port(port).tx_bytes(3).during("observe").delta() for port in CYCLE)
    queued = [set(rec.port(port).depth(3).during("observe").values.tolist()) for port in CYCLE]
    refreshed = [rec.port(port).tx_pause(3).during("observe").delta() for port in PAUSING]
    still = all(len(depths) == 1 and min(depths) > 0 for depths in queued)
    evidence = ", ".join(
        f"{port} {share:.0%} with {min(depths) / 1000:.0f} KB"
        for port, share, depths in zip(CYCLE, paused, queued, strict=True)
    )
    return expect(
        min(paused) > 0.99 and sent == 0 and still and min(refreshed) > 0,
        f"paused {evidence}; {sent} bytes sent, {sum(refreshed)} pauses",
    )


def no_host_takes_part(rec: Recording, p: PhaseParameters) -> Verdict:
    """The hosts send no pause and no packet of the class, and the deadlock remains."""
    hosts = [rec.port(port) for port in rec.ports if port.startswith("h")]
    packets = sum(port.tx_packets(3).during("observe").delta() for port in hosts)
    pauses = sum(port.tx_pause(3).during("observe").delta() for port in hosts)
    return expect(packets == pauses == 0, f"{len(hosts)} ports of hosts sent {packets} packets and {pauses} pauses")


def the_watchdog_breaks_the_cycle(rec: Recording, p: PhaseParameters) -> Verdict:
    """The watchdog of one port drops its queue, and the three others send all that they had queued."""
    opened, *others = CYCLE
    storms = rec.delta("queue3_storms", opened, "fix")
    here, all_lost = dropped(rec, "fix", ports=[opened]), dropped(rec, "fix")
    queued = {port: rec.port(port).depth(3).during("observe").last for port in others}
    sent = {port: rec.port(port).tx_bytes(3).during("fix").delta() for port in others}
    evidence = ", ".join(f"{port} sent {sent[port] / 1000:.0f} KB of {queued[port] / 1000:.0f}" for port in others)
    return expect(
        storms > 0 and here == all_lost > 0 and all(sent[port] >= queued[port] for port in others),
        f"{storms} storm detected at {opened}, {here} of {all_lost} packets dropped there; {evidence}",
    )


ANSWER: Final = StoryAnswer(
    cause="pfc-deadlock",
    where=("leaf1", "spine1", "leaf2", "spine2", "leaf1:swp1", "spine1:swp2", "leaf2:swp2", "spine2:swp1"),
    level=3,
    workload="h1 and h6 write to h5",
    hints=(
        "no write completes, and no host sends a pause",
        "all four switches: each has a port that is paused for ever",
        "rx_prio3_pause_duration and queue3_depth_bytes of leaf1:swp1, spine1:swp2, leaf2:swp2 and spine2:swp1",
        "rocelab congestion, or rocelab counters with the four ports, twice",
        "each port waits for the next, the last one for the first, and their queues do not change: a cycle",
    ),
    sign="ports of switches pause each other in a cycle, without any host (rocelab congestion)",
    because="A routing loop, now gone, filled four buffers that wait for each other: a cyclic buffer dependency.",
    fix="Let one port of the cycle drop its queue: use a PFC watchdog, or set its link down and up.",
    prevention="Use valley-free routes, which allow no cycle of buffers, and a PFC watchdog on ports of switches.",
)

SCENARIO = Scenario(
    "pfc-deadlock", "incast.yaml", PhaseParameters, run,
    (four_ports_wait_for_each_other, no_host_takes_part, nothing_is_lost("inject", "observe"),
     the_watchdog_breaks_the_cycle, rate_recovers("leaf2:swp3")), answer=ANSWER,
)  # fmt: skip
