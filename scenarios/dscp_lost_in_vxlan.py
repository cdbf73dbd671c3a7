"""A leaf's tunnels lose the DSCP: RoCE is best effort in the core, and the last leaf drops it.

Story
    Given  h1 and h2 of one tenant write to h3 through tunnels; PFC pauses the excess, and nothing is lost
    When   leaf1's tunnels stop copying the DSCP: outer headers have DSCP 0 whatever the inner header has
    Then   the spines carry leaf1's traffic in priority 0, and leaf2's in priority 3 as before
    And    leaf3 queues leaf1's traffic in queue 0, where PFC does not apply: it drops, and h1 retransmits
    And    packets arrive at h3 with DSCP 26 as before, so neither host sees the cause
    When   leaf1's tunnels copy the DSCP again
    Then   nothing is dropped

        h1 -- leaf1 --+                 outer DSCP 0
                      +== spine1,2 == leaf3 -- h3
        h2 -- leaf2 --+                 outer DSCP 26

Numbers
    200 Mb/s are offered to h3's link of 100. leaf1 classifies by the inner header, all others by the outer header.
    RFC 2983 calls this the pipe model, and `tos inherit` the uniform model
"""

from __future__ import annotations

from typing import Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect
from lab.scenario.phase_measures import ACTS, dropped, growth, listed, rdma_growth
from lab.scenario.three_acts import PhaseParameters, fault, three_acts
from lab.scenario.traffic.workload import RESENT, show_queue, show_rdma

CORE: Final = ("leaf3:swp1", "leaf3:swp2")
"""leaf3's ports to the spines."""
QUEUE: Final = "leaf3:swp3"
SINK: Final = "h3:eth1"


def run(stage: Stage, p: PhaseParameters) -> None:
    """Copied, lost, copied."""

    def show() -> None:
        stage.run("leaf1", "ip", "-json", "-d", "link", "show", "type", "vxlan")
        show_queue(stage, QUEUE)
        show_rdma(stage, "h3")

    with stage.writing("h1:h3", "h2:h3", qps=4):
        three_acts(
            stage, p.hold, fault("tunnel-dscp", "leaf1", dscp=0),
            broken=p.hold / 3, healed=RESENT, show=show,
        )  # fmt: skip


def the_core_has_another_class(rec: Recording, p: PhaseParameters) -> Verdict:
    """With the fault hundreds of packets of priority 0 come from the spines; otherwise only those of daemons do."""
    low, high = (growth(rec, CORE, f"rx_prio{priority}_packets") for priority in (0, 3))
    evidence = f"packets from the spines in priority 0: {listed(low)}; in priority 3: {listed(high)}"
    return expect(low[1] > 10 * max(low[0], low[2], 10), evidence)


def hosts_see_the_right_class(rec: Recording, p: PhaseParameters) -> Verdict:
    """h3 classifies packets that leaf3 sent in priority 0 as priority 3: the inner DSCP is unchanged."""
    sent = rec.port(QUEUE).tx_packets(0).during("observe").delta()
    low, high = (rec.port(SINK).rx_packets(priority).during("observe").delta() for priority in (0, 3))
    evidence = f"{sent} packets left leaf3 in priority 0; h3 received {low} in 0 and {high} in 3"
    return expect(sent > 10 * max(low, 10) and high > sent, evidence)


def the_last_leaf_drops(rec: Recording, p: PhaseParameters) -> Verdict:
    """leaf3 drops in queue 0, and only with the fault; the lossless queue never drops."""
    lossy = [dropped(rec, phase, ports=[QUEUE], priority=0) for phase in ACTS]
    lossless = dropped(rec, *ACTS)
    evidence = f"{QUEUE} dropped in queue 0: {listed(lossy)}; all ports in queue 3: {lossless}"
    return expect(lossy[1] > 0 and lossy[0] == lossy[2] == 0 and lossless == 0, evidence)


def lost_packets_are_sent_again(rec: Recording, p: PhaseParameters) -> Verdict:
    """h3 misses packets with the fault, and at no other time."""
    missed = rdma_growth(rec, "h3", "out_of_seq_request")
    return expect(missed[1] > 0 and missed[0] == missed[2] == 0, f"out_of_seq_request of h3: {listed(missed)}")


ANSWER: Final = StoryAnswer(
    cause="dscp-lost-in-vxlan",
    where=("leaf1",),
    level=3,
    workload="h1 and h2 write to h3 with four QPs each, from another network",
    hints=(
        "h3 misses packets, although every port has PFC on",
        "leaf3 drops h1's packets in queue 0, and none of h2's",
        "rx_prio0_packets of spine1:swp1 and spine1:swp2: RoCE of one leaf arrives in priority 0",
        "rocelab exec leaf1 -- ip -d link show type vxlan, beside leaf2's; a capture on leaf1--spine1",
        "leaf1's tunnels set DSCP 0 in outer headers, where leaf2's have tos inherit",
    ),
    sign="outer headers have DSCP 0 where inner ones have 26: the tunnel lacks tos inherit (ip -d link show)",
    because=(
        "leaf1's tunnels do not copy the DSCP to the outer header. In the core h1's RoCE has priority 0, "
        "which is not lossless, and the last leaf drops it."
    ),
    fix="Set tos inherit (dscp uniform) on leaf1's tunnels.",
    prevention="Compare priorities on both sides of the tunnel; alarm on RoCE in a lossy queue.",
)

SCENARIO = Scenario(
    "dscp-lost-in-vxlan", "roce-tenant.yaml", PhaseParameters, run,
    (the_core_has_another_class, hosts_see_the_right_class, the_last_leaf_drops, lost_packets_are_sent_again),
    answer=ANSWER,
)  # fmt: skip
