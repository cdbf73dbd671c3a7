"""A leaf does not announce its VTEP: its EVPN routes are told to all who ask, and lead nowhere.

Story
    Given  h1 reaches h3, of the same tenant, through leaf3's VTEP
    When   leaf3 loses the line that announces 10.252.0.3, its VTEP
    Then   leaf1 has no route to it, though it has one to leaf3's loopback: leaf3 is up, and its sessions stand
    And    spines still have leaf3's EVPN routes, and use none: their next hop cannot be resolved
    And    leaf1 has nothing behind that VTEP any more, and h1 does not reach h3; h2 it does
    When   the line is back
    Then   h1 reaches h3

        h1 -- leaf1 === spine1,2 === leaf3 -- h3       10.253.0.3 announced, 10.252.0.3 not

Numbers
    a next hop that is not resolved makes a route one that cannot be used (RFC 4271 section 9.1.2.1); spines, which
    hand on what they use, then hand on none of it
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from lab.scenario.api import Parameters, Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words, time_of
from lab.scenario.probes.overlay_state import (
    frr,
    paths_shown,
    paths_to,
    ping_each,
    show_paths,
    tunnel_has,
    until_reached,
)
from lab.scenario.state_changes import session_changes
from lab.scenario.traffic.workload import commands, probe, said, show_routing

BROKEN, SEES, BETWEEN = "leaf3", "leaf1", "spine1"
VTEP, LOOPBACK = "10.252.0.3", "10.253.0.3"
H2, H3 = "10.1.10.3", "10.1.20.2"
L3VNI: Final = 50010
ROUTER: Final = "02:1a:00:05:00:00"
"""The MAC of leaf3's router, to which leaf1 sends what is for h3's network."""
LINES: Final = f"router bgp 4200100003; address-family ipv4 unicast; no network {VTEP}/32"
PATHS: Final = 2
PHASES: Final = ("baseline", "observe", "verify")


class Params(Parameters):
    """What a reader may turn."""

    hold: Annotated[float, time_of(0, 60)] = 0.5
    """How long each phase lasts besides its probes."""


def run(stage: Stage, p: Params) -> None:
    """Announced, not announced, announced."""
    with stage.phase("baseline"):
        _look(stage, p)
    with stage.phase("inject"):
        lost = stage.inject("frr-config", BROKEN, lines=LINES)
        stage.until(lambda: paths_to(stage, SEES, VTEP) == 0, "leaf1 to have no route to leaf3's VTEP")
        stage.until(lambda: not tunnel_has(stage, SEES, L3VNI, VTEP, {ROUTER}), "leaf1 to route to leaf3 no more")
    with stage.phase("observe"):
        _look(stage, p)
    show_routing(stage, BETWEEN, "show bgp l2vpn evpn")
    stage.linger(lambda: ping_each(stage, "h1", "h2", "h3"))
    with stage.phase("fix"):
        stage.heal(lost)
        stage.until(lambda: paths_to(stage, SEES, VTEP) == PATHS, "leaf1 to have both paths to leaf3's VTEP")
        until_reached(stage, "h1", H2, H3)
    with stage.phase("verify"):
        _look(stage, p)


def _look(stage: Stage, p: Params) -> None:
    stage.hold(p.hold)
    for host in ("h2", "h3"):
        probe(stage, "h1", host, count=2)
    show_paths(stage, SEES, VTEP)
    stage.run(SEES, "ping", "-n", "-q", "-c", "1", "-W", "1", LOOPBACK)
    frr(stage, BETWEEN, "show bgp l2vpn evpn route json")


def _of_the_vtep(said: Any) -> list[dict[str, Any]]:
    """All paths in what FRR says of its routes whose next hop is the VTEP."""
    if isinstance(said, dict) and any(hop.get("ip") == VTEP for hop in said.get("nexthops", ())):
        return [said]
    within = said.values() if isinstance(said, dict) else said if isinstance(said, list) else ()
    return [path for each in within for path in _of_the_vtep(each)]


def there_is_no_route_to_the_vtep(rec: Recording, p: Params) -> Verdict:
    """leaf1 has both paths to it before and after, and none meanwhile."""
    paths = [paths_shown(rec, phase) for phase in PHASES]
    return expect(paths == [PATHS, 0, PATHS], f"{in_words(paths)} paths to {VTEP}")


def routes_are_there_and_not_used(rec: Recording, p: Params) -> Verdict:
    """spine1 has routes by the VTEP in every phase, and valid ones in all but one."""
    paths = [_of_the_vtep(json.loads(said(rec, phase, "vtysh"))) for phase in PHASES]
    valid = [sum(bool(path.get("valid")) for path in each) for each in paths]
    right = all(paths) and valid[0] > 0 == valid[1] < valid[2]
    return expect(
        right, f"{in_words([*map(len, paths)])} routes by {VTEP} at {BETWEEN}, {in_words(valid)} of them valid"
    )


def the_leaf_itself_is_reached(rec: Recording, p: Params) -> Verdict:
    """Its loopback answers in every phase, and no session changes meanwhile."""
    codes = [each.exit_code for phase in PHASES for each in commands(rec, phase, "ping") if each.node == SEES]
    sessions = session_changes(rec, "observe")
    return expect(
        not any(codes) and not sessions, f"ping {LOOPBACK}: {in_words(codes)}, {len(sessions)} changes of sessions"
    )


def its_hosts_are_not(rec: Recording, p: Params) -> Verdict:
    """h1 reaches h2 in every phase, and h3 before and after."""
    codes = [[each.exit_code for each in commands(rec, phase, "ping") if each.node == "h1"] for phase in PHASES]
    reached = [[code == 0 for code in two] for two in codes]
    return expect(
        reached == [[True, True], [True, False], [True, True]], f"h2 and h3 are reached: {in_words(reached)}"
    )


ANSWER: Final = StoryAnswer(
    cause="vtep-unreachable",
    where=("leaf3",),
    level=2,
    workload="h1 pings h2, of its own network, and h3, of another",
    hints=(
        "h1 does not reach h3, and reaches h2",
        "leaf3: it is up, its sessions stand, and no other leaf sends to its tunnel",
        "how many paths leaf1 has to the VTEPs of others: 10.252.0.2 and 10.252.0.3",
        "rocelab vtysh spine1 -c 'show bgp l2vpn evpn', and 'show ip route 10.252.0.3'",
        "leaf3's routes are there without the star of valid ones: nobody announces 10.252.0.3",
    ),
    sign="spines have EVPN routes whose next hop they have no route to (show bgp l2vpn evpn: no star)",
    because=(
        "leaf3 does not announce 10.252.0.3, its VTEP: the next hop of its EVPN routes leads nowhere, and none of "
        "them is used."
    ),
    fix="network 10.252.0.3/32 in leaf3's address family of IPv4.",
    prevention="Probe VTEPs from VTEPs, and not loopbacks alone; watch EVPN routes that are not valid.",
)

SCENARIO = Scenario(
    "vtep-unreachable", "roce-tenant.yaml", Params, run,
    (there_is_no_route_to_the_vtep, routes_are_there_and_not_used, the_leaf_itself_is_reached, its_hosts_are_not),
    answer=ANSWER,
)  # fmt: skip
