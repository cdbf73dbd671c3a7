"""A leaf's tunnels lose the DSCP: RoCE is lossless at its own ports, best effort behind them, and dropped there.

Story
    Given  h1 and h2, of a tenant, write to h3 through tunnels: what does not fit is paused, and nothing is lost
    When   leaf1's tunnels no longer inherit the DSCP: outer headers have 0, whatever is inside
    Then   spines carry what comes from leaf1 in priority 0, and what comes from leaf2 in 3 as before
    And    leaf3 has it in its queue 0, where no pause holds anybody up: it drops, and h1 sends again
    And    what arrives at h3 has DSCP 26 as ever: neither host can see what is wrong
    When   leaf1's tunnels inherit again
    Then   nothing is dropped

        h1 -- leaf1 --+                 outer DSCP 0
                      +== spine1,2 == leaf3 -- h3
        h2 -- leaf2 --+                 outer DSCP 26

Numbers
    200 Mb/s are offered to h3's link of 100. leaf1 classifies what it sends by the inner header (port to port, by the
    mark), all others by the outer one: RFC 2983 calls it the pipe model, and `tos inherit` the uniform one
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, time_of
from lab.scenario.traffic.workload import RESENT, show_queue, show_rdma

CORE: Final = ("leaf3:swp1", "leaf3:swp2")
"""Where everything from the spines comes in."""
QUEUE: Final = "leaf3:swp3"
SINK: Final = "h3:eth1"
PHASES: Final = ("baseline", "observe", "verify")


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 60)] = 1.2
    """How long each phase lasts."""


def run(stage: Stage, p: Params) -> None:
    """Inherited, lost, inherited."""
    with stage.writing("h1:h3", "h2:h3", qps=4):
        with stage.phase("baseline"):
            stage.hold(p.hold)
        with stage.phase("inject"):
            lost = stage.inject("tunnel-dscp", "leaf1", dscp=0)
            stage.hold(p.hold / 3)
        with stage.phase("observe"):
            stage.hold(p.hold)
            stage.run("leaf1", "ip", "-json", "-d", "link", "show", "type", "vxlan")
        show_queue(stage, QUEUE)
        show_rdma(stage, "h3")
        stage.linger()
        with stage.phase("fix"):
            stage.heal(lost)
            stage.hold(RESENT)  # a QP whose last packet was lost waits for its timeout
        with stage.phase("verify"):
            stage.hold(p.hold)


def _arrived(rec: Recording, phase: str, priority: int) -> int:
    return sum(int(rec.port(port).rx_packets(priority).during(phase).delta()) for port in CORE)


def the_core_has_another_class(rec: Recording, p: Params) -> Verdict:
    """Hundreds of packets of priority 0 come from the spines meanwhile; before and after, a few of the daemons'."""
    counts = {phase: (_arrived(rec, phase, 0), _arrived(rec, phase, 3)) for phase in PHASES}
    told = ", ".join(f"{phase}: {low} in 0 and {high} in 3" for phase, (low, high) in counts.items())
    (before, _), (during, _), (after, _) = counts.values()
    return expect(during > 10 * max(before, after, 10), f"packets from the spines, {told}")


def hosts_see_nothing_of_it(rec: Recording, p: Params) -> Verdict:
    """What leaf3 sends to h3 in priority 0 h3 classifies as 3: the inner DSCP is as it was."""
    sent = rec.port(QUEUE).tx_packets(0).during("observe").delta()
    seen = rec.port(SINK).rx_packets(0).during("observe").delta()
    right = rec.port(SINK).rx_packets(3).during("observe").delta()
    told = f"{sent} packets left leaf3 in 0, h3 has {seen} of 0 and {right} of 3"
    return expect(sent > 10 * max(seen, 10) and right > sent, told)


def the_last_leaf_drops(rec: Recording, p: Params) -> Verdict:
    """In queue 0, and only meanwhile; the lossless one never drops."""
    lossy = [rec.port(QUEUE).drops(0).during(phase).delta() for phase in PHASES]
    lossless = sum(rec.port(port).drops(3).during(phase).delta() for port in rec.ports for phase in PHASES)
    told = f"{QUEUE} dropped {lossy[0]}, {lossy[1]}, {lossy[2]} packets of queue 0, all ports {lossless} of queue 3"
    return expect(lossy[1] > 0 and lossy[0] == lossy[2] == 0 and lossless == 0, told)


def lost_packets_are_sent_again(rec: Recording, p: Params) -> Verdict:
    """h3 misses packets meanwhile, and at no other time."""
    missed = [rec.rdma("h3").counter("out_of_seq_request").during(phase).delta() for phase in PHASES]
    return expect(
        missed[1] > 0 and missed[0] == missed[2] == 0,
        f"h3 missed packets {missed[0]}, {missed[1]}, {missed[2]} times",
    )


ANSWER: Final = StoryAnswer(
    cause="dscp-lost-in-vxlan",
    where=("leaf1",),
    level=3,
    workload="h1 and h2 write to h3 with four QPs each, from another network",
    hints=(
        "h3 misses packets, though every port is a lossless one",
        "leaf3 drops them in queue 0; of who sends, it is h1's",
        "rx_prio0_packets of spine1:swp1 and spine1:swp2: one leaf sends RoCE in priority 0, the other does not",
        "rocelab exec leaf1 -- ip -d link show type vxlan, beside leaf2's; a capture on leaf1--spine1",
        "leaf1's tunnels have outer headers of DSCP 0, where leaf2's say tos inherit",
    ),
    sign="outer headers have DSCP 0 where the inner ones have 26: tunnels that do not say inherit (ip -d link show)",
    because=(
        "leaf1's tunnels do not inherit the DSCP: behind them h1's RoCE is in priority 0, which is not lossless, "
        "and the last leaf drops it."
    ),
    fix="tos inherit (dscp uniform) on leaf1's tunnels.",
    prevention="Compare priorities behind the tunnel with those before it; alarm on RoCE in a lossy queue.",
)

SCENARIO = Scenario(
    "dscp-lost-in-vxlan", "roce-tenant.yaml", Params, run,
    (the_core_has_another_class, hosts_see_nothing_of_it, the_last_leaf_drops, lost_packets_are_sent_again),
    answer=ANSWER,
)  # fmt: skip
