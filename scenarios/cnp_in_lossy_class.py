"""CNPs in the class of bulk traffic: they wait behind it, and senders slow down too late.

Story
    Given  h5, h6 and h7 write to h4 and slow down on its CNPs, and h1 and h2 send bulk traffic to h8 by TCP
    When   h4's NIC sends its CNPs with DSCP 40, for which no switch has a class: they become best effort
    Then   they wait in the queue of the bulk traffic at leaf1's uplink, for a multiple of the time between two CNPs
    And    they arrive a tenth of a second late: each sender obeys CNPs about a queue that is long gone
    When   the CNPs have DSCP 48 again
    Then   they pass the bulk traffic, and arrive within a millisecond

        h5, h6, h7 -- leaf2 -- spine1 -- leaf1 -- h4     data with CE marks
                                <------   |              CNPs, and bulk traffic of h1 and h2

Numbers
    links between switches have 20 Mb/s. TCP keeps about 300 KB in its queue there: a CNP behind them waits for
    0.12 s, and h4 sends a QP a CNP each 20 ms. The time that CNPs take is the mean number under way, divided by those
    sent in a second (Little's law): a row of counters shows it, and no packet has to be captured
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.congestion import DcqcnParameters, cnps
from lab.scenario.phase_measures import ACTS, growth, listed
from lab.scenario.shared_checks import nothing_is_lost
from lab.scenario.three_acts import fault, three_acts
from lab.scenario.traffic.background_traffic import streaming
from lab.scenario.traffic.workload import show_queue

SENDERS: Final = ("h5", "h6", "h7")
RECEIVER: Final = "h4"
BULK: Final = ("h1:h8", "h2:h8")
TRUNKS: Final = "leaf1:swp1,leaf2:swp1,spine1:swp1,spine1:swp2"
RATE: Final = 20
"""Mb/s of the links between switches."""
SHARED: Final = "leaf1:swp1"
"""The port where bulk traffic waits, and CNPs with it."""
FIRST: Final = "leaf1:swp5"
"""The switch port at which the receiver's CNPs arrive."""
UNDER_WAY: Final = 2
"""CNPs that may be under way when a phase begins or ends."""
INTERVAL: Final = 0.02
"""Seconds between two CNPs to a QP."""
SETTLING: Final = 4.0
"""Seconds until TCP fills its queue, and rates are at their level."""
SOON: Final = INTERVAL / 2
"""CNPs in their own class arrive within this time, in seconds."""
LATE: Final = 2 * INTERVAL
"""Behind bulk traffic they take longer than this."""


def run(stage: Stage, p: DcqcnParameters) -> None:
    """CNPs in their own class, among best effort, in their own class."""
    stage.set(TRUNKS, f"rate={RATE}Mbit")
    with stage.writing(*(f"{sender}:{RECEIVER}" for sender in SENDERS), qps=4), streaming(stage, *BULK):
        stage.hold(SETTLING)
        three_acts(
            stage, p.hold, fault("port-config", RECEIVER, set="nic.cc.cnp_dscp=40 map.dscp.40=5"),
            broken=SETTLING, healed=SETTLING, show=lambda: show_queue(stage, SHARED),
        )  # fmt: skip


def cnps_are_best_effort(rec: Recording, p: DcqcnParameters) -> Verdict:
    """The leaf receives CNPs in priority 6, and in priority 0 with the fault."""
    sent = cnps(rec, "np_cnp_sent", RECEIVER)
    own, bulk = (growth(rec, FIRST, f"rx_prio{priority}_packets") for priority in (6, 0))
    right = min(sent) > UNDER_WAY and all(own[act] >= sent[act] - UNDER_WAY for act in (0, 2))
    evidence = f"CNPs sent {listed(sent)}; received in priority 6 {listed(own)}; in priority 0 {listed(bulk)}"
    return expect(right and own[1] <= UNDER_WAY and bulk[1] >= sent[1] - UNDER_WAY, evidence)


def they_wait_behind_bulk_traffic(rec: Recording, p: DcqcnParameters) -> Verdict:
    """The queue of best effort is longer than the time between two CNPs."""
    depth = rec.port(SHARED).depth(0).during("observe").values
    waited = float(depth.mean()) * 8 / (RATE * 1e6) if len(depth) else 0.0
    return expect(waited > LATE, f"{waited * 1000:.0f} ms of queue on average at {SHARED}")


def cnps_arrive_late(rec: Recording, p: DcqcnParameters) -> Verdict:
    """CNPs take a multiple of the time between two of them with the fault, and much less without it."""
    before, during, after = delays = [_delay(rec, act) for act in ACTS]
    evidence = f"mean time of a CNP: {listed([f'{delay * 1000:.1f} ms' for delay in delays])}"
    return expect(
        during > LATE and max(before, after) < SOON and min(cnps(rec, "np_cnp_sent", RECEIVER)) > 0, evidence
    )


def _delay(rec: Recording, act: str) -> float:
    """Return the mean seconds from a CNP's sender to its receiver, by Little's law; 0 if none was sent."""
    sent, *handled = (
        rec.port(f"{host}:eth1").counter(counter).during(act)
        for host, counter in ((RECEIVER, "np_cnp_sent"), *((sender, "rp_cnp_handled") for sender in SENDERS))
    )
    under_way = sent.values.astype(float) - sum(each.values.astype(float) for each in handled)
    if not sent.delta():
        return 0.0
    return float((under_way - under_way.min()).mean()) * rec.phase(act).seconds / sent.delta()


ANSWER: Final = StoryAnswer(
    cause="cnp-in-lossy-class",
    where=("h4", "h4:eth1"),
    level=3,
    workload="h5, h6 and h7 write to h4; h1 and h2 send bulk traffic by TCP to h8",
    hints=(
        "leaf2 marks packets to h4 and pauses the senders, although all NICs have DCQCN",
        "h4 sends CNPs, and they arrive, but late: follow them back to h5, h6 and h7",
        "np_cnp_sent of h4; rx_prio6_packets and rx_prio0_packets of leaf1:swp5; queue0_depth_bytes of leaf1:swp1",
        "rocelab qos show h4, beside h1",
        "h4 sends CNPs with DSCP 40, which no switch knows: they wait behind the bulk traffic in priority 0",
    ),
    sign="a NIC's CNPs reach its leaf in priority 0, whose queues are full (rx_prio0_packets, rx_prio6_packets)",
    because="h4's CNPs have DSCP 40, which switches map to best effort. There they wait behind TCP, or are dropped.",
    fix="Send CNPs in their own class: rocelab qos set h4 nic.cc.cnp_dscp=48.",
    prevention="Compare each NIC's cnp_dscp with the fabric's map, and count CNPs by class on each leaf.",
)

SCENARIO = Scenario(
    "cnp-in-lossy-class", "dcqcn.yaml", DcqcnParameters, run,
    (cnps_are_best_effort, they_wait_behind_bulk_traffic, cnps_arrive_late, nothing_is_lost(*ACTS)),
    answer=ANSWER,
)  # fmt: skip
