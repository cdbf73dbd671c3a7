"""SONiC's RoCEv2 test plan, test case 3: DCQCN controls an incast of lossless and lossy classes.

Story
    Given  ranks 0 and 1 (h1, h2) write to rank 3 (h4) in queue 3
    And    rank 2 (h3) writes to it in the lossy queues 0, 1 and 2
    Then   the switch marks packets in queue 3, h4 answers them with CNPs, and pauses are few
    When   rank 1 writes in queue 4, the other lossless one
    Then   both queues mark, the receiver counts each mark, and pauses are few in both
    When   ranks 0 and 1 send packets that are marked already
    Then   all of them arrive with CE, and h4 answers them

        h1 --+
        h2 --+ leaf1 -- h4
        h3 --+

Numbers
    "SONiC RoCEv2 Test Plan" by Keysight and Microsoft, test case 3: steps 5, 7 and 9, messages of 128 KB
    pass lines: no loss, no NAK, few or no PFC (here less than 1% of the time), CE and CNPs observed; counters of the
    switch match those of the tester
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, Verdict, expect
from lab.scenario.congestion import SETTLING, DcqcnParameters
from lab.scenario.roce_test_plan import (
    LOSSLESS,
    cnps_match,
    few_or_no_pfc,
    marks_match,
    no_nak_and_no_sequence_error,
    no_packet_is_lost,
    pfc_counters_match,
)
from lab.scenario.traffic.mixed_incast import CE, RECEIVER, mixed_incast

SIZE: Final = 128 * 1024
PHASES: Final = ("single", "dual", "marked")
UNDER_WAY: Final = 4
"""Packets whose mark is counted in one phase and whose arrival in another."""


def run(stage: Stage, p: DcqcnParameters) -> None:
    """Run with one lossless class, with two, and with packets that are marked by the sender."""
    with mixed_incast(stage, 3, 3, size=SIZE):
        stage.hold(SETTLING)
        stage.measure("single", p.hold)
    with mixed_incast(stage, 3, 4, size=SIZE):
        stage.hold(SETTLING)
        stage.measure("dual", p.hold)
    with mixed_incast(stage, 3, 4, size=SIZE, ecn=CE):
        stage.hold(SETTLING)
        stage.measure("marked", p.hold)


def all_marked_packets_arrive(rec: Recording, p: DcqcnParameters) -> Verdict:
    """Packets that are sent with CE keep it: the receiver counts each of them."""
    nic = rec.port(f"{RECEIVER}:eth1")
    came = sum(nic.rx_packets(priority).during("marked").delta() for priority in LOSSLESS)
    counted = rec.delta("np_ecn_marked_roce_packets", f"{RECEIVER}:eth1", "marked")
    return expect(came > 0 and abs(came - counted) <= UNDER_WAY, f"{came} packets received, {counted} with CE")


SCENARIO = Scenario(
    "sonic-tc3", "sonic-dut.yaml", DcqcnParameters, run,
    (
        no_packet_is_lost(*PHASES), no_nak_and_no_sequence_error(*PHASES), few_or_no_pfc(*PHASES),
        pfc_counters_match(*PHASES), marks_match({"single": (3,), "dual": (3, 4)}), all_marked_packets_arrive,
        cnps_match(*PHASES),
    ),
)  # fmt: skip
