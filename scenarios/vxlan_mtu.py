"""A leaf's uplinks have no room for the tunnel: the first packet of every write is lost, and nothing alarms.

Story
    Given  h1 writes 64 KiB messages to h3 through a tunnel, and probes of the hosts' whole MTU pass
    When   leaf3's uplinks have an MTU of 4200 instead of 4350
    Then   h1 writes no message any more: what is 16 bytes longer than all others is the first packet of each
    And    probes of 4150 bytes (ping -s 4122) pass, and of 4158 do not: 50 bytes more are in the tunnel
    And    spines count as sent what leaf3 never counts as received; links and sessions are up
    When   the uplinks have the MTU of all others
    Then   h1 goes on

        h1 --4300-- leaf1 ==4350== spine1,2 ==> 4200 leaf3 --4300-- h3

Numbers
    of RDMA's 4096 bytes IP makes 4140, of the first packet's 4156 (RETH, 16 bytes), and VXLAN 4190 and 4206 of these.
    What is too large for the port that receives (and 4 bytes more, a VLAN tag's) is dropped there; no ICMP comes back
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words, time_of
from lab.scenario.probes.overlay_state import until_reached
from lab.scenario.state_changes import session_changes
from lab.scenario.traffic.workload import commands, probe, show_link, show_rdma

NARROW: Final = ("leaf3:swp1", "leaf3:swp2")
SENDS: Final = ("spine1:swp3", "spine2:swp3")
H3: Final = "10.1.20.2"
MTU: Final = 4200
OVERHEAD: Final = 50 + 28
"""VXLAN's, and those of IP and ICMP that ping does not count."""
SMALL, LARGE = MTU - OVERHEAD, MTU - OVERHEAD + 8
WHOLE: Final = 4300 - 28
UNDER_WAY: Final = 0.1
"""Seconds: what was under way has arrived and is acknowledged; a message takes 5.3 ms."""
SETTLING: Final = 1.5
"""Seconds: a QP that waits for an ACK waits for 1.07 s."""
PHASES: Final = ("baseline", "observe", "verify")


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 60)] = 1.5
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """4350, 4200, 4350."""
    with stage.writing("h1:h3"):
        with stage.phase("baseline"):
            stage.hold(p.hold)
            _probe_all(stage)
        with stage.phase("inject"):
            narrow = [stage.inject("link-mtu", end, mtu=MTU) for end in NARROW]
            stage.hold(UNDER_WAY)
        with stage.phase("observe"):
            stage.hold(p.hold)
            _probe_all(stage)
        for port in (*SENDS, *NARROW):
            show_link(stage, port)
        show_rdma(stage, "h1")
        stage.linger()
        with stage.phase("fix"):
            for fault in narrow:
                stage.heal(fault)
            stage.hold(SETTLING)
            until_reached(stage, "h1", H3)
        with stage.phase("verify"):
            stage.hold(p.hold)
            _probe_all(stage)


def _probe_all(stage: Stage) -> None:
    for size in (SMALL, LARGE, WHOLE):
        probe(stage, "h1", "h3", size=size)


def writing_stands_still(rec: Recording, p: Params) -> Verdict:
    """h1 sends again and again meanwhile, and h3 gets whole messages before and after alone."""
    again = [rec.rdma("h1").counter("completer_retry_err").during(phase).delta() for phase in PHASES]
    acked = [rec.rdma("h1").counter("rcvd_pkts").during(phase).delta() for phase in PHASES]
    told = f"h1 had {in_words(again)} timeouts and {in_words(acked)} acknowledgements"
    return expect(again[0] == again[2] == 0 < again[1] and acked[1] == 0 < min(acked[0], acked[2]), told)


def probes_fail_above_a_size(rec: Recording, p: Params) -> Verdict:
    """All pass before and after; meanwhile those that fit with 50 bytes more."""
    codes = [[each.exit_code for each in commands(rec, phase, "ping")] for phase in PHASES]
    passed = [[code == 0 for code in three] for three in codes]
    told = f"probes of {SMALL}, {LARGE} and {WHOLE} bytes pass: {in_words(passed)}"
    return expect(passed == [[True] * 3, [True, False, False], [True] * 3], told)


def no_port_counts_a_drop(rec: Recording, p: Params) -> Verdict:
    """What the spines send does not come in at leaf3, and no port drops it; links and sessions stay."""
    left = sum(int(rec.port(port).tx_packets(3).during("observe").delta()) for port in SENDS)
    arrived = sum(int(rec.port(port).rx_packets(3).during("observe").delta()) for port in NARROW)
    dropped = sum(int(rec.port(port).drops().during("observe").delta()) for port in rec.ports)
    sessions = session_changes(rec, "observe")
    told = f"{left} packets left for leaf3, {arrived} came, {dropped} dropped, {len(sessions)} sessions changed"
    return expect(left > arrived and dropped == 0 and not sessions, told)


ANSWER: Final = StoryAnswer(
    cause="vxlan-mtu",
    where=("leaf3", *NARROW, "leaf3--spine1", "leaf3--spine2"),
    level=3,
    workload="h1 writes to h3, of another network",
    hints=(
        "h1 writes no message, times out and sends again; ping to h3 works",
        "between the spines and leaf3, by either spine",
        "tx_prio3_packets of spine1:swp3 and spine2:swp3, rx_prio3_packets of leaf3:swp1 and leaf3:swp2",
        "rocelab exec h1 -- ping -M do -s 4122 10.1.20.2, then -s 4130; ip link show on leaf3",
        "leaf3's uplinks have an MTU of 4200: a packet of 4156 bytes is 4206 in the tunnel",
    ),
    sign="a leaf's uplinks have no 50 bytes more than its hosts (ip link show), and lose what is large in a tunnel",
    because=(
        "leaf3's uplinks have an MTU of 4200: with VXLAN's 50 bytes, the first packet of each write is too large "
        "for them."
    ),
    fix="Give leaf3's uplinks the MTU of all others, 4350.",
    prevention=(
        "Fabric MTU = hosts' MTU + 50, from one template; probe through tunnels with packets of the hosts' full size."
    ),
)

SCENARIO = Scenario(
    "vxlan-mtu", "roce-tenant.yaml", Params, run,
    (writing_stands_still, probes_fail_above_a_size, no_port_counts_a_drop),
    answer=ANSWER,
)  # fmt: skip
