"""A leaf's uplinks are too small for the tunnel: the first packet of every write is lost, and no counter shows it.

Story
    Given  h1 writes 64 KiB messages to h3 through a tunnel, and probes of the hosts' full MTU pass
    When   leaf3's uplinks have an MTU of 4200 instead of 4350
    Then   no write of h1 completes: the first packet of each write is 16 bytes longer than the others, and is lost
    And    probes of 4150 bytes (ping -s 4122) pass, and of 4158 do not: the tunnel adds 50 bytes
    And    spines count packets as sent that leaf3 never counts as received; links and sessions are up
    When   the uplinks have the MTU of all others
    Then   h1's writes complete

        h1 --4300-- leaf1 ==4350== spine1,2 ==> 4200 leaf3 --4300-- h3

Numbers
    4096 bytes of RDMA make IP packets of 4140, the first one 4156 (RETH, 16 bytes), and 4190 and 4206 in VXLAN
    the receiving port drops a packet above its MTU (plus 4 bytes for a VLAN tag), without an ICMP message
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words
from lab.scenario.phase_measures import dropped, growth, rdma_growth
from lab.scenario.probes.overlay_state import hosts_reached, until_reached
from lab.scenario.state_changes import session_changes
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.workload import probe, show_link, show_rdma

NARROW: Final = ("leaf3:swp1", "leaf3:swp2")
SENDS: Final = ("spine1:swp3", "spine2:swp3")
H3: Final = "10.1.20.2"
MTU: Final = 4200
OVERHEAD: Final = 50 + 28
"""The headers of VXLAN, and of IP and ICMP, which ping's size does not include."""
SMALL, LARGE = MTU - OVERHEAD, MTU - OVERHEAD + 8
FULL: Final = 4300 - 28
DRAINING: Final = 0.1
"""Seconds until packets in flight have arrived and are acknowledged; a message takes 5.3 ms."""
SETTLING: Final = 1.5
"""Seconds: longer than the QP's ACK timeout of 1.07 s."""


def run(stage: Stage, p: PhaseParameters) -> None:
    """4350, 4200, 4350."""

    def look(_: str) -> None:
        for size in (SMALL, LARGE, FULL):
            probe(stage, "h1", "h3", size=size)

    def show() -> None:
        for port in (*SENDS, *NARROW):
            show_link(stage, port)
        show_rdma(stage, "h1")

    def healed() -> None:
        stage.hold(SETTLING)
        until_reached(stage, "h1", H3)

    narrow = [fault("link-mtu", end, mtu=MTU) for end in NARROW]
    with stage.writing("h1:h3"):
        three_acts(stage, p.hold, *narrow, broken=DRAINING, healed=healed, look=look, show=show)


def no_write_completes(rec: Recording, p: PhaseParameters) -> Verdict:
    """With the fault h1 retries, and gets acknowledgements only without it."""
    retries, acks = (rdma_growth(rec, "h1", counter) for counter in ("completer_retry_err", "rcvd_pkts"))
    evidence = f"h1 had {in_words(retries)} timeouts and {in_words(acks)} acknowledgements"
    return expect(retries[0] == retries[2] == 0 < retries[1] and acks[1] == 0 < min(acks[0], acks[2]), evidence)


def probes_fail_above_a_size(rec: Recording, p: PhaseParameters) -> Verdict:
    """All probes pass without the fault; with it only those that fit with 50 bytes more."""
    passed = hosts_reached(rec, "h1")
    evidence = f"probes of {SMALL}, {LARGE} and {FULL} bytes pass: {in_words(passed)}"
    return expect(passed == [[True] * 3, [True, False, False], [True] * 3], evidence)


def no_port_counts_a_drop(rec: Recording, p: PhaseParameters) -> Verdict:
    """Packets that the spines send do not arrive at leaf3, and no port drops them; no session changes."""
    ((left,), (arrived,)) = (
        growth(rec, ports, f"{way}_prio3_packets", ["observe"]) for ports, way in ((SENDS, "tx"), (NARROW, "rx"))
    )
    lost, sessions = dropped(rec, "observe", priority=None), session_changes(rec, "observe")
    evidence = f"{left} packets left for leaf3, {arrived} arrived, {lost} dropped, {len(sessions)} sessions changed"
    return expect(left > arrived and lost == 0 and not sessions, evidence)


ANSWER: Final = StoryAnswer(
    cause="vxlan-mtu",
    where=("leaf3", *NARROW, "leaf3--spine1", "leaf3--spine2"),
    level=3,
    workload="h1 writes to h3, of another network",
    hints=(
        "no write of h1 completes, QPs time out and retransmit; ping to h3 works",
        "between the spines and leaf3, by either spine",
        "tx_prio3_packets of spine1:swp3 and spine2:swp3, rx_prio3_packets of leaf3:swp1 and leaf3:swp2",
        "rocelab exec h1 -- ping -M do -s 4122 10.1.20.2, then -s 4130; ip link show on leaf3",
        "leaf3's uplinks have an MTU of 4200: a packet of 4156 bytes has 4206 in the tunnel",
    ),
    sign="a leaf's uplinks are less than 50 bytes above its hosts' MTU (ip link show), and lose large packets",
    because="leaf3's uplinks have an MTU of 4200. With VXLAN's 50 bytes, each write's first packet is too large.",
    fix="Give leaf3's uplinks the MTU of all others, 4350.",
    prevention="Set the fabric's MTU to the hosts' MTU + 50 from one template; probe tunnels with full-size packets.",
)

SCENARIO = Scenario(
    "vxlan-mtu", "roce-tenant.yaml", PhaseParameters, run,
    (no_write_completes, probes_fail_above_a_size, no_port_counts_a_drop), answer=ANSWER,
)  # fmt: skip
