"""Plain VLANs: half of the uplinks carry nothing, floods use all other links, and a failure causes a 14 s outage.

Story
    Given  two VLANs over leaves and spines, with a spanning tree (IEEE 802.1D) whose root is spine1
    When   h1 and h2 of leaf1 send to h3 and h4 of leaf2
    Then   both share leaf1's link to spine1, and spine2 forwards nothing, though every leaf has a link to it
    When   h1 broadcasts
    Then   each link of the tree carries the broadcast once, even that to spine2, which has no receiver
    And    no host of VLAN 20 receives it
    When   leaf1's link to spine1 fails
    Then   its hosts are cut off until leaf1's information about the root expires and its other port has learned
    And    hosts of other leaves are not affected
    When   the link is repaired
    Then   leaf1's hosts are cut off again, while the recovered port listens and learns

        h1, h2 -- leaf1 -- spine1 -- leaf2 -- h3, h4        spine2 -- leaf1
                           spine1 -- leaf3 -- h5, h6        spine2 x  leaf2, leaf3

Numbers
    six links, five switches: a tree has 4, and 2 are blocked. With EVPN leaf1 has 2 x 100 Mb/s to leaf2, here 100
    failure: max_age 6 s, minus the age of the last message: hello 1 s, and 1 s that a message may be delayed
    (IEEE 802.1D-1998 section 8.10.2); then 2 x forward_delay 4 s: 12 to 14 s. EVPN takes BFD's time, or less
    repair: 2 x 4 s, minus up to a hello; old addresses may stay valid for 10 s (ageing)
"""

from __future__ import annotations

from functools import partial
from typing import Final

from lab.model.overlay.spanning_tree_plan import AGEING, FORWARD_DELAY, HELLO, MAX_AGE
from lab.routing.spanning_tree import read_tree
from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words
from lab.scenario.probes.overlay_state import ping_each, until_reached
from lab.scenario.three_acts import PhaseParameters
from lab.scenario.traffic.background_traffic import pinging, streaming
from lab.telemetry.read.program_series import longest_silence, received

LOST: Final = "leaf1:swp1"
PAIRS: Final = ("h1:h3", "h2:h4")
CUT, UNRELATED = "h1:h3", "h3:h5"
H3: Final = "10.1.10.2"
RATE: Final = 100_000_000
"""bit/s of every link."""
ROOT, OTHER = ("spine1:swp1", "spine1:swp2", "spine1:swp3"), ("spine2:swp1", "spine2:swp2", "spine2:swp3")
TREE: Final = ("leaf1:swp1", "leaf1:swp2", "spine1:swp2", "spine1:swp3")
"""Ports of the tree that send leaf1's broadcasts."""
RECEIVERS: Final = ("h3:eth1", "h5:eth1")
BROADCASTS: Final = 200
"""More packets than the spanning tree's own in the same time."""
DELAYED: Final = 1.0
"""Seconds for which a message may be delayed (IEEE 802.1D-1998 table 8-3)."""
SLACK: Final = 0.5
"""Seconds for timers and pings."""


def run(stage: Stage, p: PhaseParameters) -> None:
    """Sending, broadcasting, an outage, the path by spine2, another outage, as before."""
    _until_forwarding(stage)
    with streaming(stage, *PAIRS):
        stage.measure("baseline", p.hold)
    with stage.phase("flood"):
        stage.run("h1", "ping", "-b", "-q", "-c", str(BROADCASTS), "-i", "0.005", "-W", "1", "10.1.10.255")
    with pinging(stage, CUT, UNRELATED, interval=0.02):
        until_reached(stage, "h1", H3)
        with stage.phase("inject"):
            down = stage.inject("link-down", LOST)
            stage.hold(HELLO)
        with stage.phase("observe"):
            until_reached(stage, "h1", H3)
            stage.hold(p.hold)
        stage.linger(lambda: ping_each(stage, "h1", "h3", "h5"))
        with stage.phase("fix"):
            stage.heal(down)
            stage.hold(HELLO)
            _until_forwarding(stage)
        stage.measure("verify", p.hold)


def _until_forwarding(stage: Stage) -> None:
    tree = partial(read_tree, stage.fabric.topology, stage.fabric.namespace)
    stage.until(lambda: not tree().gaps, "all ports to forward or to be blocked")
    until_reached(stage, "h1", H3)


def one_spine_carries_everything(rec: Recording, p: PhaseParameters) -> Verdict:
    """spine2 sends less than a thousandth of spine1's bytes."""
    root, other = (
        sum(rec.port(each).tx_bytes().during("baseline").delta() for each in ports) for ports in (ROOT, OTHER)
    )
    return expect(1000 * other < root, f"spine1 sends {root / 1e6:.1f} MB, spine2 {other} bytes")


def two_pairs_share_one_uplink(rec: Recording, p: PhaseParameters) -> Verdict:
    """Together they fill one link, although their leaf has two."""
    rate = sum(received(rec, pair).during("baseline").rate() for pair in PAIRS) * 8
    return expect(0.8 * RATE < rate <= RATE, f"{rate / 1e6:.1f} Mb/s together; leaf1 has 2 x {RATE / 1e6:g}")


def each_link_carries_a_broadcast_once(rec: Recording, p: PhaseParameters) -> Verdict:
    """Each link of the tree and each host of h1's VLAN carries a broadcast once, and no other host receives it."""
    sent = {port: rec.port(port).tx_packets().during("flood").delta() for port in TREE}
    arrived = {port: rec.port(port).rx_packets().during("flood").delta() for port in RECEIVERS}
    other = rec.port("h4:eth1").rx_packets().during("flood").delta()
    once = all(BROADCASTS <= count < 2 * BROADCASTS for count in (*sent.values(), *arrived.values()))
    evidence = f"of {BROADCASTS} packets: {in_words(sent | arrived)}; in VLAN 20 h4 {other}"
    return expect(once and other < BROADCASTS, evidence)


def the_outage_matches_the_timers(rec: Recording, p: PhaseParameters) -> Verdict:
    """h1 has no answer for max_age and twice forward_delay, minus the age of the last message."""
    gap, most = longest_silence(rec, CUT, "inject", "observe"), MAX_AGE + 2 * FORWARD_DELAY
    least = most - HELLO - DELAYED
    return expect(least <= gap < most + SLACK, f"h1 has no answer for {gap:.2f} s, {least:g} to {most:g} expected")


def other_hosts_are_not_affected(rec: Recording, p: PhaseParameters) -> Verdict:
    """h3 and h5, on other leaves, never wait."""
    gap = longest_silence(rec, UNRELATED, "inject", "observe")
    return expect(gap < SLACK, f"h3 has no answer of h5 for {gap:.2f} s at most")


def the_repair_causes_an_outage(rec: Recording, p: PhaseParameters) -> Verdict:
    """It lasts twice forward_delay: the recovered port becomes the root port with its first message."""
    gap, least = longest_silence(rec, CUT, "fix", "verify"), 2 * FORWARD_DELAY - HELLO
    evidence = f"h1 has no answer for {gap:.2f} s, {least:g} to {AGEING:g} expected"
    return expect(least <= gap < AGEING + HELLO, evidence)


ANSWER: Final = StoryAnswer(
    cause="link-down",
    where=(LOST, "leaf1--spine1", "leaf1"),
    level=2,
    workload="h1 pings h3 and h5",
    hints=(
        "hosts of leaf1 were cut off for 14 s, and have reached the others by a longer path since then",
        "leaf1: it has two uplinks, and not the previous one carries its packets",
        "the state of its ports, and the switch behind its root port",
        "rocelab status: the spanning tree, and its blocked links",
        "swp1 of leaf1 is down; its root port is swp2, to spine2, which took over after 14 s",
    ),
    sign="a switch whose link to the root is down has another root port (rocelab status)",
    because="leaf1's link to spine1, the root, is down. The spanning tree blocks the other path until max_age and"
    " twice forward_delay are over.",
    fix="Repair the link, and expect another outage of 8 s: a recovered port listens and learns first.",
    prevention="Route between leaves: with EVPN both uplinks carry traffic, and a failure is detected in BFD's time.",
)

SCENARIO = Scenario(
    "vlan-stp-blocked", "vlans.yaml", PhaseParameters, run,
    (one_spine_carries_everything, two_pairs_share_one_uplink, each_link_carries_a_broadcast_once,
     the_outage_matches_the_timers, other_hosts_are_not_affected, the_repair_causes_an_outage), answer=ANSWER,
)  # fmt: skip
