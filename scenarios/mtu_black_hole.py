"""An MTU black hole: one link accepts 1500 bytes where others accept 9000, so only small messages pass.

Story
    Given  h1 writes 64 KiB messages to h5 with many QPs, h2 messages of 1 KiB to h6, both over both spines
    When   leaf2's port towards spine1 has an MTU of 1500
    Then   h1's QPs over spine1 receive no ACK, time out and retransmit without end; h2 is not affected
    And    probes with DF set pass with 1472 bytes everywhere, and with 1500 bytes not over spine1
    And    spine1 counts packets as sent that leaf2 does not count as received; links and sessions are up
    When   the port has the MTU of the other ports
    Then   all transfers resume

        h1, h2 -- leaf1 == spine1 --> 1500 leaf2 -- h5, h6, h7, h8
                        == spine2 ==  9000

Numbers
    a packet with 4096 bytes of RDMA has 4156 bytes of IP, one with 1024 has 1084; an MTU of 1500 is 1472 bytes of
    ping (20 of IP, 8 of ICMP). A port drops packets larger than its MTU on reception, without an ICMP error, and
    RoCE would ignore one. SoftRoCE retries without end, where a hardware NIC reports retry_exceeded
    16 QPs: none of them crosses spine1 with a probability of 1/65536
"""

from __future__ import annotations

import json
from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words
from lab.scenario.phase_measures import ACTS, dropped, rdma_growth
from lab.scenario.state_changes import session_changes
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.workload import circulating, commands, probe, said, show_link, show_rdma

SENDS: Final = "spine1:swp2"
TAKES: Final = "leaf2:swp1"
SMALL: Final = 1472
LARGE: Final = 1500
PROBED: Final = ("h5", "h6", "h7", "h8")
SETTLING: Final = 1.2
"""Seconds: longer than the QP's ACK timeout of 1.07 s."""


def run(stage: Stage, p: PhaseParameters) -> None:
    """9000, 1500, 9000."""

    def look(_: str) -> None:
        for host in PROBED:
            probe(stage, "h1", host, size=SMALL)
            probe(stage, "h1", host, size=LARGE)
        stage.run("leaf2", "ip", "-json", "link", "show")

    def show() -> None:
        show_link(stage, SENDS)
        show_link(stage, TAKES)
        show_rdma(stage, "h1")

    with stage.writing("h1:h5", qps=16), circulating(stage, "h2:h6", packets=16, size=1024):
        three_acts(stage, p.hold, fault("link-mtu", TAKES, mtu=1500), healed=SETTLING, look=look, show=show)


def only_large_messages_hang(rec: Recording, p: PhaseParameters) -> Verdict:
    """h1 retransmits with the fault, and h2 never does."""
    large, small = (rdma_growth(rec, host, "completer_retry_err", ACTS[:2]) for host in ("h1", "h2"))
    evidence = f"retries of h1 {large[0]} before and {large[1]} with the fault, of h2 {small[0]} and {small[1]}"
    return expect(large[0] == 0 < large[1] and not any(small), evidence)


def probes_fail_above_a_size(rec: Recording, p: PhaseParameters) -> Verdict:
    """Before the fault all probes pass; with it small ones do, and large ones to some hosts do not."""
    lost = {
        (phase, size): sum(each.exit_code != 0 for each in commands(rec, phase, "ping") if str(size) in each.argv)
        for phase in ACTS[:2]
        for size in (SMALL, LARGE)
    }
    evidence = ", ".join(f"{count} of {len(PROBED)} with {size} in {phase}" for (phase, size), count in lost.items())
    return expect(lost.pop(("observe", LARGE)) > 0 and not any(lost.values()), f"probes lost: {evidence}")


def one_port_has_a_smaller_mtu(rec: Recording, p: PhaseParameters) -> Verdict:
    """One interface of leaf2 has a smaller MTU than the others."""
    links = {link["ifname"]: link["mtu"] for link in json.loads(said(rec, "observe", "ip")) if link["ifname"] != "lo"}
    smaller = {name: mtu for name, mtu in links.items() if mtu < max(links.values())}
    return expect(list(smaller) == [TAKES.partition(":")[2]], f"{in_words(smaller)} of {len(links)} interfaces")


def no_port_counts_a_drop(rec: Recording, p: PhaseParameters) -> Verdict:
    """leaf2 receives fewer packets than spine1 sends, and no port drops any."""
    left = rec.port(SENDS).tx_packets(3).during("observe").delta()
    arrived = rec.port(TAKES).rx_packets(3).during("observe").delta()
    lost = dropped(rec, "observe", priority=None)
    sessions = session_changes(rec, "observe")
    evidence = f"{left} packets left {SENDS}, {arrived} arrived at {TAKES}, {lost} dropped"
    return expect(left > arrived and lost == 0 and not sessions, f"{evidence}, {len(sessions)} sessions changed")


ANSWER: Final = StoryAnswer(
    cause="mtu-black-hole",
    where=("leaf2:swp1", "leaf2--spine1"),
    level=2,
    workload="h1 writes large messages to h5 with 16 QPs, h2 small ones to h6",
    hints=(
        "some of h1's QPs hang, and others do not; all small messages of h2 arrive",
        "the link between spine1 and leaf2; packets over spine2 arrive",
        "tx_prio3_packets of spine1:swp2 and rx_prio3_packets of leaf2:swp1",
        "rocelab exec h1 -- ping -M do -s 1500 to each of h5 to h8, and ip link show on leaf2",
        "1472 bytes pass everywhere, 1500 bytes not over spine1: leaf2:swp1 has an MTU of 1500",
    ),
    sign="small packets pass and large ones are lost (ping -M do -s 1472, then -s 1500, by every path)",
    because="leaf2's port to spine1 has an MTU of 1500, and others have 9000. It drops larger packets.",
    fix="Set the MTU of leaf2:swp1 as on all other ports.",
    prevention="Deploy one MTU end to end from one template; probe every path with full-size packets and DF set.",
)

SCENARIO = Scenario(
    "mtu-black-hole", "incast.yaml", PhaseParameters, run,
    (only_large_messages_hang, probes_fail_above_a_size, one_port_has_a_smaller_mtu, no_port_counts_a_drop),
    answer=ANSWER,
)  # fmt: skip
