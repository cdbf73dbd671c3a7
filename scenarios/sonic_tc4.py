"""SONiC's RoCEv2 test plan, test case 4: storage traffic with PFC alone, and with DCQCN.

Story
    Given  the NICs have no reaction point; ranks 0 and 1 (h1, h2) write to rank 3 (h4) in queue 3
    Then   the switch marks and pauses them, h4 sends CNPs, and nothing is lost
    When   the NICs react to CNPs
    Then   pauses are few
    When   ranks 0 and 1 write in queues 3 and 4, and the NICs have no reaction point
    Then   the switch marks and pauses both classes
    When   the NICs react to CNPs in both classes
    Then   pauses are few in both

        h1 --+
        h2 --+ leaf1 -- h4
        h3 --+                   rank 2 (h3) writes in the lossy queues 0, 1 and 2

Numbers
    "SONiC RoCEv2 Test Plan" by Keysight and Microsoft, test case 4: steps 5, 7, 9 and 11, messages of 1 MB
    pass lines: no loss, no NAK; CE and CNPs observed, and PFC without DCQCN; few or no PFC with it (here less than 1%
    of the time); counters of the switch match those of the tester
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Scenario, Stage
from lab.scenario.congestion import SETTLING, DcqcnParameters
from lab.scenario.roce_test_plan import (
    cnps_match,
    few_or_no_pfc,
    marks_match,
    no_nak_and_no_sequence_error,
    no_packet_is_lost,
    pfc_counters_match,
    pfc_is_seen,
)
from lab.scenario.traffic.mixed_incast import mixed_incast

SIZE: Final = 1024 * 1024
SINGLE: Final = ("single-pfc", "single-dcqcn")
DUAL: Final = ("dual-pfc", "dual-dcqcn")


def run(stage: Stage, p: DcqcnParameters) -> None:
    """Run with one lossless class and with two, each without and with a reaction point."""
    stage.set("host", "nic.cc.rp=false")
    with mixed_incast(stage, 3, 3, size=SIZE):
        stage.hold(SETTLING)
        stage.measure("single-pfc", p.hold)
        with stage.phase("single-fix"):
            stage.set("host", "nic.cc.rp=true")
            stage.hold(SETTLING)
        stage.measure("single-dcqcn", p.hold)
    with stage.phase("dual-inject"):
        stage.set("host", "nic.cc.rp=false")
    with mixed_incast(stage, 3, 4, size=SIZE):
        stage.hold(SETTLING)
        stage.measure("dual-pfc", p.hold)
        with stage.phase("dual-fix"):
            stage.set("host", "nic.cc.rp=true")
            stage.hold(SETTLING)
        stage.measure("dual-dcqcn", p.hold)


SCENARIO = Scenario(
    "sonic-tc4", "sonic-dut.yaml", DcqcnParameters, run,
    (
        no_packet_is_lost(*SINGLE, *DUAL), no_nak_and_no_sequence_error(*SINGLE, *DUAL),
        pfc_is_seen({SINGLE[0]: (3,), DUAL[0]: (3, 4)}), few_or_no_pfc(SINGLE[1], DUAL[1]),
        pfc_counters_match(*SINGLE, *DUAL),
        marks_match({**dict.fromkeys(SINGLE, (3,)), **dict.fromkeys(DUAL, (3, 4))}), cnps_match(*SINGLE, *DUAL),
    ),
)  # fmt: skip
