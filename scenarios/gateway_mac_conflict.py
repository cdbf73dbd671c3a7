"""The anycast gateway has another MAC on one leaf: hosts there that know the right one lose what is beyond it.

Story
    Given  the gateway has one MAC on all leaves, and h3, on leaf3, has it in its table
    When   leaf3's gateway gets another
    Then   h3 still sends to the one that it knows, which nobody has there: it reaches nothing beyond its network
    And    h1 and h2, on other leaves, reach each other and their gateway as before
    And    h3 has an address, a gateway and a route, all right; and nothing alarms
    When   leaf3's gateway has the MAC of all others
    Then   h3 reaches h1

        h1 -- leaf1 ... :00:01                    leaf3 ... :00:02 -- h3, which sends to :00:01

Numbers
    a host asks anew when an entry of its table has grown old and nobody answers: 15 to 45 s, and 8 s more (RFC 4861,
    section 7.3.3, which Linux does for ARP as well); then it has the other MAC, until it moves or the fault is mended
"""

from __future__ import annotations

import json
from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words, time_of
from lab.scenario.probes.overlay_state import no_session_is_lost, ping_each, until_reached
from lab.scenario.traffic.workload import commands, probe

BROKEN, SIBLING = "leaf3", "leaf1"
OWN, OTHERS = "vlan20", "vlan10"
"""Their gateways."""
GATEWAY: Final = "10.1.20.1"
H1, H2 = "10.1.10.2", "10.1.10.3"
ANYCAST, WRONG = "02:1a:00:00:00:01", "02:1a:00:00:00:02"
PHASES: Final = ("baseline", "observe", "verify")


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(0, 5)] = 0.2
    """How long each phase lasts besides its probes: much longer, and h3 asks anew."""


def run(stage: Stage, p: Params) -> None:
    """One MAC, two, one."""
    with stage.phase("baseline"):
        _ask_anew(stage)
        _look(stage, p)
    with stage.phase("inject"):
        _ask_anew(stage)
        wrong = stage.inject("gateway-mac", BROKEN, mac=WRONG)
    with stage.phase("observe"):
        _look(stage, p)
    stage.linger(lambda: ping_each(stage, "h3", "h1", "h2"))
    with stage.phase("fix"):
        stage.heal(wrong)
        _ask_anew(stage)
        until_reached(stage, "h3", H1)
        until_reached(stage, "h1", H2)
    with stage.phase("verify"):
        _look(stage, p)


def _ask_anew(stage: Stage) -> None:
    """h3 learns its gateway's MAC now, and believes it for 15 s at least."""
    stage.run("h3", "ip", "neigh", "flush", "to", GATEWAY)
    probe(stage, "h3", "h1")


def _look(stage: Stage, p: Params) -> None:
    stage.hold(p.hold)
    probe(stage, "h3", "h1", count=2)
    probe(stage, "h1", "h2", count=2)
    stage.run("h3", "ip", "-json", "neigh", "show", "to", GATEWAY)
    for leaf, gateway in ((BROKEN, OWN), (SIBLING, OTHERS)):
        stage.run(leaf, "ip", "-json", "link", "show", "dev", gateway)


def _shown(rec: Recording, phase: str, node: str, word: str) -> str:
    """A word of what the ip command of a node in a phase printed."""
    found = [each.stdout for each in commands(rec, phase, "ip") if each.node == node and "-json" in each.argv]
    entries = [entry for text in found for entry in json.loads(text or "[]")]
    return str(entries[0].get(word, "")) if entries else ""


def one_leaf_has_another_mac(rec: Recording, p: Params) -> Verdict:
    """leaf3's gateway, meanwhile; leaf1's never."""
    own = [_shown(rec, phase, BROKEN, "address") for phase in PHASES]
    others = {_shown(rec, phase, SIBLING, "address") for phase in PHASES}
    right = own == [ANYCAST, WRONG, ANYCAST] and others == {ANYCAST}
    return expect(right, f"{BROKEN}'s gateway {in_words(own)}, {SIBLING}'s {in_words(sorted(others))}")


def the_host_knows_the_right_one(rec: Recording, p: Params) -> Verdict:
    """h3's table has the anycast MAC in every phase."""
    known = [_shown(rec, phase, "h3", "lladdr") for phase in PHASES]
    return expect(set(known) == {ANYCAST}, f"h3 sends to {in_words(known)}")


def it_reaches_nothing_beyond(rec: Recording, p: Params) -> Verdict:
    """h3 reaches h1 before and after, and not meanwhile; h1 reaches h2 always."""
    codes = {host: [_code(rec, phase, host) for phase in PHASES] for host in ("h3", "h1")}
    right = [code == 0 for code in codes["h3"]] == [True, False, True] and not any(codes["h1"])
    return expect(right, f"ping ended with: h3 to h1 {in_words(codes['h3'])}, h1 to h2 {in_words(codes['h1'])}")


def _code(rec: Recording, phase: str, host: str) -> int:
    """Of the last ping of a host in a phase: those before it were for its table's sake."""
    return [each.exit_code for each in commands(rec, phase, "ping") if each.node == host][-1]


def nothing_alarms(rec: Recording, p: Params) -> Verdict:
    """No session is lost."""
    return no_session_is_lost(rec, "observe")


ANSWER: Final = StoryAnswer(
    cause="gateway-mac-conflict",
    where=("leaf3",),
    level=2,
    workload="h3 pings h1 and h2, of another network",
    hints=(
        "h3 does not reach h1 for a while, then it does; after the fault is mended it is the same again",
        "h3: its gateway's MAC, in its own table (ip neigh)",
        "the MACs of all gateways: rocelab exec leaf1 -- ip link show vlan10, and vlan20 of leaf3",
        "leaf3 has another gateway MAC than leaf1 and leaf2",
        "leaf3's is 02:1a:00:00:00:02, the others' 02:1a:00:00:00:01",
    ),
    sign="gateways have two MACs (ip link show of each leaf's VLAN interfaces)",
    because=(
        "leaf3's gateway has another MAC than all others: what a host sends to the anycast MAC, which it knew or "
        "brought along, is for nobody there."
    ),
    fix="The fabric's gateway MAC on leaf3; hosts that learnt the other ask anew.",
    prevention="One gateway MAC from one place; compare it on all leaves.",
)

SCENARIO = Scenario(
    "gateway-mac-conflict", "roce-tenant.yaml", Params, run,
    (one_leaf_has_another_mac, the_host_knows_the_right_one, it_reaches_nothing_beyond, nothing_alarms),
    answer=ANSWER,
)  # fmt: skip
