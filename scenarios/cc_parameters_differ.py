"""One NIC has other registers: it obeys CNPs, but recovers much faster, and takes the share of the others.

Story
    Given  hosts with DCQCN and the same registers: h1, h2 and h3 write to h4, and share its link
    When   h3's NIC has other registers: it raises its rates five times as often, by five times as much
    Then   h1, h2 and h3 receive CNPs and slow down, and h3 is back long before h1 and h2 are
    And    h3 gets most of the link, and nothing is lost
    When   h3 has the registers of the others again
    Then   h1 and h2 get back what h3 took

        h1 --+
        h2 --+ leaf1 -- h4
        h3 --+                  h3's NIC: rpg_time_reset 11 us and not 55, rpg_ai_rate 200 Mb/s and not 40

Numbers
    at 100 Mb/s times are 400 times as long, and rates as much smaller. Fast recovery takes five steps: 110 ms for h1
    and h2, 22 ms for h3. After that h1 and h2 gain 4.5 Mb/s in a second with each QP, and h3 gains 114
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words
from lab.scenario.congestion import SETTLING, cnps, shares
from lab.scenario.phase_measures import ACTS, jain, listed
from lab.scenario.shared_checks import nothing_is_lost
from lab.scenario.three_acts import PhaseParameters, fault, three_acts

OTHERS: Final = ("h1", "h2")
FAST: Final = "h3"
SENDERS: Final = (*OTHERS, FAST)
RECEIVER: Final = "h4"
REGISTERS: Final = "nic.cc.rpg_time_reset=11us nic.cc.rpg_ai_rate=200Mbit nic.cc.rpg_hai_rate=1Gbit"
FAIR: Final = 0.8
"""The least Jain's index of three hosts with the same registers: their rates swing, and a phase is a few swings."""
MOST: Final = 0.6
"""The least share of the host with other registers."""


def run(stage: Stage, p: PhaseParameters) -> None:
    """The same registers, others at one host, the same."""
    with stage.writing(*(f"{sender}:{RECEIVER}" for sender in SENDERS), qps=4):
        stage.hold(SETTLING)
        three_acts(
            stage, p.hold, fault("port-config", FAST, set=REGISTERS), broken=SETTLING, healed=2 * SETTLING,
        )  # fmt: skip


def the_fast_one_takes_the_link(rec: Recording, p: PhaseParameters) -> Verdict:
    """The host with other registers sends most of all packets, and a fair share before and after."""
    before, during, after = found = [shares(rec, act, *SENDERS)[FAST] for act in ACTS]
    evidence = f"{FAST}'s share: {listed([f'{share:.0%}' for share in found])}"
    return expect(during > MOST and max(before, after) < MOST, evidence)


def equal_registers_are_fair(rec: Recording, p: PhaseParameters) -> Verdict:
    """With the same registers, the three get about the same (Jain's index of their shares)."""
    before, _, after = (jain(list(shares(rec, act, *SENDERS).values())) for act in ACTS)
    return expect(min(before, after) > FAIR, f"Jain's index {before:.3f} before, {after:.3f} after")


def all_obey_cnps(rec: Recording, p: PhaseParameters) -> Verdict:
    """Every sender slows down on CNPs in every phase, and none ignores them."""
    handled = {host: cnps(rec, "rp_cnp_handled", host) for host in SENDERS}
    ignored = sum(cnps(rec, "rp_cnp_ignored", *SENDERS))
    evidence = f"CNPs handled in observe: {in_words({host: counts[1] for host, counts in handled.items()})}"
    return expect(all(map(min, handled.values())) and ignored == 0, f"{evidence}; {ignored} ignored")


ANSWER: Final = StoryAnswer(
    cause="cc-parameters-differ",
    where=("h3", "h3:eth1"),
    level=3,
    workload="h1, h2 and h3 write to h4",
    hints=(
        "three hosts write to one, and one of them gets most of its link",
        "the senders' NICs: all receive CNPs and obey them, so compare how they recover",
        "tx_prio3_bytes of h1, h2 and h3, beside their rp_cnp_handled",
        "rocelab qos show h3, beside h1",
        "h3's rpg_time_reset and rpg_ai_rate differ: after a cut it is back long before the others",
    ),
    sign="one of several NICs that obey CNPs sends several times as much (rocelab qos show, rpg_time_reset)",
    because="h3's NIC recovers from each cut faster than the others, and so fills the room that they left.",
    fix="Give all NICs the same registers: rocelab qos set h3 nic.cc.preset=paper.",
    prevention="Keep the NICs' registers in configuration management, and compare them after each firmware update.",
)

SCENARIO = Scenario(
    "cc-parameters-differ", "dcqcn.yaml", PhaseParameters, run,
    (the_fast_one_takes_the_link, equal_registers_are_fair, all_obey_cnps, nothing_is_lost(*ACTS)), answer=ANSWER,
)  # fmt: skip
