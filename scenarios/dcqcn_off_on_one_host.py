"""A greedy neighbour: one host's NIC ignores CNPs, and takes the link from those that obey.

Story
    Given  hosts with DCQCN: h1, h2 and h3 write to h4, and share its link
    When   h3's NIC is no reaction point any longer: it sends at line rate, whatever CNPs say
    Then   h1 and h2 slow down with each CNP, and h3 gets most of the link
    And    nothing is lost, and no counter of a switch is wrong
    When   h3 obeys again
    Then   h1 and h2 get back what h3 took

        h1 --+
        h2 --+ leaf1 -- h4
        h3 --+                  h3's NIC: nic.cc.rp=false

Numbers
    h3 alone fills the link of 100 Mb/s. The queue stays above Kmin, so CNPs go on, and each halves the rates of h1
    and h2 while their alpha is 1, down to a minimum of 250 kb/s for each of their four QPs: 2 Mb/s for both
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.congestion import SETTLING, cnps, shares
from lab.scenario.phase_measures import ACTS, jain, listed
from lab.scenario.shared_checks import nothing_is_lost
from lab.scenario.three_acts import PhaseParameters, fault, three_acts

OBEDIENT: Final = ("h1", "h2")
GREEDY: Final = "h3"
SENDERS: Final = (*OBEDIENT, GREEDY)
RECEIVER: Final = "h4"
FAIR: Final = 0.8
"""The least Jain's index of three hosts that all obey: their rates swing, and a phase is a few swings."""
MOST: Final = 0.75
"""The greedy host's least share of what all three send."""


def run(stage: Stage, p: PhaseParameters) -> None:
    """Fair, greedy, fair."""
    with stage.writing(*(f"{sender}:{RECEIVER}" for sender in SENDERS), qps=4):
        stage.hold(SETTLING)
        three_acts(
            stage, p.hold, fault("port-config", GREEDY, set="nic.cc.rp=false"), broken=SETTLING, healed=2 * SETTLING,
        )  # fmt: skip


def the_greedy_host_takes_the_link(rec: Recording, p: PhaseParameters) -> Verdict:
    """The greedy host sends most of all packets, and a fair share before and after."""
    before, during, after = found = [shares(rec, act, *SENDERS)[GREEDY] for act in ACTS]
    evidence = f"{GREEDY}'s share: {listed([f'{share:.0%}' for share in found])}"
    return expect(during > MOST and max(before, after) < 1 - MOST + 1 / 3, evidence)


def those_that_obey_are_alike(rec: Recording, p: PhaseParameters) -> Verdict:
    """Without a greedy host, the three get about the same (Jain's index of their shares)."""
    before, _, after = (jain(list(shares(rec, act, *SENDERS).values())) for act in ACTS)
    return expect(min(before, after) > FAIR, f"Jain's index {before:.3f} before, {after:.3f} after")


def cnps_are_ignored_by_one(rec: Recording, p: PhaseParameters) -> Verdict:
    """All senders receive CNPs; the greedy one handles none of its own, the others do."""
    ignored, handled = (cnps(rec, counter, GREEDY)[1] for counter in ("rp_cnp_ignored", "rp_cnp_handled"))
    others = cnps(rec, "rp_cnp_handled", *OBEDIENT)[1]
    evidence = f"{GREEDY} ignored {ignored} and handled {handled}; h1 and h2 handled {others}"
    return expect(ignored > 0 == handled and others > 0, evidence)


ANSWER: Final = StoryAnswer(
    cause="dcqcn-off-on-one-host",
    where=("h3", "h3:eth1"),
    level=2,
    workload="h1, h2 and h3 write to h4",
    hints=(
        "three hosts write to one, and one of them gets nearly all of its link",
        "the senders: their NICs receive CNPs, and should slow down",
        "rp_cnp_handled and rp_cnp_ignored of h1, h2 and h3",
        "rocelab qos show h3, beside h1; rocelab rdma show lists the QPs that are limited",
        "h3 ignores its CNPs: its NIC is no reaction point",
    ),
    sign="one NIC ignores CNPs, and the other senders slow down (rp_cnp_ignored)",
    because="h3's NIC does not react to CNPs. It keeps the queue above Kmin, and so h1 and h2 slow down, not h3.",
    fix="Turn its reaction point on: rocelab qos set h3 nic.cc.rp=true.",
    prevention="Check each NIC's roce_rp on delivery; alarm where rp_cnp_ignored grows.",
)

SCENARIO = Scenario(
    "dcqcn-off-on-one-host", "dcqcn.yaml", PhaseParameters, run,
    (the_greedy_host_takes_the_link, those_that_obey_are_alike, cnps_are_ignored_by_one, nothing_is_lost(*ACTS)),
    answer=ANSWER,
)  # fmt: skip
