"""A parking lot: the nearer a writer is to the receiver, the more it gets, by half at every switch.

Story
    Given  h2, h4, h7 and h8 write to h1, from the same leaf, from another, and two from a third
    When   PFC divides the link: by port, at each switch on the way (Zhu et al., SIGCOMM 2015, 2.2)
    Then   h2 gets a half, h4 a quarter, h7 and h8 an eighth each: nobody is fair to flows that share a port
    When   each writer is held to what a congestion control would find for it
    Then   all get the same, and nobody is paused

        h2 -------------------------- leaf1 -- h1
        h4 -- leaf2 ----- spine1 ----/
        h7, h8 -- leaf3 -/

Numbers
    of 100 Mb/s: 50 at leaf1's port of h2 and at the spine's; there 25 for leaf2 and for leaf3, where it is 12.5 each
    Jain's index of 1/2, 1/4, 1/8, 1/8 is 1 / (4 x 0.344) = 0.727. DCQCN finds 25 Mb/s for each; SoftRoCE has none, so
    their links are set to 20, which leaves h1's link a fifth to send what had waited: half a megabyte in 0.2 s
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.traffic.workload import show_queue

SHARES: Final = {"h2": 1 / 2, "h4": 1 / 4, "h7": 1 / 8, "h8": 1 / 8}
HELD_TO: Final = 20
"""Mb/s."""
SETTLING: Final = 0.8
"""Seconds: the buffers on the way fill, or what waits in them is sent; a port of 218 KB takes 17 ms at full rate."""


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 60)] = 3.0
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """One alone, all of them, all of them at a fair rate."""
    with stage.writing("h2:h1"), stage.phase("baseline"):
        stage.hold(1)
    with stage.writing(*(f"{host}:h1" for host in SHARES)):
        stage.hold(SETTLING)
        with stage.phase("observe"):
            stage.hold(p.hold)
        show_queue(stage, "leaf1:swp2")
        stage.linger()
        with stage.phase("fix"):
            stage.set(",".join(f"{host}:eth1" for host in SHARES), f"rate={HELD_TO}Mbit")
            stage.hold(SETTLING)
        with stage.phase("verify"):
            stage.hold(p.hold)


def rates(rec: Recording, phase: str) -> dict[str, float]:
    """What each writer sends, in Mb/s."""
    return {host: rec.port(f"{host}:eth1").tx_bytes(3).during(phase).rate() * 8 / 1e6 for host in SHARES}


def jain(values: list[float]) -> float:
    """Jain's index: 1 where all are alike, 1/n where one has all."""
    return sum(values) ** 2 / (len(values) * sum(value**2 for value in values)) if any(values) else 0.0


def half_at_every_switch(rec: Recording, p: Params) -> Verdict:
    """A half, a quarter, an eighth and an eighth of the link, and of no link that is idle."""
    found = rates(rec, "observe")
    total, link = sum(found.values()), rates(rec, "baseline")["h2"]
    told = ", ".join(f"{host} {rate:.1f} Mb/s" for host, rate in found.items())
    right = all(abs(found[host] / link - share) < 0.02 for host, share in SHARES.items())
    return expect(right and total > 0.95 * link, f"{told}; together {total:.1f} of {link:.1f}")


def it_is_as_unfair_as_that(rec: Recording, p: Params) -> Verdict:
    """Jain's index is that of the shares."""
    found, wanted = jain(list(rates(rec, "observe").values())), jain(list(SHARES.values()))
    return expect(abs(found - wanted) < 0.03, f"Jain's index {found:.3f}, of the shares {wanted:.3f}")


def everyone_is_paused(rec: Recording, p: Params) -> Verdict:
    """It is PFC that divides: each writer is stopped, and nothing is lost."""
    paused = {host: rec.port(f"{host}:eth1").rx_pause(3).during("observe").delta() for host in SHARES}
    lost = sum(rec.port(port).drops(3).during(phase).delta() for port in rec.ports for phase in ("observe", "verify"))
    told = ", ".join(f"{host} {count}" for host, count in paused.items())
    return expect(lost == 0 < min(paused.values()), f"pauses: {told}; {lost} packets dropped")


def rates_that_fit_are_fair(rec: Recording, p: Params) -> Verdict:
    """Held to a quarter each, all get the same, and nobody is paused any more."""
    found = rates(rec, "verify")
    paused = sum(rec.port(port).rx_pause(3).during("verify").delta() for port in rec.ports)
    told = ", ".join(f"{host} {rate:.1f} Mb/s" for host, rate in found.items())
    index = jain(list(found.values()))
    return expect(index > 0.999 and paused == 0, f"{told}: Jain's index {index:.3f}; {paused} pauses")


ANSWER: Final = StoryAnswer(
    cause="parking-lot",
    where=("leaf1", "h1", "leaf1:swp2"),
    level=3,
    workload="h2, h4, h7 and h8 write to h1",
    hints=(
        "four writers to one receiver get very different shares of its link",
        "h1's link is full, and leaf1 divides it among the ports that it comes in by, not among writers",
        "tx_prio3_bytes of h2, h4, h7 and h8; tx_prio3_pause of leaf1's, spine1's and leaf3's ports",
        "rocelab counters --watch h2 h4 h7 h8, and rocelab congestion",
        "a half, a quarter and two eighths: at every switch PFC halves what comes from behind one port",
    ),
    sign=(
        "writers to one receiver get a half, a quarter and eighths of its link, by how far away they are "
        "(rocelab counters)"
    ),
    because=(
        "PFC divides by port at each switch on the way: the nearest writer gets a half, those that share "
        "ports a part of one."
    ),
    fix="Hold each writer to its fair share, as a congestion control would: 25 Mb/s.",
    prevention=(
        "ECN and DCQCN before PFC, so that flows and not ports share a link; watch Jain's index of a job's flows."
    ),
)

SCENARIO = Scenario(
    "parking-lot", "one-spine.yaml", Params, run,
    (half_at_every_switch, it_is_as_unfair_as_that, everyone_is_paused, rates_that_fit_are_fair),
    answer=ANSWER,
)  # fmt: skip
