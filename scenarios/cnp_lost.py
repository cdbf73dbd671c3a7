"""A switch drops CNPs: congestion is marked and reported, and no sender slows down.

Story
    Given  hosts with DCQCN: h1, h2 and h3 write to h4
    Then   leaf1 marks, h4 sends CNPs, the senders slow down, and leaf1 rarely has to pause them
    When   a filter on leaf1 drops packets with DSCP 48, the class of CNPs
    Then   h4 sends CNPs as before, and no sender receives one
    And    the senders speed up until leaf1 pauses them: PFC has become the congestion control
    When   the filter is removed
    Then   CNPs arrive again, and the pauses are as rare as before

        h1 --+
        h2 --+ leaf1 ----- h4       data with CE marks
        h3 --+   x <------          CNPs, DSCP 48

Numbers
    the registers are those of the paper for 40 Gb/s, 400 times as slow
    h4 sends a QP at most one CNP in 20 ms: 50 a second
    without CNPs, a QP is back at its target after five steps of 22 ms; then the target grows by 100 kb/s a step
"""

from __future__ import annotations

import re
from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, unknown
from lab.scenario.congestion import SETTLING, cnps, pfc_takes_over
from lab.scenario.phase_measures import dropped, listed
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.workload import said

SENDERS: Final = ("h1", "h2", "h3")
INPUTS: Final = ("leaf1:swp2", "leaf1:swp3", "leaf1:swp4")
RECEIVER: Final = "h4"
UNDER_WAY: Final = 2
"""CNPs that may be under way when a phase begins or ends."""


def run(stage: Stage, p: PhaseParameters) -> None:
    """Arriving, lost, arriving."""

    def show() -> None:
        stage.run("leaf1", "nft", "list", "ruleset")

    with stage.writing(*(f"{sender}:{RECEIVER}" for sender in SENDERS), qps=4):
        stage.hold(SETTLING)
        three_acts(
            stage, p.hold, fault("udp-filtered", "leaf1", dscp=48), broken=SETTLING, healed=SETTLING,
            look=lambda act: show() if act == "observe" else None,
        )  # fmt: skip


def cnps_do_not_arrive(rec: Recording, p: PhaseParameters) -> Verdict:
    """The receiver sends CNPs in every phase; the senders receive all of them, and none with the filter."""
    sent, received = cnps(rec, "np_cnp_sent", RECEIVER), cnps(rec, "rp_cnp_handled", *SENDERS)
    arrive = all(abs(sent[act] - received[act]) <= UNDER_WAY for act in (0, 2))
    evidence = f"sent {listed(sent)}; received {listed(received)}"
    return expect(min(sent) > UNDER_WAY and arrive and received[1] == 0, evidence)


def only_the_filter_counts_drops(rec: Recording, p: PhaseParameters) -> Verdict:
    """The filter counts the dropped CNPs, and no port drops a packet."""
    hits = sum(map(int, re.findall(r"counter packets (\d+)", said(rec, "observe", "nft"))))
    sent = cnps(rec, "np_cnp_sent", RECEIVER)[1]
    lost = dropped(rec, "observe", priority=None)
    if not sent:
        return unknown("no CNP was sent")
    return expect(hits >= sent - UNDER_WAY and lost == 0, f"{hits} packets dropped by the filter, {lost} by ports")


ANSWER: Final = StoryAnswer(
    cause="cnp-lost",
    where=("leaf1",),
    level=2,
    workload="h1, h2 and h3 write to h4",
    hints=(
        "leaf1 pauses the senders again and again, although their NICs have DCQCN",
        "packets arrive at h4 with CE marks, and h4 answers them: follow the answers",
        "np_cnp_sent of h4, and rp_cnp_handled of h1, h2 and h3",
        "rocelab congestion, and rocelab exec leaf1 -- nft list ruleset",
        "CNPs come to leaf1 and do not leave it: a rule drops DSCP 48",
    ),
    sign="a NIC sends CNPs that no sender receives (np_cnp_sent, rp_cnp_handled)",
    because="A filter on leaf1 drops DSCP 48. The senders get no CNPs, so that only PFC slows them down.",
    fix="Remove the rule: CNPs need a class that no filter, policer or full queue drops.",
    prevention="Compare the np_cnp_sent of all NICs with their rp_cnp_handled; test DSCP 48 with each filter.",
)

SCENARIO = Scenario(
    "cnp-lost", "dcqcn.yaml", PhaseParameters, run,
    (cnps_do_not_arrive, pfc_takes_over(*INPUTS), only_the_filter_counts_drops), answer=ANSWER,
)  # fmt: skip
