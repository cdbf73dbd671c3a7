"""Two leaves of a bonded host have different Ethernet segment identifiers: floods arrive twice, and return.

Story
    Given  h1 is on leaf1 and leaf2 by one bond, with Ethernet segment number 1 on both; h2 is on leaf1 alone
    When   leaf2 has segment number 9 for it, and leaf1 number 1
    Then   each leaf is the only member of its segment and forwards floods, so h1 receives two copies
    And    a flood that h1 sends by one leaf returns by the other leaf, because split horizon does not apply
    And    leaf3 has one path to h1 instead of two: no aliasing, and no second leaf when one fails
    And    h2 receives one copy as before; no session and no link changes, and unicast to h1 works
    When   leaf2 has number 1 again
    Then   one leaf forwards floods, and leaf3 has both paths

        h1 ==bond1== leaf1 (segment 1) and leaf2 (segment 9)
        h2 --------- leaf1              leaf1, leaf2, leaf3 -- spine1        leaf3 -- h3

Numbers
    copies: one by the designated forwarder of each segment (RFC 7432 section 8.5): 1, then 2
    paths to a MAC: one for each leaf that advertises its segment (section 8.4): 2, then 1
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Annotated, Any, Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, between, expect, in_words
from lab.scenario.phase_measures import ACTS
from lab.scenario.probes.overlay_state import frr, ping_each, reaches, show_ways, ways_shown, ways_to
from lab.scenario.shared_checks import no_link_or_session_changes
from lab.scenario.three_acts import ProbeParameters, fault, three_acts
from lab.scenario.traffic.workload import commands, show_routing

WRONG, FAR = "leaf2", "leaf3"
LEAVES: Final = ("leaf1", WRONG)
BOND, VNI = "bond1", 10010
MAC: Final = "02:1a:00:05:00:01"
"""h1's. The link-local addresses of h1 and h2 below are derived from their MACs."""
H1, H2 = "fe80::1a:ff:fe05:1", "fe80::1a:ff:fe06:1"
H3_ADDRESS: Final = "10.1.10.3"
NIC: Final = {"h1": BOND, "h3": "eth1"}
"""The interface by which each host floods."""
ALL: Final = "ff02::1"
"""All nodes of the link (RFC 4291 section 2.7.1): each node answers every copy."""
FLOODS, SHOW = 5, "show evpn es json"


class Params(ProbeParameters):
    """The wrong segment."""

    number: Annotated[int, between(2, 2**24 - 1)] = 9
    """Number of leaf2's segment; leaf1's is 1."""


def run(stage: Stage, p: Params) -> None:
    """One segment, two, one."""
    _until_shared(stage)
    three_acts(
        stage, p.hold, fault("frr-config", WRONG, lines=f"interface {BOND}; evpn mh es-id {p.number}"),
        broken=lambda: stage.until(lambda: _is_split(stage), "each leaf to be alone in its segment"),
        healed=lambda: _until_shared(stage),
        look=lambda _: _look(stage),
        show=lambda: show_routing(stage, WRONG, "show evpn es"),
        again=lambda: ping_each(stage, "h3", "h1", "h2"),
    )  # fmt: skip


def _until_shared(stage: Stage) -> None:
    stage.until(lambda: reaches(stage, "h1", H3_ADDRESS) and _is_shared(stage), "the leaves to share h1's segment")


def _is_shared(stage: Stage) -> bool:
    """Whether one of the leaves forwards floods, and leaf3 has two paths; not recorded."""
    forwards = [_forwards(_shown(stage, leaf)) for leaf in LEAVES]
    return forwards == [True, False] and len(ways_to(stage, FAR, VNI, MAC)) == len(LEAVES)


def _is_split(stage: Stage) -> bool:
    """Whether both leaves forward floods, and leaf3 has one path; not recorded."""
    return all(_forwards(_shown(stage, leaf)) for leaf in LEAVES) and len(ways_to(stage, FAR, VNI, MAC)) == 1


def _shown(stage: Stage, leaf: str) -> str:
    words = stage.fabric.router(leaf).vtysh(SHOW)
    return stage.fabric.namespace(leaf).run(words, check=False).stdout


def _look(stage: Stage) -> None:
    for host, interface in NIC.items():
        stage.run(host, "ping", "-n", "-c", str(FLOODS), "-i", "0.2", "-W", "1", f"{ALL}%{interface}")
    for leaf in LEAVES:
        frr(stage, leaf, SHOW)
    show_ways(stage, FAR, VNI)


def _own(shown: str) -> dict[str, Any]:
    """A leaf's own segment in FRR's output; empty where it has none."""
    segments: list[dict[str, Any]] = json.loads(shown or "[]")
    return next((each for each in segments if each.get("accessPort") == BOND), {})


def _forwards(shown: str) -> bool:
    """Whether a leaf forwards floods to its segment."""
    return "nonDF" not in _own(shown).get("flags", ("nonDF",))


def _copies(rec: Recording, phase: str, sender: str, answering: str) -> set[int]:
    """Numbers of answers to each flooded packet, except the last, whose answers ping does not wait for."""
    (ping,) = (each for each in commands(rec, phase, "ping") if each.node == sender)
    lines = [line.split() for line in ping.stdout.splitlines() if " icmp_seq=" in line]
    found = Counter(words[4] for words in lines if words[3].partition("%")[0] == answering)
    return {found[f"icmp_seq={number}"] for number in range(1, FLOODS)}


def each_leaf_has_a_segment_of_its_own(rec: Recording, p: Params) -> Verdict:
    """The leaves have one identifier and one forwarder before and after the fault, and two of each with it."""
    shown = [{each.node: each.stdout for each in commands(rec, phase, "vtysh")} for phase in ACTS]
    names = [{_own(output[leaf]).get("esi", "") for leaf in LEAVES} for output in shown]
    forwarding = [sum(_forwards(output[leaf]) for leaf in LEAVES) for output in shown]
    evidence = f"identifiers: {in_words(names)}; leaves that forward: {in_words(forwarding)}"
    return expect([*map(len, names)] == [1, 2, 1] == forwarding, evidence)


def h1_receives_two_copies(rec: Recording, p: Params) -> Verdict:
    """h1 receives one copy of h3's floods before and after the fault, and two with it."""
    copies = [_copies(rec, phase, "h3", H1) for phase in ACTS]
    return expect(copies == [{1}, {2}, {1}], f"copies of each packet: {in_words(copies)}")


def h1_receives_its_own_floods(rec: Recording, p: Params) -> Verdict:
    """h1 answers itself once, as every host does; with the fault once more, by the other leaf."""
    copies = [_copies(rec, phase, "h1", H1) for phase in ACTS]
    return expect(copies == [{1}, {2}, {1}], f"answers of h1 to itself: {in_words(copies)}")


def h2_receives_one_copy(rec: Recording, p: Params) -> Verdict:
    """A host on one leaf receives one copy in every phase."""
    copies = [_copies(rec, phase, "h3", H2) for phase in ACTS]
    return expect(copies == [{1}] * 3, f"copies of each packet: {in_words(copies)}")


def leaf3_has_one_path_to_h1(rec: Recording, p: Params) -> Verdict:
    """leaf3 has both leaves as next hops of h1's MAC before and after the fault, and one with it."""
    ways = [ways_shown(rec, phase, MAC) for phase in ACTS]
    return expect([len(each) for each in ways] == [2, 1, 2], f"paths to {MAC}: {in_words(ways)}")


ANSWER: Final = StoryAnswer(
    cause="esi-mismatch",
    where=("leaf2",),
    level=3,
    workload="h3 pings h1 and h2",
    hints=(
        "h1 receives each broadcast twice, and answers twice: rocelab exec h3 -- ping -nc3 ff02::1%eth1",
        "leaf1 and leaf2 both forward floods to h1's bond",
        "the flags and VTEPs of their segments: rocelab vtysh leaf1 -c 'show evpn es'",
        "rocelab vtysh leaf2 -c 'show running-config', interface bond1, beside leaf1's",
        "leaf2 has evpn mh es-id 9 where leaf1 has 1",
    ),
    sign="each leaf of a bond is the only member of its segment, and forwards floods (show evpn es)",
    because="h1's segment has number 9 on leaf2 and 1 on leaf1. To EVPN these are two hosts with one MAC.",
    fix="Configure evpn mh es-id 1 on leaf2's bond1.",
    prevention="Derive segment identifiers from LACP's system MAC and key; compare them across the leaves.",
)

SCENARIO = Scenario(
    "esi-mismatch", "multihomed.yaml", Params, run,
    (each_leaf_has_a_segment_of_its_own, h1_receives_two_copies, h1_receives_its_own_floods, h2_receives_one_copy,
     leaf3_has_one_path_to_h1, no_link_or_session_changes),
    answer=ANSWER,
)  # fmt: skip
