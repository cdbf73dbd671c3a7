"""A parking lot: the nearer a writer is to the receiver, the more it gets, by a factor of two at each switch.

Story
    Given  h2 writes to h1, on the same leaf
    When   h4 from another leaf, and h7 and h8 from a third leaf, also write to h1
    Then   PFC divides the link by port at each switch on the path (Zhu et al., SIGCOMM 2015, 2.2)
    And    h2 gets a half, h4 a quarter, h7 and h8 an eighth each: flows that share a port get less
    When   each writer is limited to the rate that congestion control would find
    Then   all get the same, and no port is paused

        h2 -------------------------- leaf1 -- h1
        h4 -- leaf2 ----- spine1 ----/
        h7, h8 -- leaf3 -/

Numbers
    of 100 Mb/s: 50 at leaf1's port of h2 and at the spine's; there 25 for leaf2 and for leaf3, where it is 12.5 each.
    XON is at half of XOFF. The pauses of two equal ports then fall into step, mostly one for one. Now and then, one
    port is paused twice for each pause of the other: h7 and h8 get 7/12 and 5/12 of their 25
    Jain's index of 1/2, 1/4, 1/8, 1/8 is 1 / (4 x 0.344) = 0.727. DCQCN finds 25 Mb/s for each; SoftRoCE has none, so
    their links are limited to 20, which leaves h1's link a fifth to send the queued half megabyte in 0.2 s
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated, Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words, time_of
from lab.scenario.phase_measures import dropped, jain, mbits
from lab.scenario.three_acts import PhaseParameters, three_acts
from lab.scenario.traffic.patterns import incast
from lab.scenario.traffic.workload import show_queue

SHARES: Final = {"h2": 1 / 2, "h4": 1 / 4, "h7": 1 / 8, "h8": 1 / 8}
FIRST, *OTHERS = incast(list(SHARES), "h1")
LIMIT: Final = 20
"""Mb/s of each writer."""
LEAST: Final = 0.4
"""Of what h7 and h8 get together, the least that either gets: 5/12 where their pauses are in step two to one."""
SETTLING: Final = 0.8
"""Seconds: the buffers on the path fill or drain; a port's 218 KB take 17 ms at full rate."""


class Params(PhaseParameters):
    """Longer phases, for exact rates."""

    hold: Annotated[float, time_of(1, 60)] = 3.0
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """One writer, all of them, all of them at a fair rate."""
    with stage.writing(FIRST), ExitStack() as others:

        def join() -> None:
            others.enter_context(stage.writing(*OTHERS))
            stage.hold(SETTLING)

        def limit() -> None:
            stage.set(",".join(f"{host}:eth1" for host in SHARES), f"rate={LIMIT}Mbit")

        three_acts(
            stage, p.hold, broken=join, fix=limit, healed=SETTLING, show=lambda: show_queue(stage, "leaf1:swp2")
        )


def _rates(rec: Recording, phase: str) -> dict[str, float]:
    """Return the rate of each writer in Mb/s."""
    return {host: mbits(rec, f"{host}:eth1", phase) for host in SHARES}


def half_at_every_switch(rec: Recording, p: Params) -> Verdict:
    """The writers get a half, a quarter, an eighth and an eighth of the link, and the link is full."""
    found = _rates(rec, "observe")
    total, link = sum(found.values()), _rates(rec, "baseline")["h2"]
    evidence = ", ".join(f"{host} {rate:.1f} Mb/s" for host, rate in found.items())
    leaf3 = found["h7"] + found["h8"]
    by_port = ((found["h2"], SHARES["h2"]), (found["h4"], SHARES["h4"]), (leaf3, SHARES["h7"] + SHARES["h8"]))
    right = all(abs(rate / link - share) < 0.02 for rate, share in by_port)
    even = min(found["h7"], found["h8"]) >= LEAST * leaf3
    return expect(right and even and total > 0.95 * link, f"{evidence}; together {total:.1f} of {link:.1f}")


def fairness_matches_the_shares(rec: Recording, p: Params) -> Verdict:
    """Jain's index is that of the shares."""
    found, wanted = jain(list(_rates(rec, "observe").values())), jain(list(SHARES.values()))
    return expect(abs(found - wanted) < 0.03, f"Jain's index {found:.3f}, of the shares {wanted:.3f}")


def all_writers_are_paused(rec: Recording, p: Params) -> Verdict:
    """PFC divides the link: each writer is paused, and nothing is lost."""
    paused = {host: rec.port(f"{host}:eth1").rx_pause(3).during("observe").delta() for host in SHARES}
    lost = dropped(rec, "observe", "verify")
    return expect(lost == 0 < min(paused.values()), f"pauses: {in_words(paused)}; {lost} packets dropped")


def fair_rates_need_no_pause(rec: Recording, p: Params) -> Verdict:
    """Limited to fair rates, all writers get the same, and no port is paused."""
    found = _rates(rec, "verify")
    paused = sum(rec.port(port).rx_pause(3).during("verify").delta() for port in rec.ports)
    evidence = ", ".join(f"{host} {rate:.1f} Mb/s" for host, rate in found.items())
    index = jain(list(found.values()))
    return expect(index > 0.999 and paused == 0, f"{evidence}: Jain's index {index:.3f}; {paused} pauses")


ANSWER: Final = StoryAnswer(
    cause="parking-lot",
    where=("leaf1", "h1", "leaf1:swp2"),
    level=3,
    workload="h2, h4, h7 and h8 write to h1",
    hints=(
        "four writers to one receiver get very different shares of its link",
        "h1's link is full, and leaf1 divides it among its input ports, not among writers",
        "tx_prio3_bytes of h2, h4, h7 and h8; tx_prio3_pause of the ports of leaf1, spine1 and leaf3",
        "rocelab counters --watch h2 h4 h7 h8, and rocelab congestion",
        "a half, a quarter and two eighths: at every switch PFC halves the rate of flows behind one port",
    ),
    sign="writers to one receiver get a half, a quarter and eighths of its link, by distance (rocelab counters)",
    because="PFC divides by port at each switch. The nearest writer gets a half; those that share ports get less.",
    fix="Limit each writer to its fair share, as congestion control would: 25 Mb/s.",
    prevention="Use ECN and DCQCN before PFC, so that flows share a link; monitor Jain's index of a job's flows.",
)

SCENARIO = Scenario(
    "parking-lot", "one-spine.yaml", Params, run,
    (half_at_every_switch, fairness_matches_the_shares, all_writers_are_paused, fair_rates_need_no_pause),
    answer=ANSWER,
)  # fmt: skip
