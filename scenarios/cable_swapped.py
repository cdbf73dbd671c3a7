"""The cables of two hosts are in each other's port of their leaf: no link is down, and neither host has a gateway.

Story
    Given  h1 writes to h5 by RDMA, and pings it
    When   the cables of h1 and h2 are exchanged at leaf1
    Then   h1 gets no answer from its gateway: its writes and its pings stop
    And    all links and sessions are up, routes and addresses are as before, and no port drops a packet
    And    leaf1 reaches h1 by the port of h2, and h2 by the port of h1
    When   each cable is in its own port again
    Then   h1's writes resume

        h1 --> swp4 |
                    | leaf1 == spines == leaf2 -- h5
        h2 --> swp3 |

Numbers
    a /31 has two addresses (RFC 3021): a port has room for its own host and for no other. A QP waits
    4.096 us * 2^18 = 1.07 s for an ACK (IBA vol. 1, 9.7.6.1.3), then retransmits
"""

from __future__ import annotations

import re
from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, unknown
from lab.scenario.phase_measures import ACTS, growth, rdma_growth
from lab.scenario.probes.arp_probe import ask_around
from lab.scenario.shared_checks import nothing_alarms, rate_recovers
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.workload import probe, said, show_link

OWN, OTHER = "leaf1:swp3", "leaf1:swp4"
"""The ports of h1 and h2."""
H1, H2 = "10.0.0.1", "10.0.0.3"
PINGS: Final = 3
DRAINING: Final = 0.5
"""Seconds until all packets that passed leaf1 before the fault have arrived."""
SETTLING: Final = 3.0
"""Seconds: longer than the QP's ACK timeout of 1.07 s, and than ARP's second between two requests."""


def run(stage: Stage, p: PhaseParameters) -> None:
    """In their ports, exchanged, in their ports."""

    def look(_: str) -> None:
        probe(stage, "h1", "h5", count=PINGS)
        ask_around(stage, ())

    with stage.writing("h1:h5", qps=8):
        three_acts(
            stage, p.hold, fault("cable-swapped", f"{OWN},{OTHER}"), broken=DRAINING, healed=SETTLING, look=look,
            show=lambda: show_link(stage, OWN), again=lambda: probe(stage, "h1", "h5"),
        )  # fmt: skip


def _answering(rec: Recording, phase: str) -> set[tuple[str, str]]:
    """The ports of leaf1 and the addresses of hosts that answer there."""
    return {
        (f"{each.node}:{each.data['port']}", str(each.data["address"]))
        for each in rec.events(source="caller", kind="note", during=rec.phase(phase))
        if each.data.get("text") == "asked" and each.data["answers"]
    } & {(port, address) for port in (OWN, OTHER) for address in (H1, H2)}


def h1_is_cut_off(rec: Recording, p: PhaseParameters) -> Verdict:
    """With swapped cables no ping is answered and h5 gets no RDMA packet; without, every ping is answered."""
    lost = [re.findall(r"(\S+)% packet loss", said(rec, phase, "ping")) for phase in ACTS]
    sent = growth(rec, "leaf2:swp3", "tx_prio3_packets")
    shares = ", ".join(" ".join(each) for each in lost)
    evidence = f"{shares}% of {PINGS} pings lost; h5 was sent {sent[1]} RDMA packets with swapped cables"
    return expect(lost == [["0"], ["100"], ["0"]] and sent[1] == 0 < sent[0], evidence)


def qps_retransmit(rec: Recording, p: PhaseParameters) -> Verdict:
    """h1's QPs time out with swapped cables, and not before."""
    before, during, _ = rdma_growth(rec, "h1", "completer_retry_err")
    return expect(during > 0 == before, f"{before} retries before, {during} with swapped cables")


def each_host_answers_at_the_others_port(rec: Recording, p: PhaseParameters) -> Verdict:
    """leaf1's ARP requests for h1 are answered at h2's port, and the reverse; before and after at their own."""
    straight, crossed = {(OWN, H1), (OTHER, H2)}, {(OWN, H2), (OTHER, H1)}
    found = [_answering(rec, phase) for phase in ACTS]
    if not found[0]:
        return unknown("no ARP request was answered in phase baseline")
    shown = ", ".join(f"{address} at {port}" for port, address in sorted(found[1])) or "no host"
    return expect(found == [straight, crossed, straight], f"with swapped cables leaf1 reaches {shown}")


ANSWER: Final = StoryAnswer(
    cause="cable-swapped",
    where=(OWN, OTHER),
    level=2,
    workload="h1 writes to h5 with eight QPs",
    hints=(
        "neither writes nor pings from h1 to h5 are answered, though all links are up",
        "h1 and h2 get no answer from their gateway, the other hosts do",
        "ip neigh on h1 and h2: the gateway is FAILED or INCOMPLETE, while addresses and routes are right",
        "rocelab lldp, or arping on the two ports of the leaf",
        "h1 answers at the port of h2, and h2 at the port of h1",
    ),
    sign="a host answers ARP requests at a port with the address of another host (rocelab lldp)",
    because="The cables of h1 and h2 are in each other's port of leaf1. Each port has the other host's /31.",
    fix="Exchange the two cables.",
    prevention="Compare LLDP with the cabling plan after each visit to the rack.",
)

SCENARIO = Scenario(
    "cable-swapped", "incast.yaml", PhaseParameters, run,
    (
        h1_is_cut_off, qps_retransmit, each_host_answers_at_the_others_port, nothing_alarms,
        rate_recovers("leaf2:swp3", least=0.9),
    ),
    answer=ANSWER,
)  # fmt: skip
