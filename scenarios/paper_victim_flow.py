"""A published result: DCQCN protects the victim flow of PFC (SIGCOMM 2015).

Story
    Given  hosts with DCQCN: h8 writes to h2, and h5, h6 and h7 on h8's leaf write to h4, each with 4 QPs
    When   no NIC obeys CNPs, so that PFC is the only flow control
    Then   h8 gets a quarter of its leaf's uplink, as its three neighbours do
    And    h8 gets a third less once h1 on h4's leaf also writes to h4, although h1 shares no link with it
    Then   h8 gets less than half of it once h3 on h4's leaf has joined as well
    When   all NICs have DCQCN
    Then   h8 gets nearly as much as before they came

        h5, h6, h7 -- leaf2 ==== spine1 ==== leaf1 -- h4     <- the bottleneck
                h8 --/                       |    +-- h2     <- idle
                                             h1, h3 join

Numbers
    Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015, section 2.2 and figure 4: with PFC
    the victim loses rate with each sender that joins elsewhere, down to 4.5 Gb/s with two; section 6.1: with DCQCN it
    keeps its rate. There two uplinks are shared by five senders, here one by four. Ports that share h4's link equally
    leave the victim 25, 16.7 and 11.1 Mb/s
    pass lines, by that arithmetic: with PFC alone one sender leaves 2/3 +-0.1 and two 4/9 +-0.1 of the victim's rate
    chosen here: with DCQCN and two senders the victim has over 80% of what it has with DCQCN and none, and over 1.4
    times as much as with PFC alone; a tenth of the pauses; no loss
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, Verdict, expect
from lab.scenario.congestion import CONVERGING, QPS, SETTLING, DcqcnParameters, ignore_cnps, obey_cnps
from lab.scenario.phase_measures import mbits
from lab.scenario.shared_checks import nothing_is_lost

VICTIM: Final = "h8:eth1"
WRITERS: Final = ("h8:h2", "h5:h4", "h6:h4", "h7:h4")
FIRST: Final = "h1:h4"
SECOND: Final = "h3:h4"
LEFT: Final = {"one": 2 / 3, "observe": 4 / 9}
"""The part of the victim's rate that each further sender leaves with PFC alone: ports share h4's link equally."""
TOLERANCE: Final = 0.1
KEPT: Final = 0.8
"""With DCQCN, the least part of its rate that the victim keeps beside both senders."""
GAIN: Final = 1.4
"""The least ratio of the victim's rates with DCQCN and with PFC alone."""


def run(stage: Stage, p: DcqcnParameters) -> None:
    """Run with DCQCN, with PFC alone beside zero, one and two further senders, and with DCQCN beside two."""
    with ExitStack() as writers:
        writers.enter_context(stage.writing(*WRITERS, qps=QPS))
        stage.hold(CONVERGING)
        stage.measure("baseline", p.hold)
        with stage.phase("inject"):
            ignore_cnps(stage)
        stage.measure("alone", p.hold)
        writers.enter_context(stage.writing(FIRST, qps=QPS))
        stage.hold(SETTLING)
        stage.measure("one", p.hold)
        writers.enter_context(stage.writing(SECOND, qps=QPS))
        stage.hold(SETTLING)
        stage.measure("observe", p.hold)
        with stage.phase("fix"):
            obey_cnps(stage)
        stage.measure("verify", p.hold)


def pfc_alone_slows_the_victim(rec: Recording, p: DcqcnParameters) -> Verdict:
    """With PFC alone the victim gets less with each sender that joins elsewhere."""
    alone = mbits(rec, VICTIM, "alone")
    found = {phase: mbits(rec, VICTIM, phase) for phase in LEFT}
    right = all(abs(found[phase] - part * alone) < TOLERANCE * alone for phase, part in LEFT.items())
    return expect(right, f"{alone:.1f} Mb/s with no sender elsewhere, {found['one']:.1f} and {found['observe']:.1f}")


def dcqcn_protects_the_victim(rec: Recording, p: DcqcnParameters) -> Verdict:
    """With DCQCN the victim keeps its rate beside both senders."""
    before, worst, cured = (mbits(rec, VICTIM, phase) for phase in ("baseline", "observe", "verify"))
    evidence = f"{before:.1f} Mb/s without them and {cured:.1f} beside them; {worst:.1f} with PFC alone"
    return expect(cured > KEPT * before > 0 and cured > GAIN * worst, evidence)


def the_victim_is_not_paused(rec: Recording, p: DcqcnParameters) -> Verdict:
    """With DCQCN the victim is paused at most a tenth as often as with PFC alone."""
    alone, cured = (rec.port(VICTIM).rx_pause(3).during(phase).delta() for phase in ("observe", "verify"))
    return expect(alone >= 10 and cured * 10 <= alone, f"{alone} pauses with PFC alone, {cured} with DCQCN")


SCENARIO = Scenario(
    "paper-victim-flow", "dcqcn.yaml", DcqcnParameters, run,
    (
        pfc_alone_slows_the_victim, dcqcn_protects_the_victim, the_victim_is_not_paused,
        nothing_is_lost("alone", "one", "observe", "verify"),
    ),
)  # fmt: skip
