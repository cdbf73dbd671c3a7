"""The anycast gateway has another MAC on one leaf: hosts that cached the right MAC lose routed traffic.

Story
    Given  the gateway has one MAC on all leaves, and h3, on leaf3, has it in its ARP table
    When   leaf3's gateway gets another MAC
    Then   h3 sends to the cached MAC, which no port of leaf3 has: it reaches nothing beyond its network
    And    h1 and h2, on other leaves, reach each other and their gateway as before
    And    h3's address, gateway and route are right, and no session or link reports an error
    When   leaf3's gateway has the MAC of the other leaves
    Then   h3 reaches h1

        h1 -- leaf1 ... :00:01                    leaf3 ... :00:02 -- h3, which sends to :00:01

Numbers
    a host resolves an address again when its entry is old and not confirmed: after 15 to 45 s, and 8 s more (RFC 4861
    section 7.3.3, which Linux applies to ARP too). It then uses the other MAC, until it moves or the fault is fixed
"""

from __future__ import annotations

import json
from typing import Annotated, Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words, time_of
from lab.scenario.phase_measures import ACTS
from lab.scenario.probes.overlay_state import hosts_reached, ping_each, until_reached
from lab.scenario.shared_checks import no_session_is_lost
from lab.scenario.three_acts import ProbeParameters, fault, three_acts
from lab.scenario.traffic.workload import commands, probe

BROKEN, SIBLING = "leaf3", "leaf1"
OWN, OTHERS = "vlan20", "vlan10"
"""The gateway interfaces of the two leaves."""
GATEWAY: Final = "10.1.20.1"
H1, H2 = "10.1.10.2", "10.1.10.3"
ANYCAST, WRONG = "02:1a:00:00:00:01", "02:1a:00:00:00:02"


class Params(ProbeParameters):
    """Short phases: h3 must not resolve its gateway again."""

    hold: Annotated[float, time_of(0, 5)] = 0.2
    """How long each phase lasts in addition to its probes; in a long one h3 resolves its gateway again."""


def run(stage: Stage, p: Params) -> None:
    """One MAC, two, one."""

    def look(act: str) -> None:
        _look(stage)
        if act == "baseline":
            _resolve(stage)

    def healed() -> None:
        _resolve(stage)
        until_reached(stage, "h3", H1)
        until_reached(stage, "h1", H2)

    _resolve(stage)
    three_acts(
        stage, p.hold, fault("gateway-mac", BROKEN, mac=WRONG), healed=healed, look=look,
        again=lambda: ping_each(stage, "h3", "h1", "h2"),
    )  # fmt: skip


def _resolve(stage: Stage) -> None:
    """Make h3 resolve its gateway's MAC, which it then keeps for at least 15 s."""
    stage.run("h3", "ip", "neigh", "flush", "to", GATEWAY)
    probe(stage, "h3", "h1")


def _look(stage: Stage) -> None:
    probe(stage, "h3", "h1", count=2)
    probe(stage, "h1", "h2", count=2)
    stage.run("h3", "ip", "-json", "neigh", "show", "to", GATEWAY)
    for leaf, gateway in ((BROKEN, OWN), (SIBLING, OTHERS)):
        stage.run(leaf, "ip", "-json", "link", "show", "dev", gateway)


def _shown(rec: Recording, phase: str, node: str, word: str) -> str:
    """A field in the output of a node's ip command in a phase."""
    found = [each.stdout for each in commands(rec, phase, "ip") if each.node == node and "-json" in each.argv]
    entries = [entry for text in found for entry in json.loads(text or "[]")]
    return str(entries[0].get(word, "")) if entries else ""


def one_leaf_has_another_mac(rec: Recording, p: Params) -> Verdict:
    """leaf3's gateway has another MAC with the fault; leaf1's never has."""
    own = [_shown(rec, phase, BROKEN, "address") for phase in ACTS]
    others = {_shown(rec, phase, SIBLING, "address") for phase in ACTS}
    right = own == [ANYCAST, WRONG, ANYCAST] and others == {ANYCAST}
    return expect(right, f"{BROKEN}'s gateway {in_words(own)}, {SIBLING}'s {in_words(sorted(others))}")


def the_host_has_the_right_mac(rec: Recording, p: Params) -> Verdict:
    """h3's ARP table has the anycast MAC in every phase."""
    known = [_shown(rec, phase, "h3", "lladdr") for phase in ACTS]
    return expect(set(known) == {ANYCAST}, f"h3 sends to {in_words(known)}")


def routed_traffic_is_lost(rec: Recording, p: Params) -> Verdict:
    """h3 reaches h1 before and after the fault, and not with it; h1 reaches h2 always."""
    routed, bridged = ([answers[0] for answers in hosts_reached(rec, host)] for host in ("h3", "h1"))
    evidence = f"h3 reaches h1: {in_words(routed)}; h1 reaches h2: {in_words(bridged)}"
    return expect(routed == [True, False, True] and all(bridged), evidence)


ANSWER: Final = StoryAnswer(
    cause="gateway-mac-conflict",
    where=("leaf3",),
    level=2,
    workload="h3 pings h1 and h2, of another network",
    hints=(
        "h3 does not reach h1 for up to a minute, and then it does",
        "h3: its gateway's MAC in its own ARP table (ip neigh)",
        "the MACs of all gateways: rocelab exec leaf1 -- ip link show vlan10, and vlan20 of leaf3",
        "leaf3's gateway MAC differs from that of leaf1 and leaf2",
        "leaf3's is 02:1a:00:00:00:02, the others' 02:1a:00:00:00:01",
    ),
    sign="gateways have two MACs (ip link show of each leaf's VLAN interfaces)",
    because=(
        "leaf3's gateway has another MAC than the other leaves. Hosts that cached the anycast MAC send to it, and no "
        "port of leaf3 accepts it."
    ),
    fix="Configure the fabric's gateway MAC on leaf3; hosts that cached the other MAC resolve it again.",
    prevention="Deploy the gateway MAC from one template; compare it on all leaves.",
)

SCENARIO = Scenario(
    "gateway-mac-conflict", "roce-tenant.yaml", Params, run,
    (one_leaf_has_another_mac, the_host_has_the_right_mac, routed_traffic_is_lost, no_session_is_lost),
    answer=ANSWER,
)  # fmt: skip
