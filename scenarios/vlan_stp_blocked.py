"""Plain VLANs: half of the uplinks carry nothing, a flood goes everywhere, and a link that fails is dark for 14 s.

Story
    Given  two VLANs over leaves and spines, of which a spanning tree (IEEE 802.1D) is left, with spine1 its root
    When   h1 and h2 of leaf1 send to h3 and h4 of leaf2
    Then   both share leaf1's link to spine1, and spine2 hands on nothing, though every leaf has a link to it
    When   h1 sends to all
    Then   it is on every link of the tree once, also on that to spine2, which leads to nobody; and not in VLAN 20
    When   leaf1's link to spine1 fails
    Then   its hosts are cut off until spine2 has forgotten who told it of the root, and its port has learnt
    And    hosts of other leaves notice nothing
    When   the link is repaired
    Then   leaf1's hosts are cut off again, for as long as a port takes that comes up

        h1, h2 -- leaf1 -- spine1 -- leaf2 -- h3, h4        spine2 -- leaf1
                           spine1 -- leaf3 -- h5, h6        spine2 x  leaf2, leaf3

Numbers
    six links, five switches: a tree has 4, and 2 are blocked. With EVPN leaf1 has 2 x 100 Mb/s to leaf2, here 100
    cut: max_age 6 s, less what the last message had aged: hello 1 s, and another that a message may be held back
    (IEEE 802.1D-1998 section 8.10.2); then 2 x forward_delay 4 s. So 12 to 14 s. EVPN: what BFD takes, or the carrier
    repair: 2 x 4 s, less up to a hello; addresses of before may be believed for 10 s (ageing)
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Annotated, Final

from lab.model.overlay.spanning_tree_plan import AGEING, FORWARD_DELAY, HELLO, MAX_AGE
from lab.routing.spanning_tree import read_tree
from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words, time_of
from lab.scenario.probes.overlay_state import ping_each, reaches
from lab.scenario.traffic.background_traffic import pinging, streaming
from lab.telemetry.read.program_series import echoes, received

LOST: Final = "leaf1:swp1"
PAIRS: Final = ("h1:h3", "h2:h4")
CUT, BESIDE = "h1:h3", "h3:h5"
ADDRESS: Final = "10.1.10.2"
"""h3's."""
RATE: Final = 100_000_000
"""bit/s of every link."""
ROOTS, OTHERS = ("spine1:swp1", "spine1:swp2", "spine1:swp3"), ("spine2:swp1", "spine2:swp2", "spine2:swp3")
TREE: Final = ("leaf1:swp1", "leaf1:swp2", "spine1:swp2", "spine1:swp3")
"""Where a flood from leaf1 goes on links of the tree."""
HEAR: Final = ("h3:eth1", "h5:eth1")
FLOOD: Final = 200
"""Packets to all; of the tree's own there are fewer in the time."""
HOLD: Final = 1.0
"""Seconds for which a message may be held back (IEEE 802.1D-1998 table 8-3)."""
SLACK: Final = 0.5
"""Seconds of timers, and of pings."""
_NS: Final = 10**9


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(1, 60)] = 2.0
    """How long hosts send, and how long it is looked at afterwards."""


def run(stage: Stage, p: Params) -> None:
    """Sending, flooding, dark, by spine2, dark, as before."""
    _until_whole(stage)
    with streaming(stage, *PAIRS), stage.phase("baseline"):
        stage.hold(p.hold)
    with stage.phase("flood"):
        stage.run("h1", "ping", "-b", "-q", "-c", str(FLOOD), "-i", "0.005", "-W", "1", "10.1.10.255")
    with pinging(stage, CUT, BESIDE, interval=0.02):
        stage.until(partial(reaches, stage, "h1", ADDRESS), "h1 to reach h3")
        with stage.phase("inject"):
            down = stage.inject("link-down", LOST)
            stage.hold(HELLO)
        with stage.phase("observe"):
            stage.until(partial(reaches, stage, "h1", ADDRESS), "h1 to reach h3 by spine2")
            stage.hold(p.hold)
        stage.linger(lambda: ping_each(stage, "h1", "h3", "h5"))
        with stage.phase("fix"):
            stage.heal(down)
            stage.hold(HELLO)
            _until_whole(stage)
        with stage.phase("verify"):
            stage.hold(p.hold)


def _until_whole(stage: Stage) -> None:
    tree = partial(read_tree, stage.fabric.topology, stage.fabric.namespace)
    stage.until(lambda: not tree().gaps, "all ports to forward or to be blocked")
    stage.until(partial(reaches, stage, "h1", ADDRESS), "h1 to reach h3")


def _silence(rec: Recording, pair: str, *phases: str) -> float:
    """The longest time without an answer in these phases, which follow each other, in seconds."""
    start, end = rec.phase(phases[0]).start, rec.phase(phases[-1]).end
    answered: list[int] = [ns for ns in echoes(rec, pair).times.ns.tolist() if start <= ns < end]
    return max(later - earlier for earlier, later in pairwise([start, *answered, end])) / _NS


def one_spine_carries_all(rec: Recording, p: Params) -> Verdict:
    """spine2 sends less than a thousandth of what spine1 does."""
    root, other = (sum(rec.port(each).tx_bytes().during("baseline").delta() for each in of) for of in (ROOTS, OTHERS))
    return expect(1000 * other < root, f"spine1 sends {root / 1e6:.1f} MB, spine2 {other} bytes")


def two_pairs_share_one_uplink(rec: Recording, p: Params) -> Verdict:
    """Together they fill one link, where their leaf has two."""
    got = sum(received(rec, pair).during("baseline").rate() for pair in PAIRS) * 8
    return expect(0.8 * RATE < got <= RATE, f"{got / 1e6:.1f} Mb/s together; leaf1 has 2 x {RATE / 1e6:g}")


def a_flood_is_everywhere_once(rec: Recording, p: Params) -> Verdict:
    """What h1 sends to all is on each link of the tree and at each host of its VLAN once, and at no other host."""
    went = {port: rec.port(port).tx_packets().during("flood").delta() for port in TREE}
    came = {port: rec.port(port).rx_packets().during("flood").delta() for port in HEAR}
    other = rec.port("h4:eth1").rx_packets().during("flood").delta()
    once = all(FLOOD <= count < 2 * FLOOD for count in (*went.values(), *came.values()))
    return expect(once and other < FLOOD, f"of {FLOOD} packets: {in_words(went | came)}; in VLAN 20 h4 {other}")


def dark_until_the_old_is_forgotten_and_the_new_is_learnt(rec: Recording, p: Params) -> Verdict:
    """h1 is without answers for max_age and twice forward_delay, less than what the last message had aged."""
    gap, most = _silence(rec, CUT, "inject", "observe"), MAX_AGE + 2 * FORWARD_DELAY
    least = most - HELLO - HOLD
    return expect(least <= gap < most + SLACK, f"h1 has no answer for {gap:.2f} s, {least:g} to {most:g} expected")


def who_does_not_use_the_link_notices_nothing(rec: Recording, p: Params) -> Verdict:
    """h3 and h5, on other leaves, never wait."""
    gap = _silence(rec, BESIDE, "inject", "observe")
    return expect(gap < SLACK, f"h3 has no answer of h5 for {gap:.2f} s at most")


def the_repair_is_dark_too(rec: Recording, p: Params) -> Verdict:
    """For twice forward_delay: the port that comes up is the one that all goes by, from its first message on."""
    gap, least = _silence(rec, CUT, "fix", "verify"), 2 * FORWARD_DELAY - HELLO
    return expect(
        least <= gap < AGEING + HELLO, f"h1 has no answer for {gap:.2f} s, {least:g} to {AGEING:g} expected"
    )


ANSWER: Final = StoryAnswer(
    cause="link-down",
    where=(LOST, "leaf1--spine1", "leaf1"),
    level=2,
    workload="h1 pings h3 and h5",
    hints=(
        "hosts of leaf1 were cut off for a quarter of a minute, and reach the others since by a longer way",
        "leaf1: it has two uplinks, and not the one that it used before carries its packets",
        "the state of its ports, and who is behind its root port",
        "rocelab status: the spanning tree, and which links are blocked",
        "swp1 of leaf1 is down; its root port is swp2, by spine2, which waited 14 s before it took that over",
    ),
    sign="a switch whose link to the root is down has another root port (rocelab status)",
    because=(
        "leaf1's link to spine1, the root, is down. Until then a spanning tree keeps the other way blocked, and "
        "opens it only when max_age and twice forward_delay are over."
    ),
    fix="Repair the link, and expect another 8 s without it: a port that comes up listens and learns first.",
    prevention="Route between leaves: with EVPN both uplinks carry, and one that fails is left within BFD's time.",
)

SCENARIO = Scenario(
    "vlan-stp-blocked", "vlans.yaml", Params, run,
    (one_spine_carries_all, two_pairs_share_one_uplink, a_flood_is_everywhere_once,
     dark_until_the_old_is_forgotten_and_the_new_is_learnt, who_does_not_use_the_link_notices_nothing,
     the_repair_is_dark_too), answer=ANSWER,
)  # fmt: skip
