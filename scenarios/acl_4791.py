"""A filter drops UDP port 4791: ping and TCP pass, and RDMA times out.

Story
    Given  h1 writes to h5 by RDMA, and pings it
    When   a filter on leaf1 drops UDP packets to port 4791
    Then   leaf1 forwards no RDMA packet to the spines, and h1's QPs time out and retransmit
    And    ping passes as before; links, routes and queues show no error
    And    only the counter of the filter rule shows the drops
    When   the filter is removed
    Then   h1's writes resume

        h1 -- leaf1 --x 4791 -- spines -- leaf2 -- h5

Numbers
    a QP waits 4.096 us * 2^18 = 1.07 s for an ACK (IBA vol. 1, 9.7.6.1.3), then retransmits. A hardware NIC gives up
    after seven retries, with retry_exceeded. SoftRoCE treats perftest's retry count of seven as unlimited
"""

from __future__ import annotations

import re
from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.phase_measures import ACTS, dropped, growth, rdma_growth
from lab.scenario.shared_checks import rate_recovers
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.workload import commands, probe, said, show_rdma

UPLINKS: Final = ("leaf1:swp1", "leaf1:swp2")
PINGS: Final = 3
DRAINING: Final = 0.5
"""Seconds until all packets that passed leaf1 before the fault have arrived."""
SETTLING: Final = 1.2
"""Seconds: longer than the QP's ACK timeout of 1.07 s."""


def run(stage: Stage, p: PhaseParameters) -> None:
    """Open, filtered, open."""

    def look(_: str) -> None:
        probe(stage, "h1", "h5", count=PINGS)
        stage.run("leaf1", "nft", "list", "ruleset")

    with stage.writing("h1:h5", qps=8):
        three_acts(
            stage, p.hold, fault("udp-filtered", "leaf1"), broken=DRAINING, healed=SETTLING, look=look,
            show=lambda: show_rdma(stage, "h1"),
        )  # fmt: skip


def ping_works(rec: Recording, p: PhaseParameters) -> Verdict:
    """Every ping is answered, without and with the filter."""
    codes = [each.exit_code for phase in ACTS[:2] for each in commands(rec, phase, "ping")]
    lost = re.findall(r"(\S+)% packet loss", said(rec, "observe", "ping"))
    return expect(not any(codes) and lost == ["0"], f"{', '.join(lost)}% of {PINGS} pings lost with the filter")


def rdma_stops(rec: Recording, p: PhaseParameters) -> Verdict:
    """With the filter leaf1 sends no RDMA to the spines and h1 times out; without it neither is the case."""
    sent = growth(rec, UPLINKS, "tx_prio3_packets")
    retries = rdma_growth(rec, "h1", "completer_retry_err")
    evidence = f"{sent[0]} packets and {retries[0]} retries before, {sent[1]} and {retries[1]} with the filter"
    return expect(sent[0] > 0 == sent[1] and retries[1] > 0 == retries[0], evidence)


def only_the_filter_counts_drops(rec: Recording, p: PhaseParameters) -> Verdict:
    """The filter rule counts dropped packets, and no port does."""
    hits = [int(count) for count in re.findall(r"udp dport 4791 counter packets (\d+)", said(rec, "observe", "nft"))]
    lost = dropped(rec, "observe", priority=None)
    return expect(sum(hits) > 0 == lost, f"{sum(hits)} packets dropped by the filter, {lost} by ports")


ANSWER: Final = StoryAnswer(
    cause="acl-4791",
    where=("leaf1",),
    level=1,
    workload="h1 writes to h5 with eight QPs",
    hints=(
        "no write from h1 to h5 completes, while pings from h1 to h5 are not lost",
        "packets from h1 arrive at leaf1 and do not leave it towards the spines",
        "completer_retry_err of h1's device, and tx_prio3_packets of leaf1:swp1 and swp2",
        "rocelab exec leaf1 -- nft list ruleset",
        "a rule counts and drops packets to UDP port 4791, which only RoCEv2 uses",
    ),
    sign="a filter on a switch counts packets that it drops (nft list ruleset)",
    because="A filter on leaf1 drops UDP port 4791. That stops all of RoCEv2, and neither ping nor TCP.",
    fix="Remove the rule, or permit UDP port 4791.",
    prevention="Permit UDP port 4791 in every filter template. Probe with rocelab rdma bw, not only with ping.",
)

SCENARIO = Scenario(
    "acl-4791", "incast.yaml", PhaseParameters, run,
    (ping_works, rdma_stops, only_the_filter_counts_drops, rate_recovers("leaf2:swp3", least=0.9)), answer=ANSWER,
)  # fmt: skip
