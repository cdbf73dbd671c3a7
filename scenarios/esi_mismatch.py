"""Two leaves of a bonded host have two identifiers for its Ethernet segment: what is flooded comes twice, and back.

Story
    Given  h1 is on leaf1 and leaf2 by one bond, whose segment both know by number 1; h2 is on leaf1 alone
    When   leaf2 has number 9 for it, and leaf1 number 1
    Then   neither has anybody to share its segment with: each forwards what is flooded, and h1 gets two copies
    And    what h1 floods by one leaf comes back to it by the other, which knows of no horizon
    And    leaf3 has one way to h1 instead of two: no aliasing, and no leaf that takes over when one fails
    And    h2 gets one copy as before; no session changes, no link does, and whoever sends to h1 alone sees nothing
    When   leaf2 has number 1 again
    Then   one leaf forwards, and leaf3 has both ways

        h1 ==bond1== leaf1 (segment 1) and leaf2 (segment 9)
        h2 --------- leaf1              leaf1, leaf2, leaf3 -- spine1        leaf3 -- h3

Numbers
    copies: one by each designated forwarder (RFC 7432 section 8.5), of which each segment has one: 1, then 2
    ways to a MAC: the leaves that tell its segment (section 8.4): 2, then 1
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Annotated, Any, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, between, expect, time_of
from lab.scenario.probes.overlay_state import frr, nothing_changes, ping_each, reaches, show_ways, ways_shown, ways_to
from lab.scenario.traffic.workload import commands, show_routing
from lab.scenario.verdict import in_words

WRONG, FAR = "leaf2", "leaf3"
LEAVES: Final = ("leaf1", WRONG)
BOND, VNI = "bond1", 10010
MAC: Final = "02:1a:00:05:00:01"
"""h1's, as those of h1 and h2 on the next lines are made of theirs."""
H1, H2 = "fe80::1a:ff:fe05:1", "fe80::1a:ff:fe06:1"
H3_ADDRESS: Final = "10.1.10.3"
NIC: Final = {"h1": BOND, "h3": "eth1"}
"""By which interface each floods."""
ALL: Final = "ff02::1"
"""All nodes of the link (RFC 4291 section 2.7.1): each of them answers every copy."""
FLOODS, SHOW = 5, "show evpn es json"
PHASES: Final = ("baseline", "observe", "verify")


class Params(Parameters):
    """What a reader may turn."""

    number: Annotated[int, between(2, 2**24 - 1)] = 9
    """Of leaf2's segment; leaf1's is 1."""
    hold: Annotated[float, time_of(0, 60)] = 0.5
    """How long each phase lasts besides its probes."""


def run(stage: Stage, p: Params) -> None:
    """One segment, two, one."""
    stage.until(lambda: reaches(stage, "h1", H3_ADDRESS) and _is_shared(stage), "the leaves to share h1's segment")
    with stage.phase("baseline"):
        _look(stage, p)
    with stage.phase("inject"):
        other = stage.inject("frr-config", WRONG, lines=f"interface {BOND}; evpn mh es-id {p.number}")
        stage.until(lambda: _is_split(stage), "each leaf to be alone with its segment")
    with stage.phase("observe"):
        _look(stage, p)
    show_routing(stage, WRONG, "show evpn es")
    stage.linger(lambda: ping_each(stage, "h3", "h1", "h2"))
    with stage.phase("fix"):
        stage.heal(other)
        stage.until(lambda: reaches(stage, "h1", H3_ADDRESS) and _is_shared(stage), "the leaves to share it again")
    with stage.phase("verify"):
        _look(stage, p)


def _is_shared(stage: Stage) -> bool:
    """Whether one of the leaves forwards for both, and leaf3 sends by both; to wait for, and not recorded."""
    forwards = [_forwards(_shown(stage, leaf)) for leaf in LEAVES]
    return forwards == [True, False] and len(ways_to(stage, FAR, VNI, MAC)) == len(LEAVES)


def _is_split(stage: Stage) -> bool:
    """Whether each leaf forwards for itself, and leaf3 sends by one; to wait for, and not recorded."""
    return all(_forwards(_shown(stage, leaf)) for leaf in LEAVES) and len(ways_to(stage, FAR, VNI, MAC)) == 1


def _shown(stage: Stage, leaf: str) -> str:
    words = stage.fabric.router(leaf).vtysh(SHOW)
    return stage.fabric.namespace(leaf).run(words, check=False).stdout


def _look(stage: Stage, p: Params) -> None:
    stage.hold(p.hold)
    for host, interface in NIC.items():
        stage.run(host, "ping", "-n", "-c", str(FLOODS), "-i", "0.2", "-W", "1", f"{ALL}%{interface}")
    for leaf in LEAVES:
        frr(stage, leaf, SHOW)
    show_ways(stage, FAR, VNI)


def _own(shown: str) -> dict[str, Any]:
    """The segment that a leaf has itself, as FRR says; nothing where it has none."""
    segments: list[dict[str, Any]] = json.loads(shown or "[]")
    return next((each for each in segments if each.get("accessPort") == BOND), {})


def _forwards(shown: str) -> bool:
    """Whether a leaf forwards what is flooded to its segment."""
    return "nonDF" not in _own(shown).get("flags", ("nonDF",))


def _copies(rec: Recording, phase: str, sender: str, answering: str) -> set[int]:
    """How many answers came of each packet that was flooded; ping does not wait for those of the last."""
    (ping,) = (each for each in commands(rec, phase, "ping") if each.node == sender)
    lines = [line.split() for line in ping.stdout.splitlines() if " icmp_seq=" in line]
    found = Counter(words[4] for words in lines if words[3].partition("%")[0] == answering)
    return {found[f"icmp_seq={number}"] for number in range(1, FLOODS)}


def each_leaf_has_a_segment_of_its_own(rec: Recording, p: Params) -> Verdict:
    """One identifier before and after, with one that forwards; two meanwhile, and both do."""
    shown = [{each.node: each.stdout for each in commands(rec, phase, "vtysh")} for phase in PHASES]
    names = [{_own(said_by[leaf]).get("esi", "") for leaf in LEAVES} for said_by in shown]
    forwarding = [sum(_forwards(said_by[leaf]) for leaf in LEAVES) for said_by in shown]
    told = f"identifiers: {in_words(names)}; leaves that forward: {in_words(forwarding)}"
    return expect([*map(len, names)] == [1, 2, 1] == forwarding, told)


def h1_gets_two_copies(rec: Recording, p: Params) -> Verdict:
    """Of what h3 floods: one before and after, and two meanwhile."""
    copies = [_copies(rec, phase, "h3", H1) for phase in PHASES]
    return expect(copies == [{1}, {2}, {1}], f"copies of each packet: {in_words(copies)}")


def what_h1_floods_comes_back(rec: Recording, p: Params) -> Verdict:
    """h1 hears itself once, as every host does, and meanwhile once more by the other leaf."""
    copies = [_copies(rec, phase, "h1", H1) for phase in PHASES]
    return expect(copies == [{1}, {2}, {1}], f"answers of h1 to itself: {in_words(copies)}")


def h2_gets_one(rec: Recording, p: Params) -> Verdict:
    """A host on one leaf gets one copy all the time."""
    copies = [_copies(rec, phase, "h3", H2) for phase in PHASES]
    return expect(copies == [{1}] * 3, f"copies of each packet: {in_words(copies)}")


def there_is_one_way_to_h1(rec: Recording, p: Params) -> Verdict:
    """leaf3 has both leaves as next hops of h1's MAC before and after, and one meanwhile."""
    ways = [ways_shown(rec, phase, MAC) for phase in PHASES]
    return expect([len(each) for each in ways] == [2, 1, 2], f"ways to {MAC}: {in_words(ways)}")


def nothing_alarms(rec: Recording, p: Params) -> Verdict:
    """No session changes, and no link."""
    return nothing_changes(rec, "observe")


ANSWER: Final = StoryAnswer(
    cause="esi-mismatch",
    where=("leaf2",),
    level=3,
    workload="h3 pings h1 and h2",
    hints=(
        "h1 gets each broadcast twice, and answers it twice: rocelab exec h3 -- ping -nc3 ff02::1%eth1",
        "leaf1 and leaf2: both forward what is flooded to h1's bond",
        "the flags and the VTEPs of their segments: rocelab vtysh leaf1 -c 'show evpn es'",
        "rocelab vtysh leaf2 -c 'show running-config', interface bond1, beside leaf1's",
        "leaf2 has evpn mh es-id 9 where leaf1 has 1",
    ),
    sign="each leaf of a bond is alone with its segment, and forwards what is flooded (show evpn es)",
    because="leaf2 knows h1's segment by number 9, leaf1 by 1: to EVPN these are two hosts with one MAC.",
    fix="evpn mh es-id 1 on leaf2's bond1.",
    prevention="Make segments' identifiers of LACP's system MAC and key by one rule; compare them over the leaves.",
)

SCENARIO = Scenario(
    "esi-mismatch", "multihomed.yaml", Params, run,
    (each_leaf_has_a_segment_of_its_own, h1_gets_two_copies, what_h1_floods_comes_back, h2_gets_one,
     there_is_one_way_to_h1, nothing_alarms),
    answer=ANSWER,
)  # fmt: skip
