"""A published result: DCQCN reduces the PFC frames of an incast by orders of magnitude (SIGCOMM 2015).

Story
    Given  hosts with DCQCN: seven of them write to h4 with 4 QPs, three from its own leaf and four across the spine
    When   no NIC obeys CNPs, so that PFC is the only flow control
    Then   leaf1 pauses its hosts and the spine, and the spine pauses leaf2
    When   all NICs have DCQCN
    Then   PFC frames fall by orders of magnitude, and the link carries as much

        h1, h2, h3 -------------- leaf1 -- h4
        h5, h6, h7, h8 -- leaf2 -- spine1 -/

Numbers
    Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015, section 6.2: with an incast beside
    user traffic, the spines receive more than six million PAUSE frames in two minutes, and some 300 with DCQCN
    pass lines, two orders of magnitude for the paper's four: a hundredth of the PFC frames, at the spine and in all
    chosen here: 90% of the link's rate; no loss
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Recording, Scenario, Stage, Verdict, expect, time_of
from lab.scenario.congestion import compare_with_pfc_alone, fewer_pauses
from lab.scenario.phase_measures import ACTS, LOSSLESS, mbits
from lab.scenario.shared_checks import nothing_is_lost
from lab.scenario.three_acts import PhaseParameters
from lab.scenario.traffic.patterns import incast

RECEIVER: Final = "h4"
SENDERS: Final = ("h1", "h2", "h3", "h5", "h6", "h7", "h8")
QUEUE: Final = "leaf1:swp5"
SPINE: Final = ("spine1:swp1", "spine1:swp2")
ORDERS: Final = 100
"""PFC frames fall at least by this factor: two orders of magnitude."""
LEAST: Final = 0.9
"""With DCQCN the link carries at least so much of what it carries with PFC alone."""


class Params(PhaseParameters):
    """Longer phases: with PFC alone, the spine receives some 27 frames a second, and twice ``ORDERS`` are wanted."""

    hold: Annotated[float, time_of(1, 60)] = 8.0
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """With DCQCN, with PFC alone, with DCQCN."""
    compare_with_pfc_alone(stage, *incast(SENDERS, RECEIVER), hold=p.hold, queue=QUEUE)


def the_spine_is_left_alone(rec: Recording, p: Params) -> Verdict:
    """The spine receives a hundredth of the PFC frames."""
    alone, cured = (
        sum(rec.port(port).rx_pause(LOSSLESS).during(phase).delta() for port in SPINE) for phase in ACTS[1:]
    )
    evidence = f"{alone} PFC frames received by the spine with PFC alone, {cured} with DCQCN"
    return expect(alone >= ORDERS and cured * ORDERS <= alone, evidence)


def the_link_stays_full(rec: Recording, p: Params) -> Verdict:
    """The link carries as much as with PFC alone."""
    alone, cured = (mbits(rec, QUEUE, phase) for phase in ACTS[1:])
    return expect(cured > LEAST * alone > 0, f"{alone:.1f} Mb/s with PFC alone, {cured:.1f} with DCQCN")


SCENARIO = Scenario(
    "paper-incast", "dcqcn.yaml", Params, run,
    (the_spine_is_left_alone, fewer_pauses(ORDERS), the_link_stays_full, nothing_is_lost("observe", "verify")),
)  # fmt: skip
