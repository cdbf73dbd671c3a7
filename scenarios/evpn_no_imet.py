"""A leaf tells nobody of its VNIs: no type-3 route asks for what is flooded, and ARP does not come through.

Story
    Given  h1 and h2, on two leaves, are in one network, and each leaf floods to the other
    When   leaf2 loses the line advertise-all-vni
    Then   leaf1 has no type-3 route of leaf2 any more, and so no VTEP to flood to in the network
    And    h1 asks for h2's address and nobody hears it: its neighbour entry fails
    And    the underlay is well: leaf1 has both paths to leaf2's VTEP, and the sessions stand
    When   the line is back
    Then   leaf1 floods to leaf2 again, and h1 reaches h2

        h1 -- leaf1  who has h2?     (nobody to flood to)     leaf2 -- h2

Numbers
    a type-3 route (inclusive multicast, RFC 7432 section 7.3) of each leaf for each network that it has
"""

from __future__ import annotations

from typing import Annotated, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words, time_of
from lab.scenario.probes.overlay_state import (
    FLOODED,
    frr,
    macs_behind,
    paths_shown,
    ping_each,
    show_fdb,
    show_paths,
    tunnel_has,
    until_reached,
)
from lab.scenario.state_changes import link_changes, session_changes
from lab.scenario.traffic.workload import commands, probe, said, show_routing

BROKEN, ASKS = "leaf2", "leaf1"
VNI: Final = 10010
VTEP, OTHER = "10.252.0.2", "10.252.0.1"
"""leaf2's, and leaf1's."""
ASKED: Final = "10.1.10.3"
"""h2's address."""
LINES: Final = "router bgp 4200100002; address-family l2vpn evpn; no advertise-all-vni"
PHASES: Final = ("baseline", "observe", "verify")


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(0, 60)] = 0.5
    """How long each phase lasts besides its probes."""


def run(stage: Stage, p: Params) -> None:
    """Told, not told, told."""

    def flooded() -> bool:
        return tunnel_has(stage, ASKS, VNI, VTEP, {FLOODED})

    with stage.phase("baseline"):
        _look(stage, p)
    with stage.phase("inject"):
        silent = stage.inject("frr-config", BROKEN, lines=LINES)
        stage.until(lambda: not flooded(), "leaf1 to flood no more to leaf2")
    with stage.phase("observe"):
        _look(stage, p)
    show_routing(stage, BROKEN, "show evpn vni")
    stage.linger(lambda: ping_each(stage, "h1", "h2", "h3"))
    with stage.phase("fix"):
        stage.heal(silent)
        stage.until(flooded, "leaf1 to flood to leaf2 again")
        stage.until(lambda: tunnel_has(stage, BROKEN, VNI, OTHER, {FLOODED}), "leaf2 to flood to leaf1 again")
        until_reached(stage, "h1", ASKED)
    with stage.phase("verify"):
        _look(stage, p)


def _look(stage: Stage, p: Params) -> None:
    """h1 has to ask anew each time."""
    stage.hold(p.hold)
    stage.run("h1", "ip", "neigh", "flush", "to", ASKED)
    probe(stage, "h1", "h2", count=2)
    show_fdb(stage, ASKS, VNI)
    frr(stage, ASKS, "show bgp l2vpn evpn route type multicast json")
    show_paths(stage, ASKS, VTEP)


def no_route_asks_for_floods(rec: Recording, p: Params) -> Verdict:
    """leaf1's table has leaf2's type-3 route before and after, and not meanwhile."""
    found = [VTEP in said(rec, phase, "vtysh") for phase in PHASES]
    return expect(found == [True, False, True], f"a type-3 route of {VTEP}: {in_words(found)}")


def the_flood_list_lacks_it(rec: Recording, p: Params) -> Verdict:
    """So has leaf1's kernel it in its flood list."""
    found = [FLOODED in macs_behind(rec, phase, VTEP) for phase in PHASES]
    return expect(found == [True, False, True], f"{VTEP} is flooded to: {in_words(found)}")


def asking_fails(rec: Recording, p: Params) -> Verdict:
    """h1 reaches h2 before and after, and not meanwhile."""
    codes = [max(each.exit_code for each in commands(rec, phase, "ping")) for phase in PHASES]
    return expect([code == 0 for code in codes] == [True, False, True], f"ping ended with {in_words(codes)}")


def the_underlay_is_well(rec: Recording, p: Params) -> Verdict:
    """Meanwhile leaf1 has two paths to leaf2's VTEP, and no session or link has changed."""
    paths = paths_shown(rec, "observe")
    links = link_changes(rec, "observe")
    sessions = session_changes(rec, "observe")
    told = f"{paths} paths to {VTEP}, {len(links)} link events, {len(sessions)} changes of sessions"
    return expect(paths == 2 and not links and not sessions, told)


ANSWER: Final = StoryAnswer(
    cause="evpn-no-imet",
    where=("leaf2",),
    level=2,
    workload="h1 pings h2, of its own network, and h3, of another",
    hints=(
        "h1 does not reach h2, whose address it asks for in vain; h3 it reaches",
        "leaf2: nobody floods to it, though all reach its VTEP",
        "whom leaf1 and leaf3 flood to: bridge fdb show dev vni10010, entries of 00:00:00:00:00:00",
        "rocelab vtysh leaf1 -c 'show bgp l2vpn evpn route type multicast'",
        "leaf2 has no type-3 route there: it does not say advertise-all-vni",
    ),
    sign="sessions carry EVPN, and a leaf tells no type-3 route (show bgp l2vpn evpn route type multicast)",
    because="leaf2 lacks advertise-all-vni: it tells nobody of its VNIs, and nobody floods to it what asks for h2.",
    fix="advertise-all-vni in leaf2's address family of EVPN.",
    prevention="Count type-3 routes: as many for each VNI as leaves have it (rocelab status --evpn).",
)

SCENARIO = Scenario(
    "evpn-no-imet", "roce-tenant.yaml", Params, run,
    (no_route_asks_for_floods, the_flood_list_lacks_it, asking_fails, the_underlay_is_well),
    answer=ANSWER,
)  # fmt: skip
