"""A filter on UDP 4791: ping works, TCP works, and RDMA times out.

Story
    Given  h1 writes to h5, and pings it
    When   somebody puts a filter on leaf1 that drops UDP 4791
    Then   not one packet of RDMA leaves leaf1 towards the spines, and h1 times out and sends again
    And    ping goes through as before; links, routes and queues are in order
    And    the filter has counted what it dropped: there it can be found
    When   the filter is taken away
    Then   h1 goes on where it was

        h1 -- leaf1 --x 4791 -- spines -- leaf2 -- h5

Numbers
    a QP waits 4.096 us * 2^18 = 1.07 s for an ACK (IBA vol. 1, 9.7.6.1.3), then sends again. A NIC gives up after
    seven times, with retry_exceeded; SoftRoCE takes the seven that perftest asks for as no limit
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.traffic.workload import commands, probe, said, show_rdma

UPLINKS: Final = ("leaf1:swp1", "leaf1:swp2")
PINGS: Final = 3
DRAINING: Final = 0.5
"""Seconds in which what was behind leaf1 already arrives."""
SETTLING: Final = 1.2
"""Seconds: a QP that waits for an ACK waits for 1.07 s."""


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1.2, 60)] = 1.5
    """How long each phase lasts: in each a QP times out."""


def run(stage: Stage, p: Params) -> None:
    """Open, filtered, open."""
    with stage.writing("h1:h5", qps=8):
        with stage.phase("baseline"):
            stage.hold(p.hold)
            probe(stage, "h1", "h5", count=PINGS)
        with stage.phase("inject"):
            acl = stage.inject("udp-filtered", "leaf1")
            stage.hold(DRAINING)
        with stage.phase("observe"):
            stage.hold(p.hold)
            probe(stage, "h1", "h5", count=PINGS)
            stage.run("leaf1", "nft", "list", "ruleset")
        show_rdma(stage, "h1")
        stage.linger()
        with stage.phase("fix"):
            stage.heal(acl)
            stage.hold(SETTLING)
        with stage.phase("verify"):
            stage.hold(p.hold)


def ping_works(rec: Recording, p: Params) -> Verdict:
    """Every ping is answered, before and meanwhile."""
    codes = [each.exit_code for phase in ("baseline", "observe") for each in commands(rec, phase, "ping")]
    lost = re.findall(r"(\S+)% packet loss", said(rec, "observe", "ping"))
    return expect(not any(codes) and lost == ["0"], f"{', '.join(lost)}% of {PINGS} pings lost meanwhile")


def rdma_stands_still(rec: Recording, p: Params) -> Verdict:
    """leaf1 sends no RDMA upwards, and h1 times out; before it sent and did not."""
    sent = [sum(rec.port(port).tx_packets(3).during(phase).delta() for port in UPLINKS) for phase in _BOTH]
    retries = [rec.rdma("h1").counter("completer_retry_err").during(phase).delta() for phase in _BOTH]
    told = f"{sent[0]} packets and {retries[0]} retries before, {sent[1]} and {retries[1]} meanwhile"
    return expect(sent[0] > 0 == sent[1] and retries[1] > 0 == retries[0], told)


_BOTH: Final = ("baseline", "observe")


def the_filter_tells(rec: Recording, p: Params) -> Verdict:
    """No port drops anything; the rule's own counter has what is missing."""
    hits = [int(count) for count in re.findall(r"udp dport 4791 counter packets (\d+)", said(rec, "observe", "nft"))]
    dropped = sum(rec.port(port).drops().during("observe").delta() for port in rec.ports)
    return expect(sum(hits) > 0 == dropped, f"{sum(hits)} packets filtered, {dropped} dropped by ports")


def it_goes_on(rec: Recording, p: Params) -> Verdict:
    """Without the filter h1 gets what it got before."""
    before, after = (
        rec.port("leaf2:swp3").tx_bytes(3).during(each).rate() * 8 / 1e6 for each in ("baseline", "verify")
    )
    return expect(after > 0.9 * before > 0, f"{before:.1f} Mb/s before, {after:.1f} after")


ANSWER: Final = StoryAnswer(
    cause="acl-4791",
    where=("leaf1",),
    level=1,
    workload="h1 writes to h5 with eight QPs",
    hints=(
        "h1 gets nothing through to h5, and h1 pings h5 without a loss",
        "what h1 sends comes in at leaf1, and does not leave it towards the spines",
        "completer_retry_err of h1's device, and tx_prio3_packets of leaf1:swp1 and swp2",
        "rocelab exec leaf1 -- nft list ruleset",
        "a rule for UDP 4791 counts and drops: RoCEv2's port, and nobody else's",
    ),
    sign="a switch has a filter that counts what it drops (nft list ruleset)",
    because="A filter on leaf1 drops UDP 4791: all of RoCEv2, and nothing that ping or TCP need.",
    fix="Take the rule away, or permit UDP 4791.",
    prevention=(
        "Permit UDP 4791 in the template of every filter, and probe with RDMA itself: rocelab rdma bw, not ping."
    ),
)

SCENARIO = Scenario(
    "acl-4791",
    "incast.yaml",
    Params,
    run,
    (ping_works, rdma_stands_still, the_filter_tells, it_goes_on),
    answer=ANSWER,
)
