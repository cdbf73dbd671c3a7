"""A leaf does not advertise its VTEP: other switches have its EVPN routes, and cannot use them.

Story
    Given  h1 reaches h3, of the same tenant, through leaf3's VTEP
    When   leaf3 loses the line that advertises 10.252.0.3, its VTEP
    Then   leaf1 has no route to the VTEP, but one to leaf3's loopback: leaf3 is up, and its sessions are established
    And    spines still have leaf3's EVPN routes, and use none: their next hop is unreachable
    And    leaf1 has no tunnel to that VTEP, and h1 reaches h2, but not h3
    When   the line is back
    Then   h1 reaches h3

        h1 -- leaf1 === spine1,2 === leaf3 -- h3       10.253.0.3 advertised, 10.252.0.3 not

Numbers
    a route with an unreachable next hop cannot be used (RFC 4271 section 9.1.2.1), and a spine advertises only
    routes that it uses
"""

from __future__ import annotations

import json
from typing import Any, Final

from lab.scenario.api import Recording, Scenario, Stage, StoryAnswer, Verdict, expect, in_words
from lab.scenario.phase_measures import ACTS
from lab.scenario.probes.overlay_state import (
    frr,
    hosts_reached,
    paths_shown,
    paths_to,
    ping_each,
    show_paths,
    tunnel_has,
    until_reached,
)
from lab.scenario.state_changes import session_changes
from lab.scenario.three_acts import ProbeParameters, fault, three_acts
from lab.scenario.traffic.workload import commands, probe, said, show_routing

BROKEN, INGRESS, TRANSIT = "leaf3", "leaf1", "spine1"
VTEP, LOOPBACK = "10.252.0.3", "10.253.0.3"
H2, H3 = "10.1.10.3", "10.1.20.2"
L3VNI: Final = 50010
ROUTER: Final = "02:1a:00:05:00:00"
"""The MAC of leaf3's router, to which leaf1 sends packets for h3's network."""
LINES: Final = f"router bgp 4200100003; address-family ipv4 unicast; no network {VTEP}/32"
PATHS: Final = 2


def run(stage: Stage, p: ProbeParameters) -> None:
    """Advertised, not advertised, advertised."""

    def look(_: str) -> None:
        for host in ("h2", "h3"):
            probe(stage, "h1", host, count=2)
        show_paths(stage, INGRESS, VTEP)
        stage.run(INGRESS, "ping", "-n", "-q", "-c", "1", "-W", "1", LOOPBACK)
        frr(stage, TRANSIT, "show bgp l2vpn evpn route json")

    def broken() -> None:
        stage.until(lambda: paths_to(stage, INGRESS, VTEP) == 0, "leaf1 to have no route to leaf3's VTEP")
        stage.until(
            lambda: not tunnel_has(stage, INGRESS, L3VNI, VTEP, {ROUTER}), "leaf1 to lose its tunnel to leaf3"
        )

    def healed() -> None:
        stage.until(lambda: paths_to(stage, INGRESS, VTEP) == PATHS, "leaf1 to have both paths to leaf3's VTEP")
        until_reached(stage, "h1", H2, H3)

    three_acts(
        stage, p.hold, fault("frr-config", BROKEN, lines=LINES), broken=broken, healed=healed, look=look,
        show=lambda: show_routing(stage, TRANSIT, "show bgp l2vpn evpn"),
        again=lambda: ping_each(stage, "h1", "h2", "h3"),
    )  # fmt: skip


def _of_the_vtep(shown: Any) -> list[dict[str, Any]]:
    """Return all paths in FRR's routes whose next hop is the VTEP."""
    if isinstance(shown, dict) and any(hop.get("ip") == VTEP for hop in shown.get("nexthops", ())):
        return [shown]
    within = shown.values() if isinstance(shown, dict) else shown if isinstance(shown, list) else ()
    return [path for each in within for path in _of_the_vtep(each)]


def there_is_no_route_to_the_vtep(rec: Recording, p: ProbeParameters) -> Verdict:
    """leaf1 has both paths to the VTEP before and after the fault, and none with it."""
    paths = [paths_shown(rec, act) for act in ACTS]
    return expect(paths == [PATHS, 0, PATHS], f"{in_words(paths)} paths to {VTEP}")


def evpn_routes_are_not_valid(rec: Recording, p: ProbeParameters) -> Verdict:
    """spine1 has routes of the VTEP in every phase, and valid ones only without the fault."""
    paths = [_of_the_vtep(json.loads(said(rec, act, "vtysh"))) for act in ACTS]
    valid = [sum(bool(path.get("valid")) for path in each) for each in paths]
    evidence = f"{in_words([*map(len, paths)])} routes of {VTEP} at {TRANSIT}, {in_words(valid)} of them valid"
    return expect(all(paths) and valid[0] > 0 == valid[1] < valid[2], evidence)


def the_loopback_is_reached(rec: Recording, p: ProbeParameters) -> Verdict:
    """leaf3's loopback answers in every phase, and no session changes."""
    codes = [each.exit_code for act in ACTS for each in commands(rec, act, "ping") if each.node == INGRESS]
    sessions = session_changes(rec, "observe")
    evidence = f"exit codes of ping {LOOPBACK}: {in_words(codes)}, {len(sessions)} sessions changed"
    return expect(not any(codes) and not sessions, evidence)


def its_hosts_are_not_reached(rec: Recording, p: ProbeParameters) -> Verdict:
    """h1 reaches h2 in every phase, and h3 only without the fault."""
    reached = hosts_reached(rec, "h1")
    right = reached == [[True, True], [True, False], [True, True]]
    return expect(right, f"h2 and h3 are reached: {in_words(reached)}")


ANSWER: Final = StoryAnswer(
    cause="vtep-unreachable",
    where=("leaf3",),
    level=2,
    workload="h1 pings h2, of its own network, and h3, of another",
    hints=(
        "h1 does not reach h3, and reaches h2",
        "leaf3: it is up, its sessions are established, and no other leaf has a tunnel to it",
        "the number of paths that leaf1 has to other VTEPs: 10.252.0.2 and 10.252.0.3",
        "rocelab vtysh spine1 -c 'show bgp l2vpn evpn', and 'show ip route 10.252.0.3'",
        "leaf3's routes lack the star of valid routes: 10.252.0.3 is not advertised",
    ),
    sign="spines have EVPN routes whose next hop they have no route to (show bgp l2vpn evpn: no star)",
    because="leaf3 does not advertise 10.252.0.3, its VTEP. The next hop of its EVPN routes is unreachable.",
    fix="Configure network 10.252.0.3/32 in leaf3's IPv4 address family.",
    prevention="Probe VTEPs from VTEPs, and not only loopbacks; alarm on EVPN routes that are not valid.",
)

SCENARIO = Scenario(
    "vtep-unreachable", "roce-tenant.yaml", ProbeParameters, run,
    (there_is_no_route_to_the_vtep, evpn_routes_are_not_valid, the_loopback_is_reached, its_hosts_are_not_reached),
    answer=ANSWER,
)  # fmt: skip
