"""SONiC's RoCEv2 test plan, test case 6: DCQCN shares a link fairly between QPs.

Story
    Given  ranks 0 and 1 (h1, h2) write to rank 3 (h4) in queue 3
    And    rank 2 (h3) writes to it in the lossy queues 0, 1 and 2
    Then   ranks 0 and 1 send at about the same rate, and pauses are few
    When   rank 1 writes in queue 4, the other lossless one
    Then   their rates are alike again

        h1 --+
        h2 --+ leaf1 -- h4
        h3 --+

Numbers
    "SONiC RoCEv2 Test Plan" by Keysight and Microsoft, test case 6: steps 5 and 7, messages of 1 MB
    pass lines: the rates of ranks 0 and 1 differ by less than 30%; no loss, no NAK; CE and CNPs observed. Few or
    no PFC, here less than 1% of the time. Counters of the switch match those of the tester
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Recording, Scenario, Stage, Verdict, expect, time_of
from lab.scenario.phase_measures import mbits
from lab.scenario.roce_test_plan import (
    cnps_match,
    few_or_no_pfc,
    marks_match,
    no_nak_and_no_sequence_error,
    no_packet_is_lost,
    pfc_counters_match,
)
from lab.scenario.three_acts import PhaseParameters
from lab.scenario.traffic.mixed_incast import SENDERS, mixed_incast

SIZE: Final = 1024 * 1024
CLASSES: Final = {"single": (3, 3), "dual": (3, 4)}
CONVERGING: Final = 4.0
"""Seconds until the rates of QPs that begin at line rate are alike."""
DEVIATION: Final = 0.3
"""The rates of both ranks differ by less than this share of their mean."""


class Params(PhaseParameters):
    """Longer phases, because rates with DCQCN swing."""

    hold: Annotated[float, time_of(1, 180)] = 10.0
    """How long each phase lasts; 3 minutes in the plan."""


def run(stage: Stage, p: Params) -> None:
    """Run with one lossless class, and with two."""
    with mixed_incast(stage, 3, 3, size=SIZE):
        stage.hold(CONVERGING)
        stage.measure("single", p.hold)
    with mixed_incast(stage, 3, 4, size=SIZE):
        stage.hold(CONVERGING)
        stage.measure("dual", p.hold)


def the_rates_are_alike(rec: Recording, p: Params) -> Verdict:
    """The transmit rates of ranks 0 and 1 differ by less than 30% of their mean."""
    evidence, right = [], True
    for phase, priorities in CLASSES.items():
        first, second = (mbits(rec, f"{host}:eth1", phase, priority)
                         for host, priority in zip(SENDERS, priorities, strict=True))  # fmt: skip
        deviation = abs(first - second) / ((first + second) / 2) if first and second else 1.0
        right &= deviation < DEVIATION
        evidence.append(f"{phase}: {first:.1f} and {second:.1f} Mb/s, {deviation:.0%} apart")
    return expect(right, "; ".join(evidence))


SCENARIO = Scenario(
    "sonic-tc6", "sonic-dut.yaml", Params, run,
    (
        the_rates_are_alike, no_packet_is_lost(*CLASSES), no_nak_and_no_sequence_error(*CLASSES),
        few_or_no_pfc(*CLASSES), pfc_counters_match(*CLASSES), marks_match({"single": (3,), "dual": (3, 4)}),
        cnps_match(*CLASSES),
    ),
)  # fmt: skip
